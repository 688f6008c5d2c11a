"""Formats one step of a run as text, for ``stackmem replay --step``."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from stackmem.cli.screen.text import one_line, spell_cost
from stackmem.core.facts import Event
from stackmem.core.text import quantity

from .step_view import ShownFrame, ShownPart, StepView


def step_text(view: StepView) -> str:
    """Format a step as text. The prompt is not cut, and untrusted text is not made safe here."""
    return "\n".join(_lines(view))


def _lines(view: StepView) -> Iterator[str]:
    frame = view.frame
    utc = datetime.fromtimestamp(view.at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    cost = spell_cost(view.usd, view.usage.total) + (" so far" if view.usd else "")
    estimated = " (estimated)" if view.usage.estimated else ""
    yield (
        f"step {view.step} of {view.run}, record {view.seq}: {frame.id} {one_line(frame.name)!r}, depth {frame.depth}, "
        f"{utc}, {view.usage.total:,} tokens{estimated}, {cost}"
    )
    chars = sum(part.chars for part in view.prompt)
    yield f"\nPROMPT: {len(view.prompt)} parts, {chars:,} characters, digest {view.prompt_digest[:16] or 'not kept'}"
    if not view.prompt_sent:
        yield "(rendered by the current rules; the original is unknown: the run was imported or used other rules)"
    yield from _parts(view.prompt)
    yield f"\nREPLY: {view.stop}, {view.usage.output:,} tokens"
    yield from _parts(view.reply)
    yield "\nEVENTS"
    for event in view.followed:
        yield from _event(event)
    yield "\nREGISTERS"
    for each in view.stack:
        yield from _registers(each)
    if not view.stack:
        yield "no frames left"
    yield f"\nHEAP: {quantity(len(view.heap), 'chunk')}, {view.heap_chars:,} characters"
    for chunk in view.heap:
        notes = [f"{len(chunk.content):,} chars", f"written step {chunk.written}"]
        notes.append("never read" if chunk.read is None else f"read step {chunk.read}")
        notes += [f"source {chunk.source}"] * bool(chunk.source) + ["STALE"] * chunk.stale
        yield f"-- {chunk.name} ({', '.join(notes)}) {chunk.description}".rstrip()
        yield chunk.content
    yield f"\nFILES CHANGED: {view.files_missing or len(view.files)}"
    for file in view.files:
        yield f"-- {one_line(file.path)}, {file.kind}"
        yield file.diff


def _parts(parts: tuple[ShownPart, ...]) -> Iterator[str]:
    for part in parts:
        yield f"-- {one_line(part.label)} ({part.chars:,} chars)"
        yield part.text


def _event(event: Event) -> Iterator[str]:
    """Yield the event's kind with its short fields, then its long texts."""
    short, long = [], []
    for name, value in msgspec.structs.asdict(event).items():
        if isinstance(value, str) and (len(value) > 80 or "\n" in value):
            long.append((name, value))
        elif value not in ("", (), {}, None, False, msgspec.UNSET):
            text = value if isinstance(value, str | int | float) else msgspec.json.encode(value).decode()
            short.append(f"{name} {text}")
    yield f"-- {type(event).__name__} {', '.join(short)}".rstrip()
    for name, value in long:
        yield f"{name}:" if len(long) > 1 else ""
        yield value


def _registers(frame: ShownFrame) -> Iterator[str]:
    yield f"-- {frame.id} {one_line(frame.name)!r}, depth {frame.depth}"
    yield f"R0 intent: {frame.intent}"
    yield f"R1 return: {frame.return_spec}"
    if frame.constraint:
        yield f"R3 constraint: {frame.constraint}"
