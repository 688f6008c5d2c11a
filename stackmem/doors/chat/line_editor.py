"""The input line at the bottom of the terminal: available at any time, while output scrolls above it.

It runs in its own thread, so keys respond immediately. ``ask`` waits for a line in the main thread; lines typed
while nothing waits go to ``on_line``.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer
from prompt_toolkit.filters import Condition, is_searching, vi_insert_mode
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import ColorDepth

from stackmem.cli.screen.text import readable, rows_of
from stackmem.settings.tools.bounded_calls import next_of

from .editing_keys import FOCUS_OFF, FOCUS_ON, EditingKeys, add_deafness, call_when_sent
from .mentions import is_mention
from .pastes import kept_history

GRACE_SECONDS = 0.35
"""A new question ignores keys for this long, because the user was still typing something else."""
EDIT_LAST = "/undo"
"""The command of Escape twice: takes back the last request and puts its words on the line."""
_WRITES_A_SECOND = 20
_KEY_SECONDS = 0.01
_LIVE_LINES = 8
_LIVE_SECONDS = 0.1
_LIVE_CHARS = 4_000
_TWICE_SECONDS = 0.7

NOTIFIED_SECONDS = 5.0
"""A user who answered less than this long ago is not notified."""
_FOCUS_IN, _FOCUS_OUT = Keys.F23, Keys.F24
"""The library knows no keys for the two focus reports, and keyboards have no such keys."""
ANSI_SEQUENCES.update({"\x1b[I": _FOCUS_IN, "\x1b[O": _FOCUS_OUT})

Fragments = StyleAndTextTuples


class LineEditor:
    """The input line."""

    def __init__(
        self, completer: Completer, history: Path | None, status: Callable[[], str], *, vim: bool = False
    ) -> None:
        """Prepare the line; entering the context shows it.

        ``status`` returns the line below the input; it is called several times a second.
        """
        self.on_line: Callable[[str], object] = _nothing  # receives lines typed while nothing waits for one
        self.on_pause: Callable[[], object] = _nothing  # called for Escape or Ctrl-C while nothing waits for a line
        # renders the end of a streaming text for a width, with colors. None shows it as it is
        self.format_live: Callable[[str, int], str] | None = None
        self._status = status
        self._rendered = ("", 0), ""
        self._live_is_due, self._redrawn_at = False, 0.0
        self._is_focused = True  # until the terminal says otherwise
        self._answered_at = time.monotonic()
        self._pending_texts: list[str] = []
        self._live = ""
        self._prompt = "> "
        self._asks = False
        self._deaf_until = 0.0
        self._draft = ""
        self._editing = EditingKeys(self.say, self._insert)
        self.images = self._editing.images  # the images that the user pasted
        self._escaped_at = 0.0  # when Escape was pressed last
        self._answers: SimpleQueue[str | BaseException | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._ends = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news: asyncio.Event | None = None
        self._ready = threading.Event()
        self._session: PromptSession[str] = PromptSession(
            message=self._message,
            bottom_toolbar=self._toolbar,
            multiline=True,
            completer=completer,
            complete_while_typing=Condition(self._shows_menu),
            complete_in_thread=True,
            history=kept_history(history, self._editing.pastes),
            search_ignore_case=True,
            tempfile_suffix=".md",
            vi_mode=vim,
            key_bindings=self._keys(),
            erase_when_done=True,
            refresh_interval=0.25,
            color_depth=ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else None,
        )
        self._session.app.ttimeoutlen = self._session.app.timeoutlen = _KEY_SECONDS
        self._is_reading = False  # whether the buffer has the next line; after Enter it has the sent one for a moment
        call_when_sent(self._session.default_buffer, self._end_reading)
        self._thread = threading.Thread(target=self._run, name="line", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.set()
        self._in_loop(self._close)
        self._thread.join(timeout=2)
        self._write_rest()

    def say(self, *texts: str) -> None:
        """Print texts above the line; the caller has removed unprintable characters."""
        with self._lock:
            self._pending_texts += [text if text.endswith("\n") else f"{text}\n" for text in texts]
        self._in_loop(self._wake)

    def show_live(self, text: str) -> None:
        """Show the end of a text that is still streaming; an empty text removes it."""
        self._live = text
        if not text:
            self._in_loop(self._session.app.invalidate)
        elif not self._live_is_due:  # text may arrive faster than it is worth a redraw
            self._live_is_due = True
            wait = max(0.0, self._redrawn_at + _LIVE_SECONDS - time.monotonic())
            self._in_loop(lambda: self._loop and self._loop.call_later(wait, self._redraw_live))

    def _redraw_live(self) -> None:
        self._live_is_due, self._redrawn_at = False, time.monotonic()
        self._session.app.invalidate()

    def ask(self, prompt: str, *, draft: str = "", confirms: bool = False) -> str | None:
        """Wait for a line; return None if the user quits.

        ``draft`` is the initial text of the line. ``confirms`` says whether the line answers a permission question.
        Text typed before the question is then not an answer, and is put back afterwards.
        """
        before = ""
        if confirms:
            before = self._typed()
            self._in_loop(lambda: self._set_text(""))
            self._deaf_until = time.monotonic() + GRACE_SECONDS
        elif draft and not self._typed():  # what the user has typed meanwhile stays
            self._in_loop(lambda: self._set_text(draft))
        self._prompt, self._asks = prompt, True
        self._in_loop(self._notify)
        self._in_loop(self._session.app.invalidate)
        try:
            answer = next_of(self._answers)
        finally:
            self._prompt, self._asks = "> ", False
            self._answered_at = time.monotonic()
            if before:
                self._in_loop(lambda: self._set_text(before))
            self._in_loop(self._session.app.invalidate)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _run(self) -> None:
        try:
            asyncio.run(self._read())
        except BaseException as error:  # noqa: BLE001 - a caller that waits for a line must not wait forever
            self._answers.put(error if isinstance(error, Exception) else None)
        finally:
            self._loop = None
            self._ready.set()

    async def _read(self) -> None:
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        printing = asyncio.create_task(self._print())
        with self._session.app.input.raw_mode():  # raw mode also between two lines
            self._ready.set()
            self._write_raw(FOCUS_ON)
            await self._read_lines()
            self._session.app.output.disable_bracketed_paste()
            self._write_raw(FOCUS_OFF)
        printing.cancel()

    async def _read_lines(self) -> None:
        while not self._ends.is_set():
            try:
                line = await self._session.prompt_async(
                    handle_sigint=False, set_exception_handler=False, default="", pre_run=self._begin_reading
                )
            except EOFError:
                if self._ends.is_set():
                    break
                self._answers.put(None)
                if not self._asks:
                    self.on_pause()
                continue
            finally:
                self._is_reading = False
                self._keep_paste_mode()
            line = self._editing.pastes.sent(line)
            if self._asks:
                self._asks = False  # the next line belongs to the next question
                self._answers.put(line)
            elif line.strip():
                self.on_line(line)

    def _keep_paste_mode(self) -> None:
        """Turn the paste mode on again, which the library turns off after each line."""
        self._session.app.output.enable_bracketed_paste()
        self._session.app.output.flush()

    async def _print(self) -> None:
        news = self._news
        while news is not None:
            await news.wait()
            news.clear()
            self._write_above()
            await asyncio.sleep(1 / _WRITES_A_SECOND)

    def _write_above(self) -> None:
        """Print pending output, and redraw the line below it.

        The library's own method leaves raw mode for a moment, in which Enter would become a different key. It also
        leaves the paste mode, so a file dropped before the next redraw would arrive as typed keys.
        """
        app = self._session.app
        if self._editing.is_in_editor:
            return
        if not app.is_running:
            self._write_rest()
            return
        app.renderer._bracketed_paste_enabled = False  # noqa: SLF001 - no other way to keep the paste mode while erasing
        app.renderer.erase()
        app.output.flush()
        self._write_rest()
        app.renderer.request_absolute_cursor_position()
        app.invalidate()

    def _write_rest(self) -> None:
        with self._lock:
            text, self._pending_texts = "".join(self._pending_texts), []
        if text:
            with suppress(OSError):
                sys.stdout.write(text)
                sys.stdout.flush()

    def _in_loop(self, call: Callable[[], object]) -> None:
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop has just ended
                loop.call_soon_threadsafe(call)

    def _wake(self) -> None:
        if self._news is not None:
            self._news.set()

    def _close(self) -> None:
        if self._session.app.is_running:
            self._session.app.exit(exception=EOFError)

    def _set_text(self, text: str) -> None:
        if not self._is_reading:
            self._draft = text
            return
        buffer = self._session.default_buffer
        buffer.text = text
        buffer.cursor_position = len(text)

    def _typed(self) -> str:
        """Return what the user has typed and not sent."""
        return self._session.default_buffer.text if self._is_reading else self._draft

    def _end_reading(self) -> None:
        self._is_reading = False

    def _begin_reading(self) -> None:
        self._is_reading = True
        draft, self._draft = self._draft, ""
        if draft:
            self._set_text(draft)

    def _message(self) -> Fragments:
        columns = self._session.app.output.get_size().columns
        if self.format_live is not None and self._live:
            key = self._live, columns
            if self._rendered[0] != key:  # the library asks several times for each redraw
                self._rendered = key, self.format_live(*key)
            rendered = self._rendered[1].split("\n")[-_LIVE_LINES:]
            return [*to_formatted_text(ANSI("\n".join(rendered))), ("", "\n"), ("bold", self._prompt)]
        lines = readable(self._live[-_LIVE_CHARS:]).rstrip("\n").split("\n")[-_LIVE_LINES:]
        rows = [row for line in lines for row in rows_of(line[-_LIVE_LINES * columns :], columns)]
        live = "\n".join(rows[-_LIVE_LINES:])
        live_fragments: Fragments = [("italic", f"{live}\n")] if live else []
        return [*live_fragments, ("bold", self._prompt)]

    def _toolbar(self) -> Fragments:
        return [("", self._status())]

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        add_deafness(keys, Condition(self._is_deaf))

        @keys.add("enter", filter=~Condition(self._is_deaf) & ~is_searching)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @keys.add("escape", "enter")
        @keys.add("c-j")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("escape", filter=~Condition(self._is_deaf) & ~vi_insert_mode & ~is_searching)
        def _(event: KeyPressEvent) -> None:
            is_second = time.monotonic() - self._escaped_at < _TWICE_SECONDS
            self._escaped_at = time.monotonic()
            if event.current_buffer.complete_state is not None:
                event.current_buffer.cancel_completion()
            elif not self._asks:
                self.on_pause()
            elif is_second and self._prompt == "> " and not event.current_buffer.text:
                event.current_buffer.text = EDIT_LAST
                event.current_buffer.validate_and_handle()

        @keys.add("c-c", filter=~is_searching)
        def _(event: KeyPressEvent) -> None:
            if event.current_buffer.text:
                event.current_buffer.reset()
            elif self._asks:
                self.say("(Ctrl-D on an empty line leaves; you can continue the conversation later)")
            else:
                self.on_pause()

        @keys.add("c-d")
        def _(event: KeyPressEvent) -> None:
            if not event.current_buffer.text:
                event.app.exit(exception=EOFError)

        @keys.add(_FOCUS_IN, eager=True)
        @keys.add(_FOCUS_OUT, eager=True)
        def _(event: KeyPressEvent) -> None:
            self._set_focused(event.key_sequence[0].key is _FOCUS_IN)

        self._editing.add_to(keys, ~Condition(self._is_deaf), self._wake)
        return keys

    def _notify(self) -> None:
        """Tell a user who is in another window that the agent waits for words. The texts are constant."""
        if self._is_focused or time.monotonic() - self._answered_at < NOTIFIED_SECONDS:
            return
        event = "the request has ended" if self._prompt == "> " else "the agent needs an answer"
        self._write_raw(f"\x07\x1b]9;stackmem: {event}\x07\x1b]777;notify;stackmem;{event}\x07")

    def _write_raw(self, sequence: str) -> None:
        with suppress(OSError):
            self._session.app.output.write_raw(sequence)
            self._session.app.output.flush()

    def _set_focused(self, is_focused: bool) -> None:
        self._is_focused = is_focused

    def _insert(self, text: str) -> None:
        """Insert a text at the cursor, or at the start of the next line if none is being edited."""
        if self._is_reading:
            self._session.default_buffer.insert_text(text)
        else:
            self._draft += text

    def _shows_menu(self) -> bool:
        """Return whether to show a menu while the user types: for a command at the start, and for ``@``."""
        before = self._session.default_buffer.document.text_before_cursor
        return (before.startswith("/") and " " not in before) or is_mention(before)

    def _is_deaf(self) -> bool:
        return time.monotonic() < self._deaf_until


def _nothing(*_: Any) -> None:
    """Do nothing."""
