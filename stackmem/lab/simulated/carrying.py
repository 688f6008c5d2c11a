"""The text that the reader adds to its call on request: its whole state, a fold of the last answer, or marks.

A state or fold contains facts, dead ends, changes, the plan, candidates and how far files were read, in the grammar of
the worlds. It contains no free prose. Marks say which episode a call belongs to, or which results are archived.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from stackmem.core.messages import Message, Text, ToolResult

from .knowledge import Knowledge
from .known_facts import dead_ends, fact_lines, newest, visible
from .lines import Candidates, Changed, Excluded, Planned, StatedFact, UnitsDone, fact_line, lines
from .sight import ChosenCall

_STATE = re.compile(r"^STATE DUE: .*at most ([\d,]{1,12}) characters")
_FOLD = re.compile(
    r"^FOLD DUE: steps (\d{1,9}) to (\d{1,9}), behind (\d{1,9}) blocks that begin with step (\d{1,9})\. "
    r".*at most ([\d,]{1,12}) characters"
)
_DASHBOARD = re.compile(r"^CONTEXT: ([\d,]{1,12}) of ([\d,]{1,12}) tokens$", re.MULTILINE)
_ROW = re.compile(r"^(\d{1,6}) \| \S{1,64} \| ([\d,]{1,12}) \| (\d{1,6}) \| \d{1,6}$", re.MULTILINE)
_EPISODES = "`EPISODE explore NAME`"
_CROWDED, _ROOMY = 0.8, 0.5
"""From this share of the budget on, the reader archives results until this share is left."""
_RECENT = 3
"""Results of so many steps are not archived."""
MAX_BLOCKS = 8
"""With at least this many blocks, all are folded into one."""
_PLANNED = 10
_UNIT = re.compile(r"\./work do (\d{1,6})\b")


def carried(knowledge: Knowledge, last: Message) -> str:
    """Return the text that the last message requests in addition to the call; empty if it requests none."""
    for part in reversed(last.parts):
        if not isinstance(part, Text):
            continue
        if match := _STATE.match(part.text):
            return "\n".join(["STATE", *_fitting(_all(knowledge), _number(match[1]))])
        if match := _FOLD.match(part.text):
            first, ends, blocks, oldest = (int(match[at]) for at in range(1, 5))
            everything = blocks >= MAX_BLOCKS
            all_lines = _all(knowledge) if everything else _answer_lines(knowledge, last)
            kept_lines = list(_fitting(all_lines, _number(match[5]))) or ["Nothing that later steps need."]
            return "\n".join([f"FOLD {oldest if everything else first}-{ends}", *kept_lines])
        if match := _DASHBOARD.search(part.text):
            return _archived(_number(match[1]), _number(match[2]), part.text)
    return ""


def _archived(used: int, budget: int, dashboard: str) -> str:
    """Return the line that archives the oldest results of a crowded prompt; empty if it is not crowded."""
    if used < budget * _CROWDED:
        return ""
    steps, remaining = list[str](), used
    for row in _ROW.finditer(dashboard):
        if remaining <= budget * _ROOMY or int(row[3]) <= _RECENT:
            break
        steps.append(row[1])
        remaining -= _number(row[2])
    return f"ARCHIVE {', '.join(steps)}" if steps else ""


def episode(system: str, action: ChosenCall, knowledge: Knowledge, last: Message) -> str:
    """Return the mark of the episode that a call belongs to, and what the last answer told; empty if no one asks.

    A unit is an act episode that relies on everything found so far. Everything else is one explore episode.
    """
    if _EPISODES not in system:
        return ""
    unit = _UNIT.match(str(action.arguments.get("command", "")))
    mark = f"EPISODE act unit-{unit[1]} after facts" if unit else "EPISODE explore facts"
    return "\n".join([mark, *_answer_lines(knowledge, last)])


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _fitting(candidates: Iterable[str], room: int) -> Iterator[str]:
    for line in dict.fromkeys(candidates):
        room -= len(line) + 1
        if room < 0:
            return
        yield line


def _all(knowledge: Knowledge) -> Iterator[str]:
    """Yield everything that is known and may be needed, the costliest to lose first."""
    done = max(knowledge.done, knowledge.planned_from)
    if done > 0:
        yield f"done units 1-{done}"
    if knowledge.talks and knowledge.objective is not None:
        yield f"Do units {knowledge.objective[0]} to {knowledge.objective[1]}."
    yield from (f"changed {scope} @ {at}" for scope, (at, _) in knowledge.changed.items())
    planned = [knowledge.plan[unit] for unit in sorted(knowledge.plan) if unit > done][:_PLANNED]
    yield from map(_plan_line, planned)
    keys = sorted(knowledge.facts, key=lambda key: (-newest(knowledge, key), key))
    yield from fact_lines(knowledge, keys)
    yield from dead_ends(knowledge)
    needed = {need.key for unit_plan in planned for need in unit_plan.needs if visible(knowledge, need.key) is None}
    yield from (_candidate_line(key, knowledge.candidates[key]) for key in sorted(needed & knowledge.candidates.keys()))
    yield from read_lines(knowledge, 0)


def _answer_lines(knowledge: Knowledge, last: Message) -> Iterator[str]:
    """Yield the lines that the answers in the last message contain."""
    for part in last.parts:
        for line in lines(part.text) if isinstance(part, ToolResult) else ():
            match line:
                case StatedFact():
                    if not knowledge.loses(line.key, line.value):
                        yield fact_line(line.key, line.value, line.at)
                case Excluded():
                    yield f"not {line.key} = {line.value}"
                case Changed():
                    yield f"changed {line.scope} @ {line.at}"
                case UnitsDone():
                    yield f"done units 1-{line.last}"
                case Planned():
                    yield _plan_line(line)
                case Candidates():
                    yield _candidate_line(line.key, line.values)
                case _:
                    pass
    yield from read_lines(knowledge, knowledge.order - len(last.parts))


def _plan_line(planned: Planned) -> str:
    needs = ", ".join(f"{need.key} <{need.way}>" for need in planned.needs) or "nothing"
    return f"unit {planned.unit}: needs {needs}" + (f"; gives {', '.join(planned.gives)}" if planned.gives else "")


def _candidate_line(key: str, values: Iterable[str]) -> str:
    return f"candidate {key}: {' '.join(values)}"


def read_lines(knowledge: Knowledge, since: int) -> Iterator[str]:
    """Yield how far each unfinished file was read. A file that was read to its end is read again if needed."""
    for path, spans in sorted(knowledge.spans.items()):
        at = 0
        for span in sorted(spans, key=lambda shown_lines: shown_lines.first):
            at = span.last if span.first <= at + 1 <= span.last else at
        total = max(span.total for span in spans)
        if at and (total < 0 or at < total) and any(span.order > since for span in spans):
            yield f"read {path} to line {at}"
