"""Random model replies and world answers: many of them valid, many not.

Everything is drawn from a seeded generator; hypothesis chooses the seeds, and drops facts to shrink a failure.
"""

from __future__ import annotations

from random import Random
from typing import Any

from msgspec.structs import replace

from stackmem.core.budgets import Budgets, Limits
from stackmem.core.facts import (
    ChecksReturned,
    ClockRead,
    ContextCompacted,
    Event,
    FailureKind,
    ModelFailed,
    ModelReplied,
    SourcesDigested,
    Stop,
    ToolReturned,
    VerifyReturned,
)
from stackmem.core.messages import ReplyPart, Text, ToolCall, Usage
from stackmem.core.requests import Compact, DigestSources, Effect, ReadClock, RunChecks, UseTool, Verify

BUDGETS = Budgets(
    intent_chars=40, return_chars=30, constraint_chars=30, context_chars=50, result_chars=60, root_result_chars=80,
    depth=3, heap_chars=120, heap_chunks=4, description_chars=30, source_chars=20,
)  # fmt: skip
TOOLS = (
    "read_file", "write_file", "list_files", "run_command", "push_frame", "pop_frame", "heap_alloc", "heap_read",
    "heap_write", "heap_free", "add_note", "expand", "memory",
)  # fmt: skip

GOOD_NAMES = ("a", "b", "env", "spec", "spec2", "c/d.e")
NAMES = GOOD_NAMES * 5 + ("", "two words", "n" * 65, "ä", "a\n")
CONTENTS = ("x", "x", "xyz", "xyz", "some\nlines\nof it", "🙂" * 30, "y" * 61, "z" * 121, "")
DESCRIPTIONS = ("", "what it is", "d" * 30, "d" * 31, "two\nlines")
SOURCES = ("", "", "", "f.py", "g.py", "f.py", "gone", "../out", "a\nb", "s" * 21)
OBJECTIVES = ("Do it per heap 'spec'.", "o" * 40, "Store heap 'results'.", "Per heap 'spce'.", "o" * 41, "")
CONTEXTS = ("c", "🙂" * 50, "d", "c" * 51, 'See heap chunk "env".')
CONSTRAINTS = ("", "", "steps=3", "tokens=2k", "seconds=5", "be quick", "steps=0", "c" * 31)
RESULTS = ("Done.", "Done.", "r" * 60, "r" * 61, "")
PASSING: tuple[FailureKind, ...] = ("rate_limited", "overloaded", "server_error", "timeout", "connection", "incomplete")
CUT: tuple[Stop, ...] = ("end", "truncated", "refused", "window", "paused")


def text(rng: Random) -> str:
    """Any text that UTF-8 can encode; a lone surrogate is replaced before it becomes a fact."""
    kind = rng.randrange(8)
    if kind < 3:
        return rng.choice(("", " ", "\n", "🙂" * 45, "x" * 3_000))
    points = (
        rng.choice((rng.randrange(128), rng.randrange(0xD800), rng.randrange(0xE000, 0x110000))) for _ in range(9)
    )
    return "".join(map(chr, points))


def limits(rng: Random) -> Limits:
    """Mostly generous limits, so that much can happen; occasionally a run is cut short."""
    return Limits(
        rng.choice((None, None, None, 6, 30)),
        rng.choice((None, None, None, 30_000)),
        rng.choice((None, None, None, 0.03)),
        rng.choice((None, None, None, 60.0)),
    )


def value(rng: Random, depth: int = 0) -> Any:
    """Any JSON value, occasionally a deep one."""
    kind = rng.randrange(9 if depth < 3 else 6)
    if kind == 8 and rng.random() < 0.1:
        return nested(30)
    if kind >= 6:
        return [value(rng, depth + 1) for _ in range(rng.randrange(3))]
    if kind == 5 and depth < 3:
        return {text(rng): value(rng, depth + 1) for _ in range(rng.randrange(3))}
    return rng.choice((None, True, False, rng.randrange(-(10**20), 10**20), rng.uniform(-1e9, 1e9), text(rng)))


def nested(levels: int) -> Any:
    found: Any = "bottom"
    for _ in range(levels):
        found = {"a": [found]}
    return found


def entry(rng: Random) -> dict[str, Any]:
    found = {"name": rng.choice(GOOD_NAMES), "content": rng.choice(CONTENTS[:6])}
    if rng.random() < 0.3:
        found |= {"description": rng.choice(DESCRIPTIONS), "source": rng.choice(SOURCES)}
    return found


def some(rng: Random, chance: float, **given: Any) -> dict[str, Any]:
    """A random subset of ``given``."""
    return {name: one for name, one in given.items() if rng.random() < chance}


