"""The input line with keys from a pipe: pastes, the editor, the history, and the keys of vim."""

import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from stackmem.doors.chat.line_editor import EDIT_LAST, GRACE_SECONDS, LineEditor
from stackmem.doors.chat.mentions import ChatCompleter

from .tmux import until

LARGE = "\n".join(f"line {number}" for number in range(5_000))


class Terminal(DummyOutput):
    """A terminal that notes whether its paste mode is on."""

    def __init__(self) -> None:
        self.paste_modes: list[bool] = []

    def enable_bracketed_paste(self) -> None:
        self.paste_modes.append(True)

    def disable_bracketed_paste(self) -> None:
        self.paste_modes.append(False)


class Late(SimpleQueue):
    """A queue whose writer goes on late, as on a busy machine."""

    def put(self, item):
        super().put(item)
        time.sleep(0.3)


@contextmanager
def line(
    tmp_path: Path, *, vim: bool = False, terminal: Terminal | None = None
) -> Iterator[tuple[LineEditor, Callable[[str], None]]]:
    history = tmp_path / "history"
    with (
        create_pipe_input() as keys,
        create_app_session(keys, terminal or DummyOutput()),
        LineEditor(ChatCompleter(tmp_path), history, lambda: "status", vim=vim) as editor,
    ):

        def type_keys(text: str) -> None:
            editor._asks = True  # as if ``ask`` already waited, so that no line is lost
            keys.send_text(text)

        yield editor, type_keys


def paste(text: str) -> str:
    return f"\x1b[200~{text}\x1b[201~"


def test_a_large_paste_is_folded_on_the_line_and_complete_when_it_is_sent(tmp_path: Path):
    with line(tmp_path) as (editor, type_keys):
        type_keys(f"see {paste(LARGE)} and {paste('x' * 5_000)} {paste('y' * 5_000)}{paste('short')}\r")
        assert editor.ask("> ") == f"see {LARGE} and {'x' * 5_000} {'y' * 5_000}short"


def test_a_label_that_the_user_types_or_pastes_is_an_ordinary_text(tmp_path: Path):
    label = "[Pasted text, 5,000 lines]"
    with line(tmp_path) as (editor, type_keys):
        type_keys(f"{label}\r")
        assert editor.ask("> ") == label
        type_keys(paste(label + "\n" + LARGE) + "\r")
        assert editor.ask("> ") == f"{label}\n{LARGE}"


def test_escape_sequences_in_a_paste_are_removed(tmp_path: Path):
    with line(tmp_path) as (editor, type_keys):
        type_keys(paste("a\x1b]0;owned\x07b\x1b[2Jc") + "\r")
        assert editor.ask("> ") == "a]0;ownedbc"


def test_the_history_is_searched_across_conversations_and_only_the_user_can_read_it(tmp_path: Path):
    with line(tmp_path) as (editor, type_keys):
        for text in ("a Needle in May", "something else"):
            type_keys(f"{text}\r")
            assert editor.ask("> ") == text
    assert stat.S_IMODE((tmp_path / "history").stat().st_mode) == 0o600
    with line(tmp_path) as (editor, type_keys):
        type_keys("\x12needle")
        type_keys("\r\r")
        assert editor.ask("> ") == "a Needle in May"


def test_ctrl_x_ctrl_e_opens_the_line_in_the_editor_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program = tmp_path / "edit"
    program.write_text('#!/bin/sh\nprintf "edited " | cat - "$1" > "$1.new" && mv "$1.new" "$1"\n')
    program.chmod(0o755)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", os.fspath(program))
    with line(tmp_path) as (editor, type_keys):
        type_keys("words\x18\x05")
        while not editor._session.default_buffer.text.startswith("edited"):
            time.sleep(0.01)
        type_keys("\r")
        assert editor.ask("> ") == "edited words"


def test_escape_twice_on_an_empty_line_takes_back_the_last_request(tmp_path: Path):
    with line(tmp_path) as (editor, type_keys):
        type_keys("\x1b")
        while not editor._escaped_at:
            time.sleep(0.01)
        type_keys("\x1b")
        assert editor.ask("> ") == EDIT_LAST


def test_the_keys_of_vim(tmp_path: Path):
    with line(tmp_path, vim=True) as (editor, type_keys):
        type_keys("one two")
        type_keys("\x1b")
        while editor._session.app.vi_state.input_mode != "vi-navigation":
            time.sleep(0.01)
        type_keys("0dw\r")
        assert editor.ask("> ") == "two"


def test_a_user_in_another_window_is_notified_and_one_at_the_terminal_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with line(tmp_path) as (editor, type_keys):
        written: list[str] = []
        monkeypatch.setattr(editor, "_write_raw", written.append)
        editor._answered_at -= 60
        editor._notify()
        assert written == []  # the terminal has not reported a lost focus
        type_keys("\x1b[Ow")
        while not editor._session.default_buffer.text:
            time.sleep(0.01)
        editor._notify()
        assert written[0].startswith("\x07\x1b]9;stackmem: ")
        type_keys("\x1b[Io")
        while editor._session.default_buffer.text != "wo":  # no report becomes text
            time.sleep(0.01)
        editor._notify()
        assert len(written) == 1


def test_a_file_can_be_dropped_at_any_moment_while_lines_are_printed(tmp_path: Path, capsys):
    terminal = Terminal()
    with line(tmp_path, terminal=terminal) as (editor, type_keys):
        for number in range(5):
            editor.say(f"line {number}")
            until(lambda: "line" in capsys.readouterr().out, lambda: "nothing was printed")
        assert terminal.paste_modes[0]
        assert False not in terminal.paste_modes
        type_keys("sent\r")
        assert editor.ask("> ") == "sent"
        until(lambda: terminal.paste_modes[-1], lambda: str(terminal.paste_modes))
    assert not terminal.paste_modes[-1]


def test_a_question_right_after_a_line_neither_puts_the_line_back_nor_loses_a_draft(tmp_path: Path):
    with line(tmp_path) as (editor, type_keys):
        editor._answers = Late()
        type_keys("sent\r")
        assert editor.ask("> ") == "sent"
        threading.Timer(GRACE_SECONDS + 0.5, type_keys, ["y\r"]).start()
        assert editor.ask("allow? ", confirms=True) == "y"
        type_keys("next\r")
        assert editor.ask("> ") == "next"
        threading.Timer(0.6, type_keys, ["!\r"]).start()
        assert editor.ask("> ", draft="again") == "again!"
