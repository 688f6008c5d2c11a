"""The commands that a user types in a conversation, for the terminal and for editors: the table, and how each is
executed that only reads.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from stackmem.cli.screen.text import one_line, readable, spell_cost
from stackmem.core.conversation import hooks
from stackmem.core.conversation.permissions import listing
from stackmem.core.conversation.standing import active
from stackmem.core.errors import StackmemError
from stackmem.core.facts import CallRejected, Event, ModelReplied
from stackmem.core.jobs import rules
from stackmem.core.messages import Text, ToolCall
from stackmem.core.person_facts import PersonRan
from stackmem.core.state import Frame, State
from stackmem.core.text import mark_cut
from stackmem.foreign.files import read_regular
from stackmem.memory import open_strategy
from stackmem.review.report.page import write_page
from stackmem.run.companion.conversations import search_conversations
from stackmem.run.run_folder import HISTORY
from stackmem.run.stored_request import read_request
from stackmem.trace.open_run import Run
from stackmem.trace.snapshot import Snapshot, changes
from stackmem.trace.walk import state_after

from .conversations import rename
from .next_prompt import next_prompt


class ChatCommand(Struct, frozen=True):
    """A command that the user types after a slash."""

    takes: str  # its arguments; empty for none
    says: str  # what it does
    in_editors: bool = True


COMMANDS = {
    "help": ChatCommand("", "show these commands", in_editors=False),
    "show": ChatCommand("[STEP]", "show a step in full, with its call and result; without a number, the last step"),
    "diff": ChatCommand("", "show the agent's changes so far"),
    "apply": ChatCommand("[-p] [--commit] [PATH...]", "apply the changes to your folder, or only those in PATH"),
    "undo": ChatCommand("[N]", "undo the last N requests and their file changes"),
    "redo": ChatCommand("", "take back the last /undo, if no request was made since"),
    "rewind": ChatCommand("[N]", "list the requests, or go back to before request N"),
    "fork": ChatCommand("", "continue in a copy of this conversation", in_editors=False),
    "plan": ChatCommand("", "turn plan mode on or off: the agent only looks, and answers with a plan"),
    "accept": ChatCommand("[edit]", "carry out the plan, a request for each step; edit changes it first"),
    "heap": ChatCommand("[NAME]", "list the chunks on the heap, or show one of them"),
    "frames": ChatCommand("", "list the frames"),
    "jobs": ChatCommand("", "list the commands that run in the background"),
    "remember": ChatCommand("TEXT", "keep a rule or preference in every later prompt; a line with # does the same"),
    "forget": ChatCommand("N", "remove entry N of the kept words"),
    "memory": ChatCommand("[export [FILE]]", "list the words kept for every prompt, or write them to AGENTS.md"),
    "search": ChatCommand("WORDS", "search everything said, done and found"),
    "compact": ChatCommand("", "let the model summarize the conversation now, if the strategy has summaries"),
    "context": ChatCommand("", "show what fills the next prompt, by kind, and what it costs"),
    "permissions": ChatCommand("", "show which calls are allowed, denied or asked about, and by which rule"),
    "hooks": ChatCommand("", "list the commands that run before and after the agent's calls and requests"),
    "cost": ChatCommand("", "show tokens and cost"),
    "model": ChatCommand("NAME", "continue with another model"),
    "strategy": ChatCommand("NAME", "continue with another memory strategy"),
    "budget": ChatCommand("steps|tokens|usd|seconds N|+N", "set a limit"),
    "new": ChatCommand("", "start a new conversation about the folder, with the same settings", in_editors=False),
    "rename": ChatCommand("NAME", "name the conversation; --resume NAME continues it"),
    "view": ChatCommand("", "write the conversation as an HTML page", in_editors=False),
    "save": ChatCommand("FILE", "write requests and results as Markdown", in_editors=False),
    "quit": ChatCommand("", "leave; stackmem chat --continue resumes the conversation", in_editors=False),
}
IN_EDITORS = {name: command for name, command in COMMANDS.items() if command.in_editors}
HELP = {f"/{name}": f"{each.takes} {each.says}".strip() for name, each in COMMANDS.items()}

_SHOWN_CHARS = 40_000
_AGENTS, _EXPORTED_BYTES = "AGENTS.md", 4 << 20
_BEGINS, _ENDS = "<!-- stackmem: words of the user -->", "<!-- end of the words of the user -->"
_BY = {"user": "you", "agent": "the agent", "wording": "its wording", "upkeep": "the question after the request"}


def shell_command(line: str) -> str:
    """Return the command in a line that begins with ``!``; empty if it is another line."""
    return line.strip()[1:].strip() if line.strip().startswith("!") else ""


class Look:
    """The read-only commands.

    Args:
        say: Shows lines unchanged.
        tell: Shows prose.
        diff: Shows a diff with colors.
    """

    def __init__(
        self,
        say: Callable[..., None],
        tell: Callable[..., None],
        diff: Callable[[str], str],
        more: Mapping[str, str] | None = None,
    ) -> None:
        self._help = HELP | dict(more or {})
        self._say, self._tell, self._diff = say, tell, diff

    def __call__(self, name: str, rest: str, state: State, run_dir: Path) -> bool:
        """Execute a command; return False if it is not one of these."""
        try:
            match name:
                case "/help":
                    self._tell(*(f"{command:<10} {says}" for command, says in self._help.items()))
                case "/show":
                    self._show_step(state, run_dir, rest)
                case "/diff":
                    self._show_diff(state, run_dir)
                case "/heap":
                    self._show_heap(state, rest)
                case "/memory":
                    self._tell(*([_export(state, run_dir, rest)] if rest else _memory(state, run_dir)))
                case "/search" if rest:
                    self._say(readable(search_conversations(run_dir, state, rest)))
                case "/search":
                    self._tell("missing words: /search WORDS")
                case _ if name in _LISTINGS:
                    self._tell(*_LISTINGS[name](state))
                case "/view":
                    self._tell(f"wrote {write_page([run_dir], None)}")
                case "/rename":
                    rename(run_dir, rest)
                    self._tell(f"renamed; continue with: stackmem chat --resume {shlex.quote(rest)}")
                case "/save":
                    self._save(state, rest)
                case _:
                    return False
        except (StackmemError, OSError) as error:
            self._tell(str(error))
        return True

    def _show_diff(self, state: State, run_dir: Path) -> None:
        history = run_dir / HISTORY
        file_changes = changes(Snapshot(history, state.begun.tree), Snapshot(history, state.tree)) if state.tree else []
        for change in file_changes:
            self._say(self._diff(f"{change.path}, {change.kind}\n{change.diff}"))
        if not file_changes:
            self._tell("no files changed")

    def _show_step(self, state: State, run_dir: Path, rest: str) -> None:
        step = int(rest) if rest.isdecimal() and len(rest) < 9 else state.step
        texts = [_text_of(event) for event in _of_step(run_dir, step)]
        self._say(*(readable(mark_cut(text, _SHOWN_CHARS)) for text in texts if text))
        if not any(texts):
            self._tell(f"no step {step}; the last step is {state.step}")

    def _show_heap(self, state: State, name: str) -> None:
        if name:
            chunk = state.heap.chunks.get(name)
            self._say(readable(chunk.content) if chunk else f"no chunk {one_line(name)}")
            return
        rows = state.heap.chunks.values()
        self._say(
            *(f"{one_line(each.name)}  {len(each.content):,} chars  {one_line(each.description)}" for each in rows)
        )
        if not rows:
            self._tell("the heap is empty")

    def _save(self, state: State, path: str) -> None:
        if not path:
            self._tell("missing file name: /save FILE")
            return
        target = Path(os.path.expanduser(path))
        with target.open("x", encoding="utf-8") as file:
            file.write(_markdown(state))
        self._tell(f"wrote {target}")


def _context(state: State) -> list[str]:
    """Return what fills the next prompt, by kind."""
    if not state.stack:
        return ["the run has ended and sends no further prompts"]
    prompt = next_prompt(state, open_strategy(state.begun.strategy))
    free = max(0, prompt.window_tokens - prompt.tokens)
    rows = [*prompt.by_kind().items(), ("free", free)]
    window = prompt.window_tokens
    lines = [f"{kind:<18}{tokens:>11,} tokens  {tokens / window:.1%}" for kind, tokens in rows if tokens and window]
    cost = (
        "" if prompt.usd is None else f"; it costs about ${prompt.usd:.4f} plus the reply if the cache still has them"
    )
    return [*lines, f"next prompt: about {prompt.tokens:,} tokens, {prompt.sent_tokens:,} of them sent before{cost}"]


def _memory(state: State, run_dir: Path) -> list[str]:
    """Return the kept words with their sources and times."""
    entries = active(state.session.standing) if state.session is not None else {}
    if not entries:
        return ["no words are kept; /remember TEXT keeps a rule or preference for every later prompt"]
    times: dict[int, float] = {}
    past = State()
    for record in Run(run_dir).records():
        past = state_after(past, record)
        if past.session is not None:
            times.setdefault(past.session.requests, record.at)
    return [
        f"{one_line(entry.line)} [stored {_time(times.get(entry.request, 0.0))} by {_BY[entry.by]}]"
        for entry in entries.values()
    ]


def _export(state: State, run_dir: Path, rest: str) -> str:
    """Write the kept words into a file for agents, between two marks. The rest of the file stays as it is."""
    command, _, name = rest.partition(" ")
    if command != "export":
        return f"/memory takes nothing or `export [FILE]`, not {one_line(rest[:60])!r}"
    entries = active(state.session.standing) if state.session is not None else {}
    if not entries:
        return "nothing to export: no words are kept"
    target = Path(read_request(run_dir).subject) / os.path.expanduser(name.strip() or _AGENTS)
    try:  # a link could lead to any file of the user
        before = read_regular(target, _EXPORTED_BYTES, follow=False).decode("utf-8")
    except FileNotFoundError:
        before = ""
    except UnicodeDecodeError:
        return f"{target} is not UTF-8 text; name another file: /memory export FILE"
    lines = [f"- {one_line(entry.text).replace('<!--', '&lt;!--')}" for entry in entries.values()]
    block = "\n".join([_BEGINS, *lines, _ENDS])
    head, begins, after = before.partition(_BEGINS)
    _, ends, tail = after.partition(_ENDS)
    if begins and not ends:
        return f"{target} has the line {_BEGINS} without {_ENDS}; remove it, or name another file: /memory export FILE"
    text = f"{head}{block}{tail}" if begins else "\n\n".join(filter(None, (before.rstrip("\n"), block))) + "\n"
    _replace(target, text)
    return f"wrote {len(lines)} kept words to {target}"


def _replace(target: Path, text: str) -> None:
    """Write a file completely or not at all."""
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(4)}.new")
    try:
        with fresh.open("xb") as file:
            file.write(text.encode())
        if target.exists():
            shutil.copymode(target, fresh)
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)


def _time(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M")


def _of_step(run_dir: Path, step: int) -> Iterator[Event]:
    """Yield the events of one step."""
    state = State()
    for record in Run(run_dir).records():
        state = state_after(state, record)
        if state.step == step:
            yield record.event
        elif state.step > step:
            return


def _text_of(event: Event) -> str:
    match event:
        case ModelReplied():
            texts = (part.text if isinstance(part, Text) else _call_of(part) for part in event.parts)
            return "\n".join(part for part in texts if part)
        case CallRejected():
            return f"refused: {event.reason}"
        case PersonRan():
            return f"! {event.command}\n{event.output}"
        case _:
            return event.voice.text if event.voice.kind in ("result", "notice") else ""


def _call_of(part: object) -> str:
    if not isinstance(part, ToolCall):
        return ""
    return f"{part.name} {json.dumps(part.arguments, ensure_ascii=False, indent=1)}"


def _frames(state: State) -> list[str]:
    lines = [f"{_indented(popped.frame)}: {one_line(popped.result)}" for popped in state.popped]
    lines += [
        f"{_indented(frame)} (open): {one_line(frame.task or frame.registers.intent)}" for frame in state.stack[1:]
    ]
    return lines or ["no frames yet"]


def _indented(frame: Frame) -> str:
    return f"{'  ' * (frame.depth - 1)}{one_line(frame.name)}"


def _cost(state: State) -> list[str]:
    usage = state.usage
    cost = spell_cost(state.cost_usd, usage.total, "unknown")
    return [
        f"cost {cost} in {state.step} replies{' (tokens estimated)' if usage.estimated else ''}",
        f"tokens: {usage.uncached:,} new, {usage.cache_read:,} from the cache, "
        f"{usage.cache_write_5m + usage.cache_write_1h:,} written to it, {usage.output:,} of output",
    ]


def _markdown(state: State) -> str:
    done = (popped for popped in state.popped if popped.frame.request)
    parts = [f"## {popped.frame.task.strip()}\n\n{popped.result.strip()}\n" for popped in done]
    return "\n".join(parts) or f"{state.result}\n"


def _permissions(state: State) -> list[str]:
    return [readable(line) for line in listing(state)]


def _hooks(state: State) -> list[str]:
    return [readable(line) for line in hooks.listing(state)]


def _jobs(state: State) -> list[str]:
    return [readable(line) for line in rules.listing(state)]


_LISTINGS: dict[str, Callable[[State], list[str]]] = {
    "/frames": _frames,
    "/cost": _cost,
    "/context": _context,
    "/permissions": _permissions,
    "/hooks": _hooks,
    "/jobs": _jobs,
}
