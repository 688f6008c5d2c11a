"""Reads images and pages of PDFs for the model: converts them, stores them with the run, and names them in a line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from msgspec import UNSET, Struct

from stackmem.core.errors import TraceError, WorkspaceError
from stackmem.core.images import ImageRef, Images, listed
from stackmem.core.images.vision import Vision
from stackmem.core.neighbors import neighbor
from stackmem.core.tools import ReadFile
from stackmem.run.companion.pictures import MAX_FILE_BYTES, PDF, BrokenImage, PictureRefused, Pictures, media_of
from stackmem.trace.images import images_of, keep_image
from stackmem.workspace.clip import shown_name
from stackmem.workspace.files import Files
from stackmem.workspace.outcome import ToolOutcome
from stackmem.workspace.refusals import ToolRefused, quote
from stackmem.workspace.workspace import Workspace

from ..ports import Returned, WorkspacePort

BLIND = "you cannot see images"
_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf")
_PAGES = re.compile(r"(\d{1,6})(?:\s*-\s*(\d{1,6}))?")
_NAME_CHARS = 80
_MAX_PAGES_NAMED = 1_000


class Eyes(Struct, frozen=True):
    """Shows files as images."""

    vision: Vision | None  # how the run's model takes images. None if it cannot see any
    files: Files  # the files of the workspace
    run_dir: Path  # the run's folder, which stores the images

    def read(self, path: str, pages: str, text: Callable[[], Returned]) -> Returned:
        """Return the file as images if it is an image or a PDF, otherwise what ``text`` returns."""
        likely = PurePosixPath(path).suffix.lower() in _SUFFIXES
        outcome = None if likely else text()
        if outcome is not None and not (outcome.failed and outcome.text.startswith("binary, ")):
            return _refused(path, "it is text without pages; leave `pages` out") if pages else outcome
        try:
            raw = self.files.read_whole(path, max(MAX_FILE_BYTES.values()))
        except ToolRefused as refused:
            return ToolOutcome(str(refused), failed=True)
        media = media_of(raw[:1024])
        if not media:
            outcome = outcome or text()
            if likely and outcome.failed:
                kinds = "a PNG, JPEG, GIF or WebP image or a PDF"
                return _refused(path, f"it is not {kinds}, whatever its name says; {outcome.text}")
            return outcome
        return self.show(raw, path, pages)

    def show(self, raw: bytes, path: str, pages: str = "") -> ToolOutcome:
        """Return an image or a PDF from its bytes."""
        if self.vision is None:
            return _refused(path, _blind(raw))
        try:
            return self.stored(neighbor("formats: convert to pictures")(raw, self.vision, page_numbers(pages)), path)
        except PictureRefused as refused:
            return _refused(path, str(refused))

    def stored(self, pictures: Pictures, path: str) -> ToolOutcome:
        """Store pictures and return their references with the line that names them."""
        assert self.vision is not None  # noqa: S101 - without it nothing is converted
        refs = []
        for each in pictures.pictures:
            digest = keep_image(self.run_dir, each.raw)
            tokens = self.vision.tokens(each.width, each.height)
            refs.append(ImageRef(digest, each.media, len(each.raw), each.width, each.height, tokens))
        name = shown_name(path)[-_NAME_CHARS:].replace("[", "(").replace("]", ")")
        digests = ", ".join(f"sha256:{ref.digest[:12]}" for ref in refs)
        word = "images" if len(refs) > 1 else "image"
        return ToolOutcome(f"[{word}: {name}, {pictures.description}, {digests}]", images=tuple(refs))


def eyes_of(workspace: object, vision: Vision | None, run_dir: Path) -> Eyes | None:
    """Return what shows the files of a workspace as images. A workspace in memory has none."""
    return Eyes(vision, workspace.files, run_dir) if isinstance(workspace, Workspace) else None


def read_file(workspace: WorkspacePort, eyes: Eyes | None, call: ReadFile, shown_bytes: int) -> Returned:
    """Return a file of the workspace as text, or as images if it is one."""

    def text() -> Returned:
        return workspace.read_file(call.path, call.start_line, call.end_line, shown_bytes)

    return text() if eyes is None else eyes.read(call.path, call.pages, text)


def shown_image(eyes: Eyes | None, raw: bytes, name: str) -> ToolOutcome:
    """Return an image that the user passed directly."""
    return eyes.show(raw, name) if eyes is not None else _refused(name, "this run cannot store images")


def with_pictures(
    eyes: Eyes | None, text: str, pictures: tuple[bytes | ImageRef, ...], name: str
) -> tuple[str, Images]:
    """Return the text of a result with a line for each new image, and its images, including recorded ones."""
    images = [ref for ref in pictures if isinstance(ref, ImageRef)]
    for number, raw in enumerate((raw for raw in pictures if isinstance(raw, bytes)), 1):
        if eyes is not None:
            outcome = eyes.show(raw, f"{name} {number}")
            text, images = f"{text}\n{outcome.text}", [*images, *listed(outcome.images)]
    return text, tuple(images) or UNSET


def page_numbers(pages: str) -> tuple[int, ...]:
    """Parse the pages of a call, such as ``3``, ``1-4`` or ``1, 5-6``. Empty means none are named."""
    numbers: dict[int, None] = {}
    for part in filter(None, (piece.strip() for piece in pages.split(","))):
        match = _PAGES.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 0 < first <= last:
            raise PictureRefused(f"pages={pages[:40]!r} names no pages; write 3, 1-4 or 1,5-6")
        if last - first > _MAX_PAGES_NAMED:
            raise PictureRefused(f"{last - first + 1:,} pages are too many together; read at most 10")
        numbers |= dict.fromkeys(range(first, last + 1))
    return tuple(sorted(numbers))


def image_bytes(run_dir: Path) -> Callable[[str], bytes]:
    """Return the reader of a run's images for requests. A missing image ends the run as ``workspace_error``."""
    read = images_of(run_dir)

    def image(digest: str) -> bytes:
        try:
            return read(digest)
        except TraceError as error:
            raise WorkspaceError(str(error)) from error

    return image


def _blind(raw: bytes) -> str:
    media = media_of(raw[:1024])
    if media == PDF:
        return f"it is a PDF, and {BLIND}; extract its text with run_command"
    if not media:
        return "it is not a PNG, JPEG, GIF or WebP image or a PDF"
    try:
        head = neighbor("formats: header of an image")(raw)
    except BrokenImage as error:
        return f"it is a broken image ({error}), and {BLIND}"
    return f"it is a {head.kind} image of {head.width} x {head.height} pixels, and {BLIND}"


def _refused(path: str, reason: str) -> ToolOutcome:
    return ToolOutcome(f"{quote(path)} cannot be shown: {reason}", failed=True)
