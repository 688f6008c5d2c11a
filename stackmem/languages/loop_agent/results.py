"""The text of results for the agent: those of an action, a sub-agent, or a loop's iterations.

Rule 1: an outcome is written out when it arrives and then discarded, regardless of how many there are. Only one line of
it is kept.
Rule 2: a file is written as soon as it is full, while the loop continues.
Rule 3: results of up to 30,000 characters in total appear in full and are not written to a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from stackmem.core.requests import InvokeTool
from stackmem.core.text import clip_chars
from stackmem.languages.operations import Routine, ToolAnswer

from .reply_json import json_value

MAX_CHARS = 30_000
WARN_AFTER = 3


class ActionOutcome(Struct, frozen=True):
    """The outcome of one action or sub-agent."""

    name: str
    ok: bool
    value: Any = None
    code: str = "SUCCESS"  # one word; ``SUCCESS`` if it succeeded
    note: str = ""  # an additional sentence


def value_text(value: Any) -> str:
    """Return a text unchanged and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def action_text(outcome: ActionOutcome, *, crush: bool, failures: int = 0) -> str:
    """Format an action's result for the conversation. ``failures`` counts the consecutive failures of this action."""
    lines = [f"## {outcome.name} {'✓' if outcome.ok else '✗'}"]
    lines.append(f"**Result:** {outcome.code}" + (f" — {outcome.note}" if outcome.note else ""))
    if outcome.value is not None:
        lines.append(f"**Output:**\n{clip_chars(_outcome_text(outcome, crush=crush), MAX_CHARS)}")
    if not outcome.ok and failures >= WARN_AFTER:
        lines.append(f"This action has failed {failures} times; do not repeat it as it is, try another way.")
    return "\n".join(lines)


def iteration_text(number: int, outcome: ActionOutcome, *, crush: bool) -> str:
    """Format an iteration's result in full."""
    message = f" — {outcome.note}" if outcome.note else ""
    text = _outcome_text(outcome, crush=crush)
    return f"### Iteration {number}\n{'✓' if outcome.ok else '✗'} {outcome.code}{message}\n{text}"


def _outcome_text(outcome: ActionOutcome, *, crush: bool) -> str:
    return (crush_json(outcome.value) if crush else None) or value_text(outcome.value)


MIN_CHARS = 600
_MIN_ROWS = 2


def crush_json(value: Any) -> str | None:
    """Return a value as text with tables, or None if it has no table or the text is not shorter than JSON.

    A text that contains JSON is parsed first.
    """
    if isinstance(value, str):
        if len(value) < MIN_CHARS or value.lstrip()[:1] not in ("{", "["):
            return None
        value = json_value(value)
    full_json = _json(value)
    if len(full_json) < MIN_CHARS:
        return None
    text = _crush(value)
    return text if text is not None and len(text) < len(full_json) else None


def _crush(value: Any) -> str | None:
    if isinstance(value, list):
        return _table(value)
    if not isinstance(value, dict):
        return None
    lines, any_ = [], False
    for name, member in value.items():
        table = _table(member) if isinstance(member, list) else None
        any_ = any_ or table is not None
        lines.append(f"{name}: {_json(member)}" if table is None else f"{name}: {table}")
    return "\n".join(lines) if any_ else None


def _table(rows: list[Any]) -> str | None:
    """Format objects that share most of their members as a table, one row per line."""
    if len(rows) < _MIN_ROWS or not all(isinstance(row, dict) and row for row in rows):
        return None
    columns, widest = dict[str, None](), max(map(len, rows))
    for row in rows:
        columns.update(dict.fromkeys(row))
        if len(columns) > 2 * widest:
            return None
    empty = "" if all(len(row) == len(columns) for row in rows) else ", an empty one is absent"
    legend = f"[{len(rows)} rows; columns: {' | '.join(columns)}; each cell is JSON{empty}]"
    cells = (" | ".join(_json(row[name]) if name in row else "" for name in columns) for row in rows)
    return "\n".join([legend, *cells])


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


FILE_BYTES = 4 * 1024 * 1024
"""Maximum size of one results file; leaves room below the limit of a single write call."""
_HEAD_CHARS = 80


