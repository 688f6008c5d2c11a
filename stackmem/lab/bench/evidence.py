"""Compare recordings of real runs under memory strategies, with one JSON Lines entry per recording.

A study that was stopped continues from the entries it has. Every request is billed as if sent ten seconds after the
previous one, because few recordings contain times. The prompts of other agents are marked for a cache time of five
minutes. Shared frame prefixes are marked and billed as their strategy marks them.
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
"""Prices of a cached token read, relative to the price of an input token."""
PRICED_AS = "claude-sonnet-5-5"
STRATEGIES = ("boundary", "mask", "summary", "isolated", "fold", "stackheap", "adaptive")
CASES = ("best", "middle", "worst")
FIXED = PhaseRule("fixed", 16, 16)
_LATENCY_SECONDS = 10.0
_MAX_BYTES = 100_000_000
TOOLS = "tools.json"
"""File next to recordings with the tool list their agent received, in the format of a chat request."""


class _ShownFunction(Struct, frozen=True):
    name: str
    parameters: dict[str, Any]
    description: str = ""


class _ShownTool(Struct, frozen=True):
    function: _ShownFunction


class StrategyBill(Struct, frozen=True):
    """The cost of a recording under one strategy."""

    usd: tuple[float, ...]  # the bill at each price in ``READS``
    peak_tokens: int
    # facts: facts that were used later; lost: those of them that had left the prompt before that
    facts: int
    lost: int
    frames: int = 0  # hypothetical frames; 0 if the run stayed one conversation
    across: int = 0  # facts found in one frame and used in another
    again: int = 0  # results that had to be looked up again


class RecordingEntry(Struct, frozen=True):
    """The figures of one recording."""

    file: str  # relative to the folder, with ``/`` as the separator
    session: str = ""
    model: str = ""  # the part before ``@`` in the name of the first folder, otherwise the model in the recording
    task: str = ""  # shared by all runs of the same task
    origin: str = ""
    steps: int = 0
    estimated: int = 0  # replies whose length is an estimate
    left_out: tuple[str, ...] = ()  # what the importer could not use, one sentence each
    unread: str = ""  # why the figures are missing; empty if they exist
    code: str = ""  # digest of the code that produced the entry
    # strategy, optionally followed by a space and the case or ``fixed``, to its figures
    told: dict[str, StrategyBill] = {}


def study(folder: Path, rows: Path, jobs: int, done: Callable[[RecordingEntry], None]) -> tuple[RecordingEntry, ...]:
    """Return the entries of every recording in a folder, adding only those that ``rows`` lacks."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; name the folder with the recordings")
    entries = {(entry.file, entry.session): entry for entry in read_entries(rows)}
    files = {entry.file for entry in entries.values()}
    paths = (path for path in distinct_files(folder) if path.name != TOOLS)
    left = [path for path in paths if path.relative_to(folder).as_posix() not in files]
    # a fixed pseudo-random order, so that a study that was stopped covers a sample
    left.sort(key=lambda path: hashlib.sha256(path.name.encode()).digest())
    try:
        with rows.open("ab") as out:
            for entry in _each(folder, left, jobs):
                made = replace(entry, code=code_digest())
                out.write(msgspec.json.encode(made) + b"\n")
                out.flush()
                entries[made.file, made.session] = made
                done(made)
    except OSError as error:
        raise UsageError(f"{rows} cannot be written ({error.strerror}); choose another file with --rows") from error
    return tuple(sorted(entries.values(), key=lambda entry: (entry.file, entry.session)))


def read_entries(rows: Path) -> list[RecordingEntry]:
    """Read a file of rows. An incomplete last line is ignored."""
    if not rows.exists():
        return []
    entries, lines = [], read_regular(rows).split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            entries += [decode_json(line, RecordingEntry)] if line else []
        except msgspec.DecodeError as error:
            if number == len(lines):
                break
            raise UsageError(
                f"{rows}, line {number} is not an entry of a study ({error}); name another file"
            ) from error
    return entries


def distinct_files(folder: Path) -> list[Path]:
    """Return the files in a folder, without hidden files, links and duplicates."""
    return list(_distinct(folder).values())


