"""The output of a terminal conversation: lines that scroll by, and the status line."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from msgspec import UNSET
from msgspec.structs import asdict
from prompt_toolkit.utils import get_cwidth

from stackmem.cli.screen.frames import FrameBoard, FrameNews
from stackmem.cli.screen.progress import Progress
from stackmem.cli.screen.text import one_line, readable, rows_of, spell_cost
from stackmem.core import facts
from stackmem.core.conversation import keeping
from stackmem.core.conversation.earlier import left_out_line
from stackmem.core.messages import Text, ToolCall
from stackmem.core.person_facts import PersonAttached, PersonRan, TurnEnded, WordsGiven
from stackmem.core.requests import AskPermission, AskUser
from stackmem.core.state import State
from stackmem.core.text import shorten_text
from stackmem.memory import open_strategy

from .markdown import MAX_CHARS, render_markdown, render_tail
from .next_prompt import next_prompt, summary_line

_DIFF_LINES = 12
_DOING_CHARS = 40
_FOLDED_LINES = 40
_DEFAULT_COLUMNS, _DEFAULT_ROWS = 80, 24
_LONGEST_WRAPPED = 20_000
_COLORS = {"red": "\x1b[31m", "green": "\x1b[32m", "yellow": "\x1b[33m", "dim": "\x1b[2m", "bold": "\x1b[1m"}
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,\d+)? \+(\d{1,9})(?:,\d+)? @@")
_SIGN = re.compile(r"(?: {0,4}\d+ )?([+-])")
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class ChatScreen:
    """Prints what happens, and tracks the state of the conversation."""

    def __init__(self, *, color: bool, plain: bool = False, styled: bool = False) -> None:
        self.say: Callable[..., None] = _say_nothing
        self.live: Callable[[str], None] = _say_nothing
        self.state: State | None = None  # the latest state; None before the first event
        self.busy = ""  # the current activity; empty while the user is asked
        self.running = ""  # the user's own command while it runs
        self.since = time.monotonic()  # monotonic time at which it began
        self._color, self._plain, self._styled = color, plain, styled
        self._light = is_light(os.environ.get("COLORFGBG", ""))
        self.location = ""  # the folder and its branch
        self._progress = Progress()
        self._board = FrameBoard()
        self._words = ""
        self._reading = ""
        self.last_reply = ""  # text of the last reply
        self._next_prompt: tuple[State | None, int] = None, 0  # its tokens after a state
        self._paid_usd = 0.0  # the run's cost up to the last result
        self._left_out = ""  # the line about what the last request's prompt lacks

    def hear(self, words: str) -> None:
        """Show part of a reply that is still streaming."""
        self._words += words
        self.live("" if self._plain else self._words)

    def read(self, tokens: int, total: int) -> None:
        """Show how much of the prompt the server has processed."""
        self._reading = f"reading {tokens:,} of {total:,} tokens" if tokens < total else ""

    def __call__(self, event: facts.Event, state: State) -> None:
        """Show an event and the state after it."""
        before, self.state = self.state, state
        self._reading = ""
        self.since = time.monotonic()
        self._board.observe(event, state)
        self.tell(*(keeping.messages_about(event, before, state) if before is not None else ()), color="dim")
        match event:
            case facts.RunStarted() | facts.RunForked() | facts.RunResumed():
                self.busy = ""
                if isinstance(event, facts.RunStarted):
                    self._paid_usd, self._left_out, self.last_reply = 0.0, "", ""
                    self.tell(*self._beginning(event), color="dim")
                self.tell(*_changed(event, before), color="dim")
            case PersonRan():
                self._show_output(event)
            case PersonAttached():
                detail = event.content if event.failed else f"{len(event.content):,} chars"
                word, color = ("not attached", "yellow") if event.failed else ("attached", "dim")
                self.tell(f"({word} {event.name}: {detail})", color=color)
            case WordsGiven() if before is not None and before.session is not None and before.session.steps:
                self.tell(f"> {event.text.partition(chr(10))[0]}", color="bold")
            case facts.ContextCompacted() if before is not None and before.session is not None:
                self._end_words()
                self.tell(summary_line(before, state, open_strategy(state.begun.strategy)), color="dim")
            case facts.ModelReplied():
                self._show_reply(event, state)
            case facts.FramePushed() if event.request is not UNSET:
                self._show_left_out(state)
            case facts.FramePopped() | TurnEnded() if state.session is not None and len(state.stack) == 1:
                self._show_result(event.result, event.forced, state)
            case facts.RunEnded():
                self._end_words()
            case _:
                lines = self._progress.lines(event, state)
                columns, color = _columns(), _color_of(event)
                self.say(*(self.paint(color, _cut(line, columns)) for line in lines))

    def observe_frame(self, name: str, news: FrameNews, state: State) -> None:
        """Show what happened in a parallel frame, in its line or, if no text may change in place, in a new one.

        Called from the frame's thread.
        """
        line = self._board.observe_frame(name, news, state)
        if line is None:
            return
        printed = list(line.printed) if self._plain else []
        asks = self._plain and isinstance(news, AskPermission | AskUser)
        if asks or isinstance(news, facts.RunEnded):
            printed.append(f"{'':>6}{line.sentence(self._board.clock())}")
        color = "yellow" if line.status in ("waiting", "ended") else "dim"
        self.say(*(self.paint(color, _cut(each, _columns())) for each in printed))

    def _beginning(self, start: facts.RunStarted) -> list[str]:
        """Return the first screen: the model, the place, and what the agent may do."""
        approve = "never" if start.session is UNSET else start.session.approve
        asks = {"never": "without a question", "all": "after a question each"}.get(approve, f"asks before {approve}")
        return [
            f"{one_line(start.model)} works on {self.location}",
            f"it may change its copy and run commands ({asks}; isolation {start.isolation}, network {start.network}); "
            "your files change with /apply",
        ]

    def tell(self, *texts: str, color: str = "") -> None:
        """Print prose, wrapped between words."""
        wrapped = [_wrapped(readable(text)) for text in texts]
        self.say(*(self.paint(color, text) if color else text for text in wrapped))

    def _tell_model(self, text: str) -> None:
        """Print a text of the model, which may contain Markdown."""
        if self._styled and len(text) <= MAX_CHARS:
            self.say(self.format(text, _columns()))
        else:
            self.tell(text)

    def format(self, text: str, columns: int) -> str:
        return render_markdown(text, columns, light=self._light)

    def format_tail(self, text: str, columns: int) -> str:
        return render_tail(text, columns, light=self._light)

    def paint(self, color: str, text: str) -> str:
        """Return the text in a color, if colors are enabled."""
        return f"{_COLORS[color]}{text}\x1b[0m" if self._color else text

    def status(self) -> str:
        """Return the lines of parallel frames, and the status line."""
        if self._plain:
            return self._status_line()
        return "\n".join([*self._board.rows(_columns(), _rows() // 3), self._status_line()])

    def _status_line(self) -> str:
        """Return activity, context, cost and model. In a narrow terminal, the line has fewer parts."""
        state = self.state
        if state is None:
            return "starting"
        cost = spell_cost(state.cost_usd, state.usage.total)
        context = f"{self._context_tokens(state) / 1000:.1f}k" if state.stack else "-"
        heap = f"heap {len(state.heap.chunks)}" if state.heap.chunks else ""
        depth = " > ".join(one_line(frame.name) for frame in state.stack[1:])
        parts = [self._activity(state), f"context {context}", cost, heap, depth, one_line(state.begun.model)]
        for dropped in (None, 3, 4, 5, 2):  # the least important part goes first
            if dropped is not None:
                parts[dropped] = ""
            line = " | ".join(part for part in parts if part)
            if get_cwidth(line) <= _columns():
                break
        return _cut(line, _columns())

    def _context_tokens(self, state: State) -> int:
        """Return the size of the current prompt, or between two requests of the next one."""
        if state.session is None or state.session.working or state.end is not None:
            return state.running.context_tokens
        counted, tokens = self._next_prompt
        if counted is not state:
            tokens = next_prompt(state, open_strategy(state.begun.strategy)).tokens
            self._next_prompt = state, tokens
        return tokens

    def _activity(self, state: State) -> str:
        if not (self.busy or self.running):
            return ""
        passed = time.monotonic() - self.since
        spinner = _SPINNER[int(passed * 8) % len(_SPINNER)]
        if self._plain:
            spinner = "working:"
        return f"{spinner} {self._doing(state)} {passed:.0f} s"

    def _doing(self, state: State) -> str:
        own = shorten_text(one_line(f"! {self.running}"), _DOING_CHARS, "…") if self.running else ""
        return own or self._reading or _doing(state) or self.busy

    def diff(self, text: str) -> str:
        """Color a diff."""
        return "\n".join(self._diff_line(line) for line in numbered(readable(text).split("\n")))

    def _diff_line(self, line: str) -> str:
        sign = _SIGN.match(line)
        if sign is None:
            return line
        return self.paint("green" if sign[1] == "+" else "red", line)

    def _show_reply(self, event: facts.ModelReplied, state: State) -> None:
        self._progress.lines(event, state)  # records the call for the line about its result
        self._end_words()
        self.last_reply = "\n".join(part.text for part in event.parts if isinstance(part, Text)).strip()
        if self.last_reply:
            self._tell_model(self.last_reply)
        for part in event.parts:
            if isinstance(part, ToolCall) and part.name == "edit_file" and isinstance(part.arguments, dict):
                self.say(self.diff(_edit(part.arguments)))

    def _show_output(self, event: PersonRan) -> None:
        """Show what the user's own command printed; the middle of a long output is left out."""
        self.running = ""
        self.say(*folded(readable(event.output).rstrip().split("\n"), "/show prints"))

    def _show_left_out(self, state: State) -> None:
        """Tell the user what is no longer in the prompt of requests, whenever that changes."""
        left_out = left_out_line(state.running.context)
        if left_out not in ("", self._left_out):
            self.tell(f"{left_out}; /search finds it", color="dim")
        self._left_out = left_out

    def _show_result(self, result: str, forced: str, state: State) -> None:
        if forced:
            self.tell(f"(the request ended: {forced})", color="yellow")
        if result.strip() != self.last_reply:
            self._tell_model(result)
        prompt = next_prompt(state, open_strategy(state.begun.strategy))
        cost = spell_cost(None if state.cost_usd is None else state.cost_usd - self._paid_usd, state.usage.total)
        self.tell(f"({cost}; the next prompt has about {prompt.tokens:,} tokens, /context shows them)", color="dim")
        self._paid_usd = state.usd
        if state.session is not None and state.session.planning and not forced:
            self.tell("/accept carries the plan out; /accept edit changes it first; text asks for another", color="dim")
        self.say("")
        self.last_reply = ""

    def _end_words(self) -> None:
        self._words = ""
        self.live("")


