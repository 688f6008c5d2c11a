"""Recordings of real runs under memory strategies: an entry for each, kept as JSON Lines, so that a study goes on.

Every request is billed as if sent ten seconds after the one before it: few recordings hold times. An agent that is not
ours marks what it sends for five minutes; what frames share is marked as their strategy marks it, and billed so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.facts import Event, RunStarted
from stackmem.core.messages import ToolSpec, Usage
from stackmem.core.pricing import Price, cost_usd
from stackmem.core.strict_json import decode_json
from stackmem.errors import StackmemError, UsageError
from stackmem.foreign.files import digest_of_regular, read_regular
from stackmem.formats.import_ import sessions_of
from stackmem.lab.whatif.recorded import WhatIf, WhatIfQuestion, WhatIfRow, tell_again
from stackmem.lab.whatif.rendered import WhatIfOutcome
from stackmem.measure.moments import Moment, moments
from stackmem.measure.phases import PhaseRule
from stackmem.models.catalog import lookup

from .provenance import code_digest

READS = (0.1, 0.05, 0.025)
"""Prices of a token read from the cache, in prices of a token of input."""
PRICED_AS = "claude-sonnet-5-5"
STRATEGIES = ("boundary", "mask", "summary", "isolated", "fold", "stackheap", "adaptive")
CASES = ("best", "middle", "worst")
FIXED = PhaseRule("fixed", 16, 16)
_LATENCY_SECONDS = 10.0
_LARGEST_BYTES = 100_000_000
TOOLS = "tools.json"
"""Beside recordings: what their agent was shown of its tools, as a request to a chat spells them."""


class _ShownFunction(Struct, frozen=True):
    name: str
    parameters: dict[str, Any]
    description: str = ""


class _ShownTool(Struct, frozen=True):
    function: _ShownFunction


class StrategyBill(Struct, frozen=True):
    """A recording under one strategy."""

    usd: tuple[float, ...]  # the bill at each of the prices of ``READS``
    peak_tokens: int
    # facts, lost: facts that were used later, and those of them that were out of sight before
    facts: int
    lost: int
    frames: int = 0  # hypothetical ones; 0 where the run stayed one conversation
    across: int = 0  # facts told in one frame and used in another
    again: int = 0  # results looked for again


class RecordingEntry(Struct, frozen=True):
    """One recording."""

    file: str  # in the folder, with ``/`` between its parts
    session: str = ""
    model: str = ""  # what stands before an ``@`` in the name of its first folder; else what the recording says
    task: str = ""  # what runs of the same task share
    origin: str = ""
    steps: int = 0
    estimated: int = 0  # replies whose length is an estimate
    left_out: tuple[str, ...] = ()  # what the importer could not take in, a sentence each
    unread: str = ""  # why there are no figures; empty where there are
    code: str = ""  # digest of the code that made it
    told: dict[str, StrategyBill] = {}  # strategy, and after a space the case or ``fixed``, to what came of it


def study(folder: Path, rows: Path, jobs: int, done: Callable[[RecordingEntry], None]) -> tuple[RecordingEntry, ...]:
    """The entries of every recording below a folder; those that ``rows`` holds already are not made again."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; name the one that holds the recordings")
    known = {(entry.file, entry.session): entry for entry in read_entries(rows)}
    files = {entry.file for entry in known.values()}
    found = (path for path in distinct_files(folder) if path.name != TOOLS)
    left = [path for path in found if path.relative_to(folder).as_posix() not in files]
    left.sort(key=lambda path: hashlib.sha256(path.name.encode()).digest())  # one that is stopped is a sample
    try:
        with rows.open("ab") as out:
            for entry in _each(folder, left, jobs):
                made = replace(entry, code=code_digest())
                out.write(msgspec.json.encode(made) + b"\n")
                out.flush()
                known[made.file, made.session] = made
                done(made)
    except OSError as error:
        raise UsageError(f"{rows} cannot be written ({error.strerror}); choose another file with --rows") from error
    return tuple(sorted(known.values(), key=lambda entry: (entry.file, entry.session)))


def read_entries(rows: Path) -> list[RecordingEntry]:
    """What a file of rows holds; a last line that was cut short is left out."""
    if not rows.exists():
        return []
    found, lines = [], read_regular(rows).split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            found += [decode_json(line, RecordingEntry)] if line else []
        except msgspec.DecodeError as error:
            if number == len(lines):
                break
            raise UsageError(f"{rows}, line {number}: no entry of a study ({error}); name another file") from error
    return found


def distinct_files(folder: Path) -> list[Path]:
    """Every file below the folder but hidden ones, the same bytes once; a link is not followed."""
    return list(_distinct(folder).values())


def digests_of(folder: Path) -> dict[str, str]:
    """The same files as entries name them, and the SHA-256 of each."""
    return {path.relative_to(folder).as_posix(): digest for digest, path in _distinct(folder).items()}


