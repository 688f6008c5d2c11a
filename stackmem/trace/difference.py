"""Describes differences between a recorded fact and the derived one."""

from __future__ import annotations

import difflib
from typing import Any

import msgspec

from stackmem.core import requests
from stackmem.core.facts import Event
from stackmem.core.messages import Message, View

_BRIEF_CHARS = 300
_LINES = 40
_LINE_CHARS = 400


def equal_facts(fact: object, other: object) -> bool:
    """Return whether two facts are equal.

    The parameters are plain objects, because the type checker would otherwise compare every pair of the union's
    members.
    """
    return fact == other


def explain_difference(seq: int, recorded: Event, derived: Event | requests.Effect | None) -> str:
    """Describe the recorded and the derived fact. For facts of the same kind, list the fields that differ."""
    if type(recorded) is not type(derived):
        return f"record {seq}: recorded {brief(recorded)}, today's rules derive {brief(derived)}"
    kind = type(recorded).__name__
    fields = field_diff(recorded, derived)
    return f"record {seq}: recorded {kind}, today's rules derive {kind} with different fields:\n{fields}"


def explain_rerun_difference(seq: int, recorded: Event, event: Event) -> str:
    """Describe the recorded fact and the one of the rerun. For facts of the same kind, list the fields that differ."""
    if type(recorded) is not type(event):
        return f"record {seq}: recorded {brief(recorded)}, now {brief(event)}"
    fields = field_diff(recorded, event, sides=("recorded", "now"))
    return f"record {seq}: {type(recorded).__name__} with different fields:\n{fields}"


def field_diff(recorded: Any, derived: Any, *, sides: tuple[str, str] = ("recorded", "derived")) -> str:
    """List the fields that differ between two values of one class: short values side by side, texts line by line."""
    lines = []
    for name in recorded.__struct_fields__:
        value, other = getattr(recorded, name), getattr(derived, name)
        if value == other:
            continue
        old, new = _spell(value), _spell(other)
        if len(old) + len(new) <= 160 and "\n" not in old + new:
            lines.append(f"  {name}: {sides[0]} {old}, {sides[1]} {new}")
            continue
        lines.append(f"  {name} (- {sides[0]}, + {sides[1]}):")
        diff = list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=2))[2:]
        lines += [f"    {clip_line(line)}" for line in diff[:_LINES]]
        if len(diff) > _LINES:
            lines.append(f"    [... {len(diff) - _LINES:,} more lines ...]")
    return "\n".join(lines)


def prompt_difference(seq: int, recorded: str, view: View, proven: tuple[int, int] | None) -> str:
    """Describe what is known about a prompt that differs. Only the digest of the sent prompt is stored.

    ``proven`` is a step of the same frame whose prompt was proved equal, and how many of its messages begin this
    prompt. None if there is no such step.
    """
    summary = (
        f"record {seq}: the prompt differs; recorded digest {recorded[:16]}…, derived today {view.digest[:16]}… "
        "(the prompt that was sent is not stored)"
    )
    step, count = proven or (0, 0)
    new = list(view.messages)[count:]
    if not step or not new:
        return summary
    lines = [
        f"{summary}; its first {count} messages are those of step {step}, whose prompt is equal, so the difference is "
        "after them:"
    ]
    for number, message in enumerate(new, count + 1):
        lines += [f"  message {number}, {message.role}, as derived today:", *_message_lines(message)]
    return "\n".join(lines)


def brief(item: Event | requests.Effect | None) -> str:
    if item is None:
        return "that the run is over"
    if isinstance(item, requests.AskModel):
        return f"a request for step {item.step}"
    if isinstance(item, requests.AskWords):
        return "the question which words of the request must outlive it"
    if isinstance(item, requests.Compact):
        return f"a request to compact {item.frame} up to step {item.up_to_step}"
    if isinstance(
        item, requests.InvokeTool | requests.LoadSource | requests.AskUser | requests.Wait | requests.Parallel
    ):
        return "that the program asks for " + " and ".join(
            type(effect).__name__ for effect in requests.effects_of(item)
        )
    text = f"{type(item).__name__} {msgspec.json.encode(item).decode()}"
    return text if len(text) <= _BRIEF_CHARS else text[: _BRIEF_CHARS - 1] + "…"


def clip_line(line: str) -> str:
    return line if len(line) <= _LINE_CHARS else line[: _LINE_CHARS - 1] + "…"


def _message_lines(message: Message) -> list[str]:
    text = msgspec.json.format(msgspec.json.encode(message.parts), indent=2).decode()
    lines = [f"    {clip_line(line)}" for line in text.splitlines()]
    return lines if len(lines) <= _LINES else [*lines[:_LINES], f"    [... {len(lines) - _LINES:,} more lines ...]"]


def _spell(value: object) -> str:
    if value is msgspec.UNSET:
        return "nothing"
    if isinstance(value, str):
        return value if "\n" in value or len(value) > 60 else repr(value)
    return msgspec.json.format(
        msgspec.json.encode(value), indent=2 if not isinstance(value, int | float) else 0
    ).decode()
