"""Images that the user drops on the terminal or pastes from the clipboard."""

import os
import time
from pathlib import Path

import pytest

from stackmem import replay
from stackmem.core.person_facts import PersonAttached
from stackmem.doors.chat import pasted_images
from stackmem.doors.chat.pasted_images import PastedImages, PasteRefused, clipboard_image
from tests.providers.image_rules import png
from tests.stage import Stage

from .test_line_editor import line, paste
from .test_tmux import facts, only_run
from .tmux import until

SHOT = png(80, 60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my shot.png").write_bytes(SHOT)
    (tmp_path / "photo").write_bytes(SHOT)
    (tmp_path / "notes.txt").write_text("words\n")
    (tmp_path / "cut.png").write_bytes(SHOT[:20])
    (tmp_path / "text.png").write_text("words\n")
    with (tmp_path / "large.png").open("wb") as file:
        file.write(SHOT)
        file.truncate(50_000_000)
    return tmp_path


@pytest.mark.parametrize(
    "dropped",
    ["'{}/my shot.png'", '"{}/my shot.png"', "{}/my\\ shot.png ", "{}/my shot.png", "file://{}/my%20shot.png\n"],
)
def test_a_dropped_path_becomes_a_label_in_every_form_that_terminals_send(folder: Path, dropped: str):
    images = PastedImages()
    labels, messages = images.dropped(dropped.format(folder))
    assert labels == "[Image 1] "
    assert messages == ["[Image 1] is my shot.png: PNG, 80 x 60 pixels"]
    (file,), unknown = images.attached("see [Image 1] and [Image 1]")
    assert (file.path, file.raw, unknown) == ("Image 1", SHOT, [])


def test_several_files_are_dropped_together_and_one_that_is_no_image_keeps_the_text(folder: Path):
    images = PastedImages()
    assert images.dropped(f"{folder}/photo '{folder}/my shot.png'")[0] == "[Image 1] [Image 2] "
    for text in (f"{folder}/photo {folder}/notes.txt", f"{folder}", "photo", "/missing.png", "'", "/\0.png", ""):
        assert images.dropped(text) == ("", [])
    assert images.attached("[Image 3] [Image 0]")[1][0] == (
        "not attached: no image was pasted here as [Image 3]; paste it again"
    )


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("cut.png", "the image in cut.png is broken: "),
        ("text.png", "text.png is not a PNG, JPEG, GIF or WebP image"),
        ("large.png", "large.png cannot be read (it is larger than 32 MiB"),
    ],
)
def test_an_unusable_image_is_named_and_its_path_stays_on_the_line(folder: Path, name: str, says: str):
    with line(folder) as (editor, type_keys):
        type_keys(f"see {paste(f'{folder}/{name}')}\r")
        assert editor.ask("> ") == f"see {folder}/{name}"
        assert editor.images.dropped(f"{folder}/{name}")[1][0].startswith(f"not attached: {says}")


def program(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def test_the_first_program_with_an_image_is_used(folder: Path):
    environ = {"PATH": f"{folder}:/usr/bin:/bin"}
    program(folder, "wl-paste", "echo no image; exit 1")
    program(folder, "xclip", f'[ "$4" = image/png ] && cat "{folder}/my shot.png"')
    assert clipboard_image(environ) == SHOT
    program(folder, "xclip", "exit 1")
    program(folder, "osascript", f"echo '«data PNGf{SHOT.hex().upper()}»'")
    assert clipboard_image(environ) == SHOT
    program(folder, "osascript", "echo '«data PNGf8»'")
    program(folder, "powershell.exe", f'base64 "{folder}/photo"')
    assert clipboard_image(environ) == SHOT


def test_without_a_program_or_an_image_the_user_reads_what_to_do(folder: Path, monkeypatch: pytest.MonkeyPatch):
    environ = {"PATH": os.fspath(folder)}
    with pytest.raises(PasteRefused, match="install wl-clipboard, xclip or pngpaste"):
        clipboard_image(environ)
    monkeypatch.setattr(pasted_images, "CLIPBOARD_SECONDS", 0.2)
    program(folder, "wl-paste", "/bin/sleep 60 & /bin/sleep 60")
    begun = time.monotonic()
    with pytest.raises(PasteRefused, match="the clipboard has no image"):
        clipboard_image(environ)
    assert time.monotonic() - begun < 20


@pytest.fixture
def clipboard(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program on PATH that prints an image as the clipboard."""
    place = stage.root / "programs"
    place.mkdir()
    (stage.root / "shot.png").write_bytes(SHOT)
    program(place, "wl-paste", f'cat "{stage.root}/shot.png"')
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    return place


def test_a_conversation_with_an_image_that_was_dropped_and_one_from_the_clipboard(
    stage: Stage, clipboard: Path, tmux
):  # fmt: skip
    window = tmux("--model", stage.script({"text": "Seen."}, {"text": "Again."}), "--network", "none", "--vision", "on")
    window.wait_for("Type a request")
    window.type("compare ")
    window.paste(f"'{stage.root}/shot.png'")
    window.wait_for("[Image 1] is shot.png: PNG, 80 x 60 pixels")
    window.type("with ", "C-v")
    window.wait_for("[Image 2] is the image on the clipboard: PNG")
    window.wait_for_line("> compare [Image 1] with [Image 2]")
    window.type("Enter")
    window.wait_for("(attached Image 2:")
    window.wait_for("Seen.")
    program(clipboard, "wl-paste", "exit 1")
    window.type("C-v")
    window.wait_for("the clipboard has no image")
    window.type("C-d")
    attached = facts(stage, PersonAttached)
    assert [(each.path, each.failed, len(each.images)) for each in attached] == [
        ("Image 1", False, 1), ("Image 2", False, 1),
    ]  # fmt: skip
    until(lambda: not window.lives(), window.history)
    assert replay(only_run(stage)).prompts
