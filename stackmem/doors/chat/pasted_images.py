"""Images that the user pastes or drops. The input line shows each as a label such as ``[Image 1]``."""

from __future__ import annotations

import base64
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from stackmem.cli.screen.text import one_line
from stackmem.foreign.files import read_regular, read_start
from stackmem.formats.pictures.headers import header
from stackmem.run.companion.pictures import MAX_FILE_BYTES, PDF, BrokenImage, media_of
from stackmem.run.ports import UserFile

CLIPBOARD_SECONDS = 5.0
_LONGEST_DROP = 8_192
_MAX_DROPPED = 20
_NAMED_IMAGE = re.compile(r"\.(?:png|jpe?g|gif|webp)$", re.IGNORECASE)
_LABEL = re.compile(r"\[Image (\d{1,6})\]")
_APPLE_HEX = re.compile(rb"data PNGf([0-9A-Fa-f]+)")
_POWERSHELL = (
    "Add-Type -AssemblyName System.Windows.Forms, System.Drawing; "
    "$i = [System.Windows.Forms.Clipboard]::GetImage(); if ($i) { $m = New-Object IO.MemoryStream; "
    "$i.Save($m, [Drawing.Imaging.ImageFormat]::Png); [Convert]::ToBase64String($m.ToArray()) }"
)


class PasteRefused(Exception):  # noqa: N818 - a message for the user
    """Why an image cannot be pasted, and what to do instead."""


class PastedImages:
    """The images of a conversation in this process, by label."""

    def __init__(self) -> None:
        self._images: list[bytes] = []

    def add(self, raw: bytes, source: str) -> tuple[str, str]:
        """Store an image. Return its label, and a message about it.

        Raise PasteRefused if the bytes are not a usable image.
        """
        media = media_of(raw[:1024])
        if not media or media == PDF:
            raise PasteRefused(f"not attached: {source} is not a PNG, JPEG, GIF or WebP image")
        try:
            head = header(raw)
        except BrokenImage as error:
            raise PasteRefused(f"not attached: the image in {source} is broken: {error}") from error
        self._images.append(raw)
        label = f"[Image {len(self._images)}]"
        return label, f"{label} is {source}: {head.kind}, {head.width} x {head.height} pixels"

    def dropped(self, pasted: str) -> tuple[str, list[str]]:
        """Return the labels for a paste that consists of paths of images, and messages.

        The text is empty if the paste is another text, or if one of the images cannot be used.
        """
        labels: list[str] = []
        messages: list[str] = []
        for path in _image_paths(pasted):
            source = one_line(path.name)
            try:
                label, message = self.add(read_regular(path, MAX_FILE_BYTES["image"]), source)
            except OSError as error:
                return "", [f"not attached: {source} cannot be read ({error.strerror})"]
            except PasteRefused as refused:
                return "", [str(refused)]
            labels.append(label)
            messages.append(message)
        return "".join(f"{label} " for label in labels), messages

    def attached(self, words: str) -> tuple[list[UserFile], list[str]]:
        """Return the images whose labels are in a text that the user sends, and messages about unknown labels."""
        images: list[UserFile] = []
        messages: list[str] = []
        for number in dict.fromkeys(int(match[1]) for match in _LABEL.finditer(words)):
            if 0 < number <= len(self._images):
                images.append(UserFile(f"Image {number}", raw=self._images[number - 1]))
            else:
                messages.append(f"not attached: no image was pasted here as [Image {number}]; paste it again")
        return images, messages


def _image_paths(pasted: str) -> list[Path]:
    """Return the paths of a dropped text if all of them name images; terminals quote or escape spaces."""
    text = pasted.strip()
    if not text or len(text) > _LONGEST_DROP or not text.startswith(("/", "'", '"', "file://")):
        return []
    for split in (_as_list, shlex.split):
        with suppress(ValueError):
            paths = [_path(word) for word in split(text)]
            if 0 < len(paths) <= _MAX_DROPPED and all(map(_is_image, paths)):
                return paths
    return []


def _as_list(text: str) -> list[str]:
    return [text]


def _path(word: str) -> Path:
    if word.startswith("file://"):
        return Path(unquote(urlsplit(word).path))
    return Path(word)


def _is_image(path: Path) -> bool:
    """Return whether an absolute path is a file with the name or the first bytes of an image."""
    try:
        if not path.is_absolute() or not path.is_file():
            return False
        return bool(_NAMED_IMAGE.search(path.name)) or media_of(read_start(path, 1024)) not in ("", PDF)
    except (OSError, ValueError):
        return False


class _ClipboardProgram(Struct, frozen=True):
    """A program that prints the image on the clipboard."""

    command: tuple[str, ...]
    decode: Callable[[bytes], bytes] = bytes


def _from_apple(printed: bytes) -> bytes:
    match = _APPLE_HEX.search(printed)
    return bytes.fromhex(match[1].decode()) if match else b""


_PROGRAMS = (
    _ClipboardProgram(("wl-paste", "--no-newline", "--type", "image/png")),
    _ClipboardProgram(("xclip", "-selection", "clipboard", "-target", "image/png", "-out")),
    _ClipboardProgram(("pngpaste", "-")),
    _ClipboardProgram(("osascript", "-e", "get the clipboard as «class PNGf»"), _from_apple),
    _ClipboardProgram(("powershell.exe", "-NoProfile", "-STA", "-Command", _POWERSHELL), base64.b64decode),
)


def clipboard_image(environ: Mapping[str, str]) -> bytes:
    """Return the image on the clipboard, read by the first program that is installed and prints one.

    Raise PasteRefused if the clipboard has no image, or a program that reads it is missing.
    """
    path = environ.get("PATH")
    installed = [each for each in _PROGRAMS if shutil.which(each.command[0], path=path)]
    if not installed:
        raise PasteRefused(
            "no program here reads images from the clipboard: install wl-clipboard, xclip or pngpaste, "
            "or drop the file on the terminal, or attach it with @FILE"
        )
    for program in installed:
        with suppress(OSError, ValueError):
            raw = program.decode(_printed(program.command, environ))
            if len(raw) > MAX_FILE_BYTES["image"]:
                raise PasteRefused(f"the image on the clipboard is larger than {MAX_FILE_BYTES['image'] >> 20} MB")
            if media_of(raw[:1024]):
                return raw
    raise PasteRefused("the clipboard has no image; to attach a file, drop it on the terminal or type @FILE")


def _printed(command: tuple[str, ...], environ: Mapping[str, str]) -> bytes:
    """Run a program and return what it prints, within limits of size and time."""
    limit = 3 * MAX_FILE_BYTES["image"]  # osascript prints two characters for each byte
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env=dict(environ), start_new_session=True,
    ) as process:  # fmt: skip
        timer = threading.Timer(CLIPBOARD_SECONDS, _end, [process.pid])
        timer.start()
        try:
            printed = process.stdout.read(limit) if process.stdout is not None else b""
        finally:
            timer.cancel()
            _end(process.pid)
    return printed


def _end(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