def digests_of(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file, by the path that entries use."""
    return {path.relative_to(folder).as_posix(): digest for digest, path in _distinct(folder).items()}


def _distinct(folder: Path) -> dict[str, Path]:
    paths: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not hidden and not path.is_symlink() and path.is_file() and path.stat().st_size <= _MAX_BYTES:
            paths.setdefault(digest_of_regular(path, _MAX_BYTES), path)
    return paths


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
    """Return one entry per session of a file, or one entry that explains why the file cannot be used."""
    relative = file.relative_to(folder)
    folder_model, suite, _ = relative.parts[0].partition("@")
    entry, entries = RecordingEntry(relative.as_posix()), list[RecordingEntry]()
    try:
        tools = _tools_beside(file)
        for session, facts in sessions_of(file):
            recorded_model = session.model or next(
                (reply.model for reply in session.replies() if reply.model), "unknown"
            )
            model = folder_model if suite else recorded_model.rsplit("/", 1)[-1]
            filled = replace(
                entry, session=session.id, model=model, task=session.name, origin=session.origin,
                left_out=tuple(session.left_out),
            )  # fmt: skip
            events = tuple((fact.at, _with_tools(fact.event, tools)) for fact in facts)
            entries.append(_told(filled, partial(moments, events)))
    except StackmemError as error:
        entries.append(replace(entry, unread=str(error).replace(str(folder), "DIR")[:300]))
    return entries


def _tools_beside(file: Path) -> tuple[ToolSpec, ...]:
    """Read ``tools.json`` from the folder of a recording, if there is one."""
    tools_file = file.with_name(TOOLS)
    if not tools_file.is_file():
        return ()
    try:
        shown_tools = decode_json(read_regular(tools_file), list[_ShownTool])
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"{tools_file} is not a list of tools in the format of a chat request ({error})") from error
    encoded = (
        (function.function, msgspec.json.encode(function.function.parameters).decode()) for function in shown_tools
    )
    return tuple(ToolSpec(function.name, function.description, schema) for function, schema in encoded)


def _with_tools(event: Event, tools: tuple[ToolSpec, ...]) -> Event:
    return replace(event, tools=tools) if isinstance(event, RunStarted) and not event.tools else event


def _told(entry: RecordingEntry, begin_moments: Callable[[], Iterator[Moment]]) -> RecordingEntry:
    adaptive = tuple(f"adaptive:read={read:g}" for read in READS)
    spelled = (*(name for name in STRATEGIES if name != "adaptive"), *adaptive)
    question = WhatIfQuestion(spelled, PRICED_AS, _LATENCY_SECONDS)
    try:
        result = tell_again(entry.file, begin_moments, question)
        fixed = tell_again(
            entry.file, begin_moments, replace(question, strategies=("stackheap",), phases=FIXED, missed=(0.5,))
        )
    except StackmemError as error:
        return replace(entry, unread=str(error)[:300])
    bills = dict(_figures(result))
    bills["stackheap fixed"] = _case(fixed.rows[1], 0)
    return replace(entry, steps=result.steps, estimated=result.estimated_replies, told=_one_adaptive(bills, adaptive))


def _one_adaptive(bills: dict[str, StrategyBill], spelled: Iterable[str]) -> dict[str, StrategyBill]:
    """Merge the variants of ``adaptive``: at each price, its bill with the advice it gives at that price."""
    merged = {name: bill for name, bill in bills.items() if not name.startswith("adaptive")}
    for case in CASES:
        each = [bills[f"{name} {case}"] for name in spelled]
        merged[f"adaptive {case}"] = replace(
            each[1], usd=tuple(bill.usd[position] for position, bill in enumerate(each))
        )
    return merged


def _figures(result: WhatIf) -> Iterator[tuple[str, StrategyBill]]:
    for row in result.rows:
        if row.outcome is None:
            raise UsageError(f"{row.strategy} {row.note}")
        if row.recorded or row.strategy.split(":")[0] not in ("isolated", "fold", "stackheap", "adaptive"):
            yield row.strategy.split(":")[0], _figure(row.outcome)
            continue
        for position, case in enumerate(CASES):
            yield f"{row.strategy} {case}", _case(row, position)


def _case(row: WhatIfRow, position: int) -> StrategyBill:
    if row.bands:
        band = row.bands[position]
        handed = band.handed
        return replace(_figure(band.outcome), frames=handed.frames, across=handed.facts, again=handed.again)
    assert row.outcome is not None  # noqa: S101 - the caller refuses such rows
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
