"""What an agent reads of its actions, sub-agents and loops."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from stackmem.core.text import clip_chars

from .crush import crushed

MOST_CHARS = 30_000
_HEAD_CHARS = 80
TOLD_AFTER = 3
FILE_BYTES = 4 * 1024 * 1024
"""Of one file of results: what one call can write, with room to spare."""


class Outcome(Struct, frozen=True):
    """What one action or sub-agent came to.

    Attributes:
        code: In one word; ``SUCCESS`` where it did what was asked.
        told: One sentence more.

    """

    name: str
    ok: bool
    value: Any = None
    code: str = "SUCCESS"
    told: str = ""


class LoopDone(Struct, frozen=True):
    """What a loop came to.

    Attributes:
        kind: ``ForEach`` or ``While``; ``over`` is its collection or condition.
        outcomes: Of each iteration, in order.
        stopped: Why it ended before its time; empty where it did not.

    """

    kind: str
    over: str
    outcomes: tuple[Outcome, ...]
    stopped: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def errors(self) -> int:
        return sum(not outcome.ok for outcome in self.outcomes)

    @property
    def completed(self) -> str:
        """The sentence that stays in the conversation."""
        if self.stopped:
            return f"{self.kind} loop stopped after {len(self.outcomes)} iteration(s): {self.stopped}"
        if self.kind == "ForEach":
            return f"Completed ForEach loop request using collection at '{self.over}'"
        return f"Completed While loop request using condition '{self.over}' after {len(self.outcomes)} iteration(s)"


def plain(value: Any) -> str:
    """A value as text: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def action_text(outcome: Outcome, *, crush: bool, failures: int = 0) -> str:
    """An action's result as it stands in the conversation; ``failures`` counts those of the same action so far."""
    shown = (crushed(outcome.value) if crush else None) or plain(outcome.value)
    lines = [f"## {outcome.name} {'✓' if outcome.ok else '✗'}"]
    lines.append(f"**Result:** {outcome.code}" + (f" — {outcome.told}" if outcome.told else ""))
    if outcome.value is not None:
        lines.append(f"**Output:**\n{clip_chars(shown, MOST_CHARS)}")
    if not outcome.ok and failures >= TOLD_AFTER:
        lines.append(f"This action has failed {failures} times; do not repeat it as it is, try another way.")
    return "\n".join(lines)


def loop_text(done: LoopDone, *, crush: bool) -> str | None:
    """A loop's results in full; None where they are longer than 30,000 characters."""
    parts, size = [_head(done)], 0
    for number, outcome in enumerate(done.outcomes, 1):
        parts.append(_iteration(number, outcome, crush=crush))
        size += len(parts[-1])
        if size > MOST_CHARS:
            return None
    return "\n\n".join(parts)


def loop_lines(done: LoopDone, where: str) -> str:
    """A loop's results, a line an iteration, errors first, as far as they fit; ``where`` says where all of them are."""
    rows = [(outcome.ok, index, outcome) for index, outcome in enumerate(done.outcomes)]
    rows.sort(key=lambda row: row[:2])
    lines, size = [_head(done), where], 0
    for place, (ok, index, outcome) in enumerate(rows):
        brief = " ".join(plain(outcome.value if ok else (outcome.told or outcome.code))[: _HEAD_CHARS * 2].split())
        line = f"{index} {'ok' if ok else 'error'} {brief[:_HEAD_CHARS]}"
        size += len(line) + 1
        if size > MOST_CHARS:
            lines.append(f"({len(rows) - place:,} more)")
            break
        lines.append(line)
    return "\n".join(lines)


def loop_rows(done: LoopDone, most: int = FILE_BYTES) -> Iterator[str]:
    """A loop's results as JSON Lines, in files of at most ``most`` bytes each; a longer row is a file by itself."""
    rows, size = list[str](), 0
    for index, outcome in enumerate(done.outcomes):
        told = {"index": index, "ok": outcome.ok, "code": outcome.code, "told": outcome.told, "value": outcome.value}
        row = json.dumps(told, ensure_ascii=False, default=str) + "\n"
        length = len(row.encode("utf-8", "surrogatepass"))
        if rows and size + length > most:
            yield "".join(rows)
            rows, size = [], 0
        rows.append(row)
        size += length
    yield "".join(rows)


def _head(done: LoopDone) -> str:
    over = "Collection" if done.kind == "ForEach" else "Condition"
    lines = [
        "## Loop Completed",
        f"**Type:** {done.kind}",
        f"**{over}:** {done.over}",
        f"**Processed:** {len(done.outcomes)}, **Errors:** {done.errors}",
    ]
    if done.stopped:
        lines.append(f"**Stopped:** {done.stopped}")
    return "\n".join([*lines, *(f"**Warning:** {told}" for told in done.warnings)])


def _iteration(number: int, outcome: Outcome, *, crush: bool) -> str:
    shown = (crushed(outcome.value) if crush else None) or plain(outcome.value)
    told = f" — {outcome.told}" if outcome.told else ""
    return f"### Iteration {number}\n{'✓' if outcome.ok else '✗'} {outcome.code}{told}\n{shown}"
