"""Keys of the input line that paste texts and images, and that open the line in the user's editor."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, Filter, vi_navigation_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import Output

from .pasted_images import PastedImages, PasteRefused, clipboard_image
from .pastes import Pastes

FOCUS_ON, FOCUS_OFF = "\x1b[?1004h", "\x1b[?1004l"
"""Sequences that let the terminal report when its window gets and loses the focus, or stop that."""
_PREFIX_SECONDS = 1.4
_STOP_SECONDS = 0.2


class EditingKeys:
    """Adds the keys, and stores what was pasted.

    Key sequences of the library have to arrive within a hundredth of a second here, because Escape is a key too. So
    Ctrl-X Ctrl-E is two keys.
    """

    def __init__(self, say: Callable[..., object], insert: Callable[[str], object]) -> None:
        self.pastes, self.images = Pastes(), PastedImages()
        self.is_in_editor = False  # whether the user's editor or shell has the terminal
        self.insert = insert  # inserts a text at the cursor, also after the line was sent
        self._say = say
        self._prefixed_at = 0.0  # when Ctrl-X was pressed last

    def add_to(self, keys: KeyBindings, accepts: Filter, closed: Callable[[], object]) -> None:
        """Add the keys.

        ``accepts`` says whether the line accepts pastes now. ``closed`` is called after the user's editor has closed.
        """

        @keys.add(Keys.BracketedPaste, filter=accepts)
        def _(event: KeyPressEvent) -> None:
            self._paste(event.data)

        @keys.add("c-v", filter=~vi_navigation_mode & accepts)
        def _(event: KeyPressEvent) -> None:
            self._read_clipboard()

        @keys.add("c-x")
        def _(event: KeyPressEvent) -> None:
            self._prefixed_at = time.monotonic()

        @keys.add("c-x", "c-e")
        @keys.add("c-e", filter=Condition(self._is_prefixed), eager=True)
        def _(event: KeyPressEvent) -> None:
            self._open_editor(event.current_buffer, closed)

        @keys.add("c-z")
        def _(event: KeyPressEvent) -> None:
            self._suspend(event.app.output, closed)

    def _suspend(self, output: Output, closed: Callable[[], object]) -> None:
        """Stop this process until the shell continues it.

        Output waits, and the terminal stops to report the focus. Otherwise the shell would read the terminal's answers.
        """
        self.is_in_editor = True

        def stop() -> None:
            output.write_raw(FOCUS_OFF)
            output.disable_bracketed_paste()
            output.flush()
            os.kill(0, signal.SIGTSTP)
            time.sleep(_STOP_SECONDS)  # the signal may reach another thread first, and this one must not go on
            output.write_raw(FOCUS_ON)
            output.flush()

        def end(_: object) -> None:
            self.is_in_editor = False
            closed()

        asyncio.ensure_future(run_in_terminal(stop)).add_done_callback(end)

    def _paste(self, pasted: str) -> None:
        if not pasted:  # what some terminals paste if the clipboard has an image
            self._read_clipboard()
            return
        labels, messages = self.images.dropped(pasted)
        self._say(*messages)
        self.insert(labels or self.pastes.folded(pasted))

    def _read_clipboard(self) -> None:
        reading = asyncio.get_running_loop().run_in_executor(None, clipboard_image, os.environ)
        reading.add_done_callback(self._add_from_clipboard)

    def _add_from_clipboard(self, reading: asyncio.Future[bytes]) -> None:
        if reading.cancelled():
            return
        try:
            label, message = self.images.add(reading.result(), "the image on the clipboard")
        except PasteRefused as refused:
            self._say(str(refused))
            return
        self._say(message)
        self.insert(f"{label} ")

    def _is_prefixed(self) -> bool:
        return time.monotonic() - self._prefixed_at < _PREFIX_SECONDS

    def _open_editor(self, buffer: Buffer, closed: Callable[[], object]) -> None:
        """Open the text in ``$VISUAL`` or ``$EDITOR``. Output waits until the editor closes."""
        buffer.text = self.pastes.unfolded(buffer.text)
        self.is_in_editor = True

        def end(_: object) -> None:
            self.is_in_editor = False
            closed()

        buffer.open_in_editor().add_done_callback(end)


def add_deafness(keys: KeyBindings, is_deaf: Filter) -> None:
    """Ignore keys while a question has only just appeared."""

    @keys.add(Keys.Any, filter=is_deaf, eager=True)
    @keys.add("enter", filter=is_deaf, eager=True)
    @keys.add("escape", filter=is_deaf, eager=True)
    def _(event: KeyPressEvent) -> None:
        """Ignore the key."""

    @keys.add(Keys.CPRResponse, filter=is_deaf, eager=True)
    def _(event: KeyPressEvent) -> None:
        """Take the cursor's place, which is not a key; without it the lines below the input disappear."""
        event.app.renderer.report_absolute_cursor_row(int(event.data[2:-1].split(";")[0]))


def call_when_sent(buffer: Buffer, call: Callable[[], object]) -> None:
    """Call a function when a line is sent: its text stays in the buffer until the next line begins."""
    accept = buffer.accept_handler

    def sent(buffer: Buffer) -> bool:
        call()
        return accept(buffer) if accept is not None else False

    buffer.accept_handler = sent
