"""Compare recordings of real runs under memory strategies, with one JSON Lines entry per recording.

A study that was stopped continues from the entries it has. A recording is billed as it was: by the provider's token
counts, at the real times of its requests, and with the cache marks of its agent. Without recorded times, requests are
ten seconds apart. Shared frame prefixes are marked and billed as their strategy marks them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from stackmem.core.errors import StackmemError, UsageError
from stackmem.core.facts import Event, RunStarted
from stackmem.core.messages import ToolSpec, Usage
from stackmem.core.pricing import Price, cost_usd
from stackmem.core.strict_json import decode_json
from stackmem.foreign.files import digest_of_regular, read_regular
from stackmem.formats.import_ import facts_of, read_sessions
from stackmem.formats.recordings.session import RecordedSession
from stackmem.lab.whatif.recorded import WhatIf, WhatIfQuestion, WhatIfRow, tell_again
from stackmem.lab.whatif.rendered import WhatIfOutcome
from stackmem.memory import open_strategy
from stackmem.models.catalog import lookup
from stackmem.review.measure.moments import moments
from stackmem.review.measure.phases import PhaseRule
from stackmem.trace.long_work import report_work, unwatched

from .conversations import conversations, is_timed
from .provenance import code_digest

READS = (0.1, 0.05, 0.025)
"""Prices of a cached token read, relative to the price of an input token."""
PRICED_AS = "claude-sonnet-5-5"
STRATEGIES = (
    "boundary", "mask", "summary", "compact", "clear", "clear_cold", "clear_paying", "condenser", "memory_dir",
    "handoff", "isolated", "fold", "stackheap", "adaptive",
)  # fmt: skip
PRICED = ("adaptive", "clear_paying")
"""Strategies that decide by the price of a cached token. They are studied as they decide at each price."""
INTERACTIVE = ("claude-code", "codex", "gemini-cli")
"""Formats of agents that people talk to. Each of their sessions counts as a separate task."""
CASES = ("best", "middle", "worst")
FIXED = PhaseRule("fixed", 16, 16)
_LATENCY_SECONDS = 10.0
MAX_RECORDING_BYTES = 100_000_000
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
    rereads: int = field(default=0, name="again")  # results that had to be looked up again

    def __add__(self, other: StrategyBill) -> StrategyBill:
        """Return the cost of two conversations of one session."""
        return StrategyBill(
            tuple(round(own + its, 6) for own, its in zip(self.usd, other.usd, strict=True)),
            max(self.peak_tokens, other.peak_tokens),
            *(getattr(self, name) + getattr(other, name) for name in ("facts", "lost", "frames", "across", "rereads")),
        )


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
    conversations: int = 0  # the main one and those of subagents, split where the agent compacted
    timed: bool = False  # whether requests are billed at their recorded times
    # the bill of the recorded usage at each price in ``READS``; empty if a reply lacks its usage
    recorded_bill: tuple[float, ...] = field(default=(), name="stated")
    strategies: tuple[str, ...] = STRATEGIES  # the strategies of the study
    # strategy, optionally followed by a space and the case or ``fixed``, to its figures
    bills: dict[str, StrategyBill] = field(default_factory=dict, name="told")

    @property
    def agent(self) -> str:
        """The format, which names the agent that made the recording."""
        return self.origin.split(" ", 1)[0]


def study(
    folder: Path, rows: Path, jobs: int, done: Callable[[RecordingEntry], None],
    strategies: tuple[str, ...] = STRATEGIES,
) -> tuple[RecordingEntry, ...]:  # fmt: skip
    """Return the entries of every recording in a folder, adding only those that ``rows`` lacks.

    Raise UsageError if the folder does not exist, or the rows cannot be read or written.

    Args:
        rows: JSON Lines; each new entry is appended.
        done: Receives the bills of each new entry.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; name the folder with the recordings")
    entries = {(entry.file, entry.session): entry for entry in read_entries(rows)}
    if any(entry.strategies != strategies for entry in entries.values()):
        raise UsageError(f"{rows} contains figures of other strategies; name another file with --rows")
    files = {entry.file for entry in entries.values()}
    paths = (path for path in distinct_files(folder) if path.name != TOOLS)
    pending = [path for path in paths if path.relative_to(folder).as_posix() not in files]
    # a fixed pseudo-random order, so that a study that was stopped covers a sample
    pending.sort(key=lambda path: hashlib.sha256(path.name.encode()).digest())
    try:
        with rows.open("ab") as out:
            finished = set[str]()
            report_work("recordings", 0, len(pending))
            for entry in each_entry(folder, pending, jobs, strategies):
                row = replace(entry, code=code_digest())
                out.write(msgspec.json.encode(row) + b"\n")
                out.flush()
                entries[row.file, row.session] = row
                done(row)
                finished.add(row.file)
                report_work("recordings", len(finished), len(pending))
    except OSError as error:
        raise UsageError(f"{rows} cannot be written ({error.strerror}); choose another file with --rows") from error
    return tuple(sorted(entries.values(), key=lambda entry: (entry.file, entry.session)))