def folded(lines: list[str], source: str) -> list[str]:
    """Return the lines; if they are many, the middle is replaced by a line that says who has all of them."""
    if len(lines) <= _FOLDED_LINES + 1:
        return lines
    head = _FOLDED_LINES // 2
    hidden = len(lines) - _FOLDED_LINES
    return [*lines[:head], f"[... {hidden:,} more lines, {source} all ...]", *lines[-(_FOLDED_LINES - head) :]]


def numbered(lines: list[str]) -> Iterator[str]:
    """Yield the lines of a diff with their line numbers: in the new file, or in the old one for removed lines."""
    old = new = 0
    for line in lines:
        if hunk := _HUNK.match(line):
            old, new = int(hunk[1]), int(hunk[2])
            yield line
        elif not new or not line.startswith((" ", "+", "-")):
            yield line
        else:
            yield f"{old if line[0] == '-' else new:>5} {line}"
            old, new = old + (line[0] != "+"), new + (line[0] != "-")


def is_light(colors: str) -> bool:
    """Return whether the terminal has a light background, by the variable that some terminals set."""
    background = colors.rpartition(";")[2]
    return background in ("7", "15")


def _color_of(event: facts.Event) -> str:
    """Return the color of the line about an outcome."""
    if isinstance(event, facts.CallRejected | facts.ModelFailed):
        return "yellow"
    return "red" if isinstance(event, facts.ToolReturned) and event.failed else "dim"