def _distinct(folder: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not hidden and not path.is_symlink() and path.is_file() and path.stat().st_size <= _LARGEST_BYTES:
            found.setdefault(digest_of_regular(path, _LARGEST_BYTES), path)
    return found


def _each(folder: Path, files: list[Path], jobs: int) -> Iterator[RecordingEntry]:
    work = partial(entries_of, folder)
    if jobs == 1 or len(files) < 2:
        for file in files:
            yield from work(file)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("forkserver")) as pool:
        for future in as_completed([pool.submit(work, file) for file in files]):
            yield from future.result()


def entries_of(folder: Path, file: Path) -> list[RecordingEntry]:
    """An entry for each session of a file, or one that says why there is none."""
    place = file.relative_to(folder)
    named, suite, _ = place.parts[0].partition("@")
    entry, found = RecordingEntry(place.as_posix()), list[RecordingEntry]()
    try:
        tools = _tools_beside(file)
        for session, facts in sessions_of(file):
            said = session.model or next((reply.model for reply in session.replies() if reply.model), "unknown")
            model = named if suite else said.rsplit("/", 1)[-1]
            one = replace(
                entry, session=session.id, model=model, task=session.name, origin=session.origin,
                left_out=tuple(session.left_out),
            )  # fmt: skip
            events = tuple((fact.at, _with_tools(fact.event, tools)) for fact in facts)
            found.append(_told(one, partial(moments, events)))
    except StackmemError as error:
        found.append(replace(entry, unread=str(error).replace(str(folder), "DIR")[:300]))
    return found


def _tools_beside(file: Path) -> tuple[ToolSpec, ...]:
    """What ``tools.json`` in the same folder says."""
    beside = file.with_name(TOOLS)
    if not beside.is_file():
        return ()
    try:
        found = decode_json(read_regular(beside), list[_ShownTool])
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"{beside} is no list of tools as a request to a chat holds them ({error})") from error
    encoded = ((one.function, msgspec.json.encode(one.function.parameters).decode()) for one in found)
    return tuple(ToolSpec(one.name, one.description, schema) for one, schema in encoded)


def _with_tools(event: Event, tools: tuple[ToolSpec, ...]) -> Event:
    return replace(event, tools=tools) if isinstance(event, RunStarted) and not event.tools else event


def _told(entry: RecordingEntry, again: Callable[[], Iterator[Moment]]) -> RecordingEntry:
    adaptive = tuple(f"adaptive:read={read:g}" for read in READS)
    spelled = (*(name for name in STRATEGIES if name != "adaptive"), *adaptive)
    question = WhatIfQuestion(spelled, PRICED_AS, _LATENCY_SECONDS)
    try:
        result = tell_again(entry.file, again, question)
        fixed = tell_again(entry.file, again, replace(question, strategies=("stackheap",), phases=FIXED, missed=(0.5,)))
    except StackmemError as error:
        return replace(entry, unread=str(error)[:300])
    told = dict(_figures(result))
    told["stackheap fixed"] = _case(fixed.rows[1], 0)
    return replace(entry, steps=result.steps, estimated=result.estimated_replies, told=_one_adaptive(told, adaptive))


def _one_adaptive(told: dict[str, StrategyBill], spelled: Iterable[str]) -> dict[str, StrategyBill]:
    """``adaptive`` once: at each price its bill with the advice that it gives at that price."""
    kept = {name: one for name, one in told.items() if not name.startswith("adaptive")}
    for case in CASES:
        each = [told[f"{name} {case}"] for name in spelled]
        kept[f"adaptive {case}"] = replace(each[1], usd=tuple(one.usd[place] for place, one in enumerate(each)))
    return kept


def _figures(result: WhatIf) -> Iterator[tuple[str, StrategyBill]]:
    for row in result.rows:
        if row.outcome is None:
            raise UsageError(f"{row.strategy} {row.note}")
        if row.recorded or row.strategy.split(":")[0] not in ("isolated", "fold", "stackheap", "adaptive"):
            yield row.strategy.split(":")[0], _figure(row.outcome)
            continue
        for place, case in enumerate(CASES):
            yield f"{row.strategy} {case}", _case(row, place)


def _case(row: WhatIfRow, place: int) -> StrategyBill:
    if row.bands:
        band = row.bands[place]
        handed = band.handed
        return replace(_figure(band.outcome), frames=handed.frames, across=handed.facts, again=handed.again)
    assert row.outcome is not None  # noqa: S101 - its caller refuses such rows
    return _figure(row.outcome)


def _figure(outcome: WhatIfOutcome) -> StrategyBill:
    bills = tuple(round(_bill(outcome.usage, read), 6) for read in READS)
    return StrategyBill(bills, outcome.peak_tokens, outcome.loss.facts, outcome.loss.lost)


def _bill(usage: Usage, read: float) -> float:
    price = _price()
    return cost_usd(usage, replace(price, cache_read=read * price.input, tier_above_tokens=None))


def _price() -> Price:
    row = lookup(PRICED_AS)
    if row is None or row.price is None:
        raise UsageError(f"the table of prices has no {PRICED_AS}; reinstall stackmem")
    return row.price
