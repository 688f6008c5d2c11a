"""A model played by the user at the terminal, who sees the prompt and types calls; for learning and debugging."""

from __future__ import annotations

import io
import json
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import TextIO, assert_never

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import Message, Part, Text, Thinking, ToolCall, ToolResult, Usage, View
from stackmem.core.pricing import Price
from stackmem.core.requests import AskModel
from stackmem.models.tokens import estimated_usage

from .typed_call import BLOCK_END, MAX_CALL_CHARS, TOO_LONG, Lines, TypedCall, is_text, read_typed, usage_of


class Keyboard:
    """Reads lines from standard input.

    - At a terminal, lines can be edited and recalled. A plain terminal would cut lines after 4,095 bytes.
    - A multi-line paste counts as several lines.
    - Unreadable input counts as the end of input. Bytes that are not UTF-8 become lone surrogates.
    """

    def __init__(self) -> None:
        self._pasted: deque[str] = deque()
        if isinstance(sys.stdin, io.TextIOWrapper):
            with suppress(ValueError, OSError):
                sys.stdin.reconfigure(errors="surrogateescape")
        self._edited = can_type() and sys.stdin.isatty() and sys.stdout is not None and sys.stdout.isatty()
        if self._edited:
            with suppress(ImportError):  # some Python builds lack it; editing is then unavailable
                import readline  # noqa: F401 - input() uses it once imported

    def readline(self) -> str:
        """Return the next line with its line end; "" at the end of input. Ctrl-C raises."""
        if self._pasted:
            return self._pasted.popleft()
        try:
            if not self._edited:
                return _bounded(sys.stdin)
            first, *rest = input().split("\n")
        except (EOFError, OSError, ValueError):
            return ""
        self._pasted.extend(f"{line}\n" for line in rest)
        return f"{first}\n"


def can_type() -> bool:
    """Return whether standard input is usable."""
    return sys.stdin is not None and not sys.stdin.closed


def _bounded(stream: TextIO) -> str:
    """Return the next line; a line that is too long is returned with one extra character."""
    line = stream.readline(MAX_CALL_CHARS + 1)
    rest = line
    while len(rest) > MAX_CALL_CHARS and not rest.endswith("\n"):
        rest = stream.readline(MAX_CALL_CHARS + 1)
    return line


WINDOW_TOKENS = 200_000
_NO_USAGE = Usage()
_RUN_ENDS = "the run ends here, with its trace whole"
_HELP = f"""\
Type one call, in any of these forms:
  read_file spec.md
  read_file path=spec.md start_line=1
  read_file {{"path": "spec.md"}}         JSON may continue over lines until its brackets close
  write_file path=a.py content=<<      followed by lines, then a line with only {BLOCK_END}
Other commands: show (the whole prompt), say TEXT (a reply without a call), help. End of input ends the run.
The tools:
"""


class HumanModel:
    """Prints new parts of the prompt, and reads input until it forms a call."""

    def __init__(
        self, source: Lines | None = None, screen: TextIO | None = None, *, window_tokens: int | None = None
    ) -> None:
        """By default uses standard input and standard error, because standard output belongs to the result."""
        self.name = "human"
        self.window_tokens = window_tokens or WINDOW_TOKENS
        self.price: Price | None = None  # always None
        self._source = source
        self._screen = screen
        self._messages: list[Message] = []

    def reply(self, request: AskModel) -> ModelReplied | ModelFailed:
        """Return the typed reply, or a failure of kind ``script`` at the end of input. Ctrl-C raises."""
        if self._source is None and not can_type():
            return ModelFailed("script", f"standard input is closed, so you cannot type a call; {_RUN_ENDS}")
        self._show_new(request)
        source = self._source = self._source or Keyboard()
        while True:
            self._print(f"step {request.step}, {request.frame} at depth {request.depth}; help, show, or a call")
            line = source.readline()
            if not line:
                return ModelFailed("script", f"the input ended while a call was awaited; {_RUN_ENDS}")
            if len(line) > MAX_CALL_CHARS:
                self._print(f"the line has {TOO_LONG}")
                continue
            typed = line.strip()
            match typed.partition(" ")[0]:
                case "":
                    continue
                case "help":
                    self._print(_HELP + "\n".join(f"  {usage_of(tool)}" for tool in request.view.tools))
                case "show":
                    self._print(_rendered(request.view, 0))
                case "say" if is_text(typed):
                    text = typed.partition(" ")[2]
                    parts = (Text(text),) if text else ()
                    return estimated_usage(ModelReplied(parts, "end", _NO_USAGE), request.view)
                case _:
                    call = read_typed(typed, source, request.view.tools, self._print)
                    if isinstance(call, TypedCall):
                        tool_call = ToolCall(f"typed_{request.facts}", call.name, call.arguments)
                        return estimated_usage(ModelReplied((tool_call,), "call", _NO_USAGE), request.view)
                    self._print(call)

    def _show_new(self, request: AskModel) -> None:
        """Print the new messages, or all of them for a different conversation."""
        messages = list(request.view.messages)
        count = len(self._messages) if messages[: len(self._messages)] == self._messages else 0
        self._print(_rendered(request.view, count))
        self._messages = messages

    def _print(self, text: str) -> None:
        screen = self._screen or sys.stderr
        if screen is not None:
            with suppress(OSError, ValueError):  # if the terminal is gone, the next read reports it
                print(visible(text), file=screen, flush=True)


def visible(text: str) -> str:
    """Escape every character that could control a terminal or reorder a line."""
    return "".join(char if char.isprintable() or char == "\n" else _spelled(char) for char in text)


def _spelled(char: str) -> str:
    return "    " if char == "\t" else f"\\u{{{ord(char):x}}}"


def _rendered(view: View, first: int) -> str:
    """Format the prompt from message ``first`` on; message 0 includes the system prompt."""
    return "\n".join(_sections(view, first))


def _sections(view: View, first: int) -> Iterator[str]:
    if first == 0:
        yield f"══ system ══\n{view.system}"
    for message in view.messages[first:]:
        yield f"── {message.role} ──"
        yield from (_part(part) for part in message.parts)


def _part(part: Part) -> str:
    match part:
        case Text():
            return part.text
        case Thinking():
            return f"(thought) {part.raw.get('thinking', '')}"
        case ToolCall():
            arguments = part.malformed if part.malformed is not None else json.dumps(part.arguments, ensure_ascii=False)
            return f"→ {part.name} {arguments}"
        case ToolResult():
            return f"{'✗' if part.failed else '←'} {part.text}"
        case _:
            assert_never(part)