def read_entries(rows: Path) -> list[RecordingEntry]:
    """Read a file of rows. An incomplete last line is ignored. Raise UsageError if another line is not an entry."""
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
    large = [path for path in _files(folder) if path.stat().st_size > MAX_RECORDING_BYTES]
    return [*_distinct(folder).values(), *large]


def digests_of(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file, by the path that entries use."""
    return {path.relative_to(folder).as_posix(): digest for digest, path in _distinct(folder).items()}


def _distinct(folder: Path) -> dict[str, Path]:
    """Return the files that are not too large to be read, by their digest."""
    paths: dict[str, Path] = {}
    for path in _files(folder):
        if path.stat().st_size <= MAX_RECORDING_BYTES:
            paths.setdefault(digest_of_regular(path, MAX_RECORDING_BYTES), path)
    return paths


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not (hidden or path.is_symlink() or is_part_of_session(path)) and path.is_file():
            yield path


def is_part_of_session(path: Path) -> bool:
    """Return whether Claude Code stored a subagent in this file, next to its session, which is read with it."""
    subagents = path.parent
    return subagents.name == "subagents" and subagents.parent.with_suffix(".jsonl").is_file()


def each_entry(
    folder: Path, files: list[Path], jobs: int, strategies: tuple[str, ...], advised_at: tuple[float, ...] = READS
) -> Iterator[RecordingEntry]:
    """Yield the entries of the files as they become ready."""
    work = partial(entries_of, folder, strategies=strategies, advised_at=advised_at)
    if jobs == 1 or len(files) < 2:
        for file in files:
            yield from unwatched(work, file)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("forkserver")) as pool:
        for future in as_completed([pool.submit(work, file) for file in files]):
            yield from future.result()


def entries_of(
    folder: Path, file: Path, strategies: tuple[str, ...] = STRATEGIES, advised_at: tuple[float, ...] = READS
) -> list[RecordingEntry]:
    """Return one entry per session of a file, or one entry that explains why the file cannot be used.

    ``advised_at`` are the read prices at which ``adaptive`` decides: each of ``READS``, or one for all of them.
    """
    relative = file.relative_to(folder) if file.is_relative_to(folder) else Path(file.name)
    folder_model, suite, _ = relative.parts[0].partition("@")
    entry, entries = RecordingEntry(relative.as_posix(), strategies=strategies), list[RecordingEntry]()
    try:
        if file.is_file() and file.stat().st_size > MAX_RECORDING_BYTES:
            raise UsageError(f"larger than {MAX_RECORDING_BYTES:,} bytes")
        tools = _tools_beside(file)
        for session in read_sessions(file):
            recorded_model = session.model or next(
                (reply.model for reply in session.replies() if reply.model), "unknown"
            )
            filled = replace(
                entry, session=session.id, model=folder_model if suite else recorded_model.rsplit("/", 1)[-1],
                task=_task(session, file, suite), origin=session.origin, left_out=tuple(session.left_out),
                timed=is_timed(session), recorded_bill=_recorded_bills(session),
            )  # fmt: skip
            entries.append(_with_bills(filled, session, tools, advised_at))
    except StackmemError as error:
        entries.append(replace(entry, unread=str(error).replace(str(folder), "DIR")[:300]))
    except RecursionError:
        entries.append(replace(entry, unread="nests agents too deeply; import a part of it"))
    return entries


def _task(session: RecordedSession, file: Path, suite: str) -> str:
    """Return the task, which groups runs. Each session of an interactive agent is a separate task."""
    if session.origin.split(" ", 1)[0] not in INTERACTIVE:
        return session.name
    return file.name.split(".", 1)[0] if suite else f"{session.id} {file.name}"


def _recorded_bills(session: RecordedSession) -> tuple[float, ...]:
    """Return the bill of the recorded usage at each price of cached reads; empty if a reply lacks its usage."""
    usages = [reply.usage for reply in session.replies() if reply.parts]
    if not usages or not all(usage.prompt and usage.output for usage in usages):
        return ()
    return tuple(round(_bill(sum(usages, Usage()), read), 6) for read in READS)


def _tools_beside(file: Path) -> tuple[ToolSpec, ...]:
    """Read ``tools.json`` from the folder of a recording, if there is one.

    Raise UsageError if the file is not a list of tools.
    """
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


def _with_bills(
    entry: RecordingEntry, session: RecordedSession, tools: tuple[ToolSpec, ...], advised_at: tuple[float, ...]
) -> RecordingEntry:
    """Return the entry with the sums over the conversations of its session."""
    by_price = {
        name: tuple(open_strategy(f"{name}{',' if ':' in name else ':'}read={read:g}").name for read in advised_at)
        for name in entry.strategies if name.partition(":")[0] in PRICED and "read=" not in name
    }  # fmt: skip
    spelled = (
        *(name for name in entry.strategies if name not in by_price and name != "full"),
        *(variant for variants in by_price.values() for variant in variants),
    )
    question = WhatIfQuestion(spelled, PRICED_AS, None if entry.timed else _LATENCY_SECONDS)
    bills_by_name, steps, estimated, count = dict[str, StrategyBill](), 0, 0, 0
    try:
        for conversation in conversations(session):
            events = tuple((fact.at, _with_tools(fact.event, tools)) for fact in facts_of(conversation))
            begin_moments = partial(moments, events)
            result = tell_again(entry.file, begin_moments, question)
            bills = dict(_figures(result))
            if "stackheap" in entry.strategies:
                at_steps = replace(question, strategies=("stackheap",), phases=FIXED, reread_shares=(0.5,))
                bills["stackheap fixed"] = _case(tell_again(entry.file, begin_moments, at_steps).rows[1], 0)
            for name, bill in _merged(bills, by_price).items():
                bills_by_name[name] = bills_by_name[name] + bill if name in bills_by_name else bill
            steps, estimated, count = steps + result.steps, estimated + result.estimated_replies, count + 1
    except StackmemError as error:
        return replace(entry, unread=str(error)[:300])
    if not bills_by_name:
        return replace(entry, unread="does not contain replies of a model, so there is nothing to evaluate")
    return replace(entry, steps=steps, estimated=estimated, conversations=count, bills=bills_by_name)


def _merged(bills: dict[str, StrategyBill], by_price: dict[str, tuple[str, ...]]) -> dict[str, StrategyBill]:
    """Merge the variants of strategies that know the price: at each price, the bill of the variant for that price."""
    variants = {variant for each in by_price.values() for variant in each}
    merged = {name: bill for name, bill in bills.items() if name.rpartition(" ")[0] not in variants}
    for strategy, spelled in by_price.items():
        for case in CASES:
            each = [bills[f"{name} {case}"] for name in spelled]
            usd = each[0].usd if len(each) == 1 else tuple(bill.usd[position] for position, bill in enumerate(each))
            merged[f"{strategy} {case}"] = replace(each[len(each) // 2], usd=usd)
    return merged


def _figures(result: WhatIf) -> Iterator[tuple[str, StrategyBill]]:
    for row in result.rows:
        if row.outcome is None:
            raise UsageError(f"{row.strategy} {row.note}")
        if row.recorded:
            yield "full", _figure(row.outcome)
            continue
        for position, case in enumerate(CASES):
            yield f"{row.strategy} {case}", _case(row, position)


def _case(row: WhatIfRow, position: int) -> StrategyBill:
    if row.bands:
        band = row.bands[position]
        handed = band.handed
        return replace(_figure(band.outcome), frames=handed.frames, across=handed.facts, rereads=handed.rereads)
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