class LoopResults:
    """Collects the outcomes of one loop in order."""

    def __init__(self, numbers: Iterator[int], *, crush: bool, visible: bool = True) -> None:
        """Create an empty collection. If the results are not ``visible``, they are only counted."""
        # number of failures
        self.count = self.errors = 0  # number of outcomes
        self._numbers, self._crush, self._visible = numbers, crush, visible
        self._sections: list[str] | None = []
        self._section_chars = 0
        self._lines = (_Lines(), _Lines())  # lines of the failed and of the successful outcomes
        self._rows: list[str] = []
        self._row_bytes = 0
        self._stem = ""
        self._files: list[str] = []
        self._lost = ""

    def take(self, outcome: ActionOutcome) -> Routine:
        """Record the next outcome. Writes a file once one is full."""
        index, self.count = self.count, self.count + 1
        self.errors += not outcome.ok
        if not self._visible:
            return
        self._lines[outcome.ok].add(index, outcome)
        if self._sections is not None:
            self._sections.append(iteration_text(self.count, outcome, crush=self._crush))
            self._section_chars += len(self._sections[-1])
            self._sections = self._sections if self._section_chars <= MAX_CHARS else None
        entry = {"index": index, "ok": outcome.ok, "code": outcome.code, "told": outcome.note, "value": outcome.value}
        row = json.dumps(entry, ensure_ascii=False, default=str) + "\n"
        size = len(row.encode("utf-8", "surrogatepass"))
        if self._rows and self._row_bytes + size > FILE_BYTES:
            yield from self._write()
        self._rows.append(row)
        self._row_bytes += size

    def text(self, head: str) -> Routine:
        """Return all results in full if they are short.

        Otherwise return one line per result as far as they fit, errors first, and write all results to files.
        """
        if self._sections is not None and not self._stem:
            return "\n\n".join([head, *self._sections])
        yield from self._write()
        lines, size = [head, self._location()], 0
        for position, line in enumerate([*self._lines[False].texts, *self._lines[True].texts]):
            size += len(line) + 1
            if size > MAX_CHARS:
                lines.append(f"({self.count - position:,} more)")
                break
            lines.append(line)
        return "\n".join(lines)

    def _write(self) -> Routine:
        self._stem = self._stem or f".stackmem/loop/{next(self._numbers)}"
        number = len(self._files) + 1
        file = f"{self._stem}.jsonl" if number == 1 else f"{self._stem}.{number}.jsonl"
        rows, self._rows, self._row_bytes = "".join(self._rows), [], 0
        answer: ToolAnswer = yield InvokeTool("write_file", {"path": file, "content": rows, "parents": True})
        self._files.append("" if answer.failed else file)
        if answer.failed:
            self._lost = self._lost or f" What belongs in {file} could not be written ({answer.detail})."

    def _location(self) -> str:
        files = [file for file in self._files if file]
        if not files:
            return self._lost.strip()
        location = files[0] if len(files) == 1 else f"{len(files)} files, from {files[0]} to {files[-1]}"
        subject = "Results" if self._lost else "All results"
        return f"{subject} are stored in full in {location}, one JSON object a line.{self._lost}"


class _Lines:
    """One line for each outcome of one kind, as long as they could be shown."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._remaining_chars = MAX_CHARS

    def add(self, index: int, outcome: ActionOutcome) -> None:
        if self._remaining_chars < 0:
            return
        text = value_text(outcome.value if outcome.ok else (outcome.note or outcome.code))
        brief = " ".join(text[: _HEAD_CHARS * 2].split())[:_HEAD_CHARS]
        self.texts.append(f"{index} {'ok' if outcome.ok else 'error'} {brief}")
        self._remaining_chars -= len(self.texts[-1]) + 1


class LoopDone(Struct, frozen=True):
    """The result of a loop."""

    kind: str  # ``ForEach`` or ``While``; ``over`` is its collection or condition
    source: str
    results: LoopResults
    stopped: str = ""  # why it ended early; empty if it did not
    warnings: tuple[str, ...] = ()

    @property
    def completed(self) -> str:
        """The sentence that stays in the conversation."""
        times = f"after {self.results.count} iteration(s)"
        if self.stopped:
            return f"{self.kind} loop stopped {times}: {self.stopped}"
        if self.kind == "ForEach":
            return f"Completed ForEach loop request using collection at '{self.source}'"
        return f"Completed While loop request using condition '{self.source}' {times}"

    @property
    def head(self) -> str:
        """The text above the results."""
        lines = [
            "## Loop Completed",
            f"**Type:** {self.kind}",
            f"**{'Collection' if self.kind == 'ForEach' else 'Condition'}:** {self.source}",
            f"**Processed:** {self.results.count}, **Errors:** {self.results.errors}",
        ]
        if self.stopped:
            lines.append(f"**Stopped:** {self.stopped}")
        return "\n".join([*lines, *(f"**Warning:** {warning}" for warning in self.warnings)])