def _cut(line: str, columns: int) -> str:
    return line if get_cwidth(line) <= columns else shorten_text(line, columns - get_cwidth(line) + len(line) - 1, "…")


def _changed(event: facts.RunStarted | facts.RunForked | facts.RunResumed, before: State | None) -> Iterator[str]:
    """Yield what a command of the user changed for the rest of the conversation."""
    match event:
        case facts.RunForked() if before is not None:
            start, old = event.start, before.begun
            pairs = (start.model, old.model), (start.strategy, old.strategy)
            changed = [one_line(new) for new, had in pairs if new != had]
            yield f"(continues in a copy{' with ' if changed else ''}{', '.join(changed)}; {event.parent} is unchanged)"
        case facts.RunResumed() if before is not None and event.limits != before.limits:
            limits = {name: value for name, value in asdict(event.limits).items() if value is not None}
            limits_text = ", ".join(f"{value:,} {name}" for name, value in limits.items())
            yield f"(at most {limits_text} from the beginning of the conversation)" if limits_text else "(no limits)"


def _rows() -> int:
    with suppress(OSError):
        return os.get_terminal_size().lines or _DEFAULT_ROWS
    return _DEFAULT_ROWS


def _columns() -> int:
    """Return the terminal's width; the environment variable may be outdated after a resize."""
    with suppress(OSError):
        return os.get_terminal_size().columns or _DEFAULT_COLUMNS
    return _DEFAULT_COLUMNS


def _wrapped(text: str) -> str:
    """Wrap prose between words; fenced code stays unchanged, so that it can be copied."""
    columns, rows, fenced = _columns(), list[str](), False
    for line in text.split("\n"):
        is_fence = line.lstrip().startswith("```")
        fenced = fenced != is_fence
        unwrapped = fenced or is_fence or len(line) > _LONGEST_WRAPPED
        rows += [line] if unwrapped else [row.rstrip() for row in rows_of(line, columns)]
    return "\n".join(rows)


def _doing(state: State) -> str:
    """Return the call in progress; empty while the model is working."""
    if state.pending is None or not state.pending.calls:
        return ""
    call = state.pending.calls[0]
    first = next(iter(call.arguments.values()), "") if isinstance(call.arguments, dict) else ""
    return shorten_text(one_line(f"{call.name} {first}" if isinstance(first, str) else call.name), _DOING_CHARS, "…")


def _edit(arguments: dict[str, object]) -> str:
    lines = [f"{arguments.get('path', '')}"]
    for sign, name in (("-", "old_string"), ("+", "new_string")):
        text = str(arguments.get(name, "")).split("\n")
        lines += [f"{sign} {line}" for line in text[:_DIFF_LINES]]
        if len(text) > _DIFF_LINES:
            lines.append(f"{sign} [... {len(text) - _DIFF_LINES:,} more lines ...]")
    return "\n".join(lines)


def _say_nothing(*_: str) -> None:
    """Default before there is a terminal: print nothing."""