def arguments(rng: Random, tool: str) -> dict[str, Any]:
    """Arguments of the right types, within and beyond the budgets."""
    store = [entry(rng) for _ in range(rng.choice((0, 1, 1, 2)))]
    chunk = {"name": rng.choice(NAMES), "content": rng.choice(CONTENTS)}
    about = some(rng, 0.4, description=rng.choice(DESCRIPTIONS), source=rng.choice(SOURCES))
    lines = some(rng, 0.3, start_line=rng.randrange(-1, 5), end_line=rng.randrange(-1, 5))
    match tool:
        case "push_frame":
            call = {
                "name": rng.choice(GOOD_NAMES), "objective": rng.choice(OBJECTIVES[: rng.choice((4, 6))]),
                "context": rng.choice(CONTEXTS), "return_spec": rng.choice(("what", "r" * 30)),
            }  # fmt: skip
            return call | some(rng, 0.4, constraint=rng.choice(CONSTRAINTS), verify=rng.choice(("v", " ")), store=store)
        case "pop_frame":
            return {"result": rng.choice(RESULTS)} | some(rng, 0.3, store=store)
        case "heap_alloc" | "heap_write":
            return chunk | about
        case "heap_read":
            return {"name": chunk["name"], **lines}
        case "heap_free":
            return {"name": chunk["name"]}
        case "run_command":
            return {"command": text(rng)}
        case "write_file":
            return {"path": "p", "content": text(rng)}
        case "add_note":
            return {"text": rng.choice(CONTENTS)}
        case "expand":
            return {"index": rng.randrange(-1, 20)}
        case "memory":
            command = rng.choice(("view", "create", "str_replace", "insert", "delete", "rename"))
            paths = ("/memories", "/memories/a", "/memories/b/c", "/etc/passwd", "/memories/../x", "")
            return {"command": command, "path": rng.choice(paths), "file_text": text(rng)} | some(
                rng, 0.5, old_str="x", new_str=text(rng), insert_line=rng.randrange(-1, 3), insert_text="y",
                old_path=rng.choice(paths), new_path=rng.choice(paths),
            )  # fmt: skip
        case _:
            return {"path": "p"}


READS = ("read_file", "list_files", "search_files", "heap_read", "heap_read")


def call(rng: Random) -> ToolCall:
    if rng.random() < 0.15:
        name = rng.choice((*TOOLS, "", "no_such_tool", "POP_FRAME", "x" * 500))
        given = rng.choice((value(rng), {rng.choice(("name", "path", "store", "result")): value(rng)}, nested(20)))
        return ToolCall("", name, given) if rng.random() < 0.8 else ToolCall("", name, None, text(rng))
    tool = rng.choice((*TOOLS, "push_frame", "push_frame", "heap_alloc", "heap_alloc", "heap_read"))
    return ToolCall("", tool, arguments(rng, tool))


def fact(rng: Random, depth: int) -> ModelReplied | ModelFailed:
    """A random model fact: mostly a reply with one call, rarely the end of the run."""
    if rng.random() < 0.08:
        kind: FailureKind = "authentication" if rng.random() < 0.02 else rng.choice((*PASSING * 2, "window"))
        return ModelFailed(kind, text(rng), rng.choice((None, 0.5, -1.0, 1e9)))
    found = reply(rng)
    ends = depth == 0 and any(isinstance(part, ToolCall) and part.name == "pop_frame" for part in found.parts)
    return reply(rng) if ends and rng.random() < 0.9 else found


def reply(rng: Random) -> ModelReplied:
    parts: tuple[ReplyPart, ...] = (call(rng),)
    if rng.random() < 0.2:
        parts = tuple(Text(text(rng)) if rng.random() < 0.5 else call(rng) for _ in range(rng.randrange(4)))
    elif rng.random() < 0.1:  # calls that only read, and rarely one that does not
        tools = [rng.choice(READS) for _ in range(rng.randrange(2, 19))]
        parts = tuple(ToolCall("", tool, arguments(rng, tool)) for tool in tools)
        parts = (*parts, call(rng)) if rng.random() < 0.1 else parts
    usage = Usage(rng.randrange(rng.choice((500, 2_500, 6_000))), rng.randrange(900), output=rng.randrange(300))
    return ModelReplied(parts, "call" if rng.random() < 0.92 else rng.choice(CUT), usage)


def digests(rng: Random, paths: tuple[str, ...]) -> dict[str, str]:
    kinds = ("0a",) * 6 + ("1b", "unknown", "missing", "outside")
    return {path: rng.choice(kinds) for path in paths if rng.random() < 0.9}


def answer(rng: Random, effect: Effect, seconds: float) -> Event:
    """A random answer of the world, ``seconds`` after the start, to any request except one to the model."""
    match effect:
        case UseTool():
            return ToolReturned(text(rng), rng.random() < 0.3, rng.choice((None, 0, 1)), digests(rng, effect.sources))
        case Verify():
            outcome = rng.choice(("exit 0", "exit 1", "timeout"))
            return VerifyReturned(outcome, text(rng), digests(rng, effect.sources))
        case Compact(ask=ask, frame=frame, up_to_step=step):
            found = fact(rng, ask.depth)
            if isinstance(found, ModelFailed):
                return replace(found, prompt_digest=ask.view.digest)
            return ContextCompacted(frame, step, text(rng), found.usage, ask.view.digest, found.stop)
        case DigestSources():
            return SourcesDigested(digests(rng, effect.sources))
        case ReadClock():
            return ClockRead(seconds + rng.uniform(-1, 5))
        case RunChecks():
            return ChecksReturned(
                some(rng, 0.5, reward=rng.random(), other=rng.random()), rng.choice(("", "no verdict"))
            )
        case _:
            raise AssertionError(effect)
