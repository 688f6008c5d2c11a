"""What a run came to, as ``--json`` prints it and ``result.json`` keeps it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from stackmem.core.facts import ModelReplied
from stackmem.core.messages import FailureKind, Usage
from stackmem.core.state import State
from stackmem.core.strict_json import decode_json
from stackmem.errors import TraceError
from stackmem.foreign.files import read_regular
from stackmem.trace.lineage import RunReader
from stackmem.trace.private import write_json
from stackmem.trace.record import Record
from stackmem.workspace.secrets import Scrubber

_BRIEF_CHARS = 60
_STOPPED_CODES = {"model_error": 4, "workspace_error": 5}
_WAYS_OUT: dict[FailureKind, str] = {
    "connection": "see that the server runs, or name another with --base-url",
    "incomplete": "see what the server's own log says, then resume the run",
    "timeout": "give it a shorter prompt or a faster server, then resume the run",
    "window": "start the server with a larger context, then resume the run; or solve again with --strategy stackheap",
}


class RunResult(Struct, frozen=True):
    """The outcome of a run.

    Attributes:
        run: Its id, the name of ``run_dir``.
        ending: Why it ended.
        outcome: ``solved`` or ``unsolved`` by its checks; without checks ``finished``, or the ending.
        steps: Model replies.
        frames: Frames pushed.
        cost_usd: None where the model's price is unknown.
        wall_seconds: From the first request to the end of the checks.
        result: What the root frame returned, or what stood when the run was stopped.
        check_error: Why the checks gave no verdict; empty otherwise.
        failure: What the provider or the sandbox said that ended the run; empty otherwise.
        changed: Files that differ from the start.
        chunks: The names of what stood on the heap at the end.
        not_kept: Files that the patch leaves out, as they are too large, unreadable, or hold a secret.
        changed_meanwhile: What has changed in the folder under a layer since the run began: by you, not by the run.
        executed_by_host: Those of them that the host may run later: look before you use them.
        commits: Those that the agent made, the newest first; they stay in the workspace, the patch holds their changes.
        history: How much of the folder's git history could be read, where not all of it.
        steps_with_secrets: Steps whose reply holds a secret of the caller's environment.
        records, digest: Length of the trace, and the digest of its last line.
        signal: The signal that interrupted the run, 0 without one.
        parent: The run that it was forked from, or that an edited program went on from; else empty.
        unsigned: Why the run is not signed; empty where it is, and where the extra for it is not installed.
    """

    run: str
    run_dir: str
    task: str
    model: str
    strategy: str
    ending: str
    outcome: str
    steps: int
    frames: int
    usage: Usage
    cost_usd: float | None
    wall_seconds: float
    isolation: str
    result: str
    workspace: str
    check_error: str = ""
    failure: str = ""
    changed: tuple[str, ...] = ()
    chunks: tuple[str, ...] = ()
    not_kept: tuple[str, ...] = ()
    changed_meanwhile: tuple[str, ...] = ()
    executed_by_host: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    history: str = ""
    steps_with_secrets: tuple[int, ...] = ()
    applied_to: str = ""
    records: int = 0
    digest: str = ""
    signal: int = 0
    parent: str = ""
    unsigned: str = ""

    @property
    def exit_code(self) -> int:
        """0 solved or finished, 1 unsolved, stalled or halted, 3 limit, 4 provider, 5 workspace, 128 and the signal."""
        if self.ending in _STOPPED_CODES:
            return _STOPPED_CODES[self.ending]
        if self.ending == "interrupted" or self.signal:
            return 128 + (self.signal or 2)
        if self.outcome in ("solved", "finished"):
            return 0
        if self.ending == "input_needed":
            return 8
        return 3 if self.ending.startswith("limit:") else 1


def failure_of(state: State) -> str:
    """What ended a run that the provider or the sandbox ended."""
    if state.end is None:
        return ""
    if state.failures and state.end.ending in ("model_error", "stalled"):
        last = state.failures[-1]
        tries = f" ({len(state.failures)} attempts)" if len(state.failures) > 1 else ""
        way_out = f"; {_WAYS_OUT[last.kind]}" if last.kind in _WAYS_OUT else ""
        return f"{last.kind}: {last.detail}{tries}{way_out}"
    return state.end.result if state.end.ending == "workspace_error" else ""


def write_result(result: RunResult, path: Path) -> None:
    write_json(path, result)


def read_result(path: str | os.PathLike[str]) -> RunResult | None:
    """The result of a finished run; None where the run has none, or another version wrote it."""
    try:
        return decode_json(read_regular(path), RunResult)
    except (OSError, msgspec.DecodeError, RecursionError):
        return None


def result_fields(state: State) -> dict[str, Any]:
    """What a result says that follows from the trace alone, by field.

    Without ``failure``: that is our sentence on what the trace holds, and another version may put it differently.
    """
    ended, start = state.end, state.begun
    return {
        "task": start.task_name,
        "model": start.model,
        "strategy": start.strategy,
        "ending": ended.ending if ended else "interrupted",
        "outcome": state.outcome,
        "steps": state.step,
        "frames": state.pushes,
        "usage": state.usage,
        "cost_usd": None if state.cost_usd is None else round(state.cost_usd, 6),
        "result": (ended.result or state.result) if ended else "",
        "check_error": state.checks.error if state.checks else "",
    }


class TraceEnd:
    """A trace's end, held against the run's ``result.json``: whole lines can be lost there, or be others."""

    def __init__(self, run_dir: Path) -> None:
        self._run = run_dir.name
        path = run_dir / "result.json"
        self._result = read_result(path)
        self.result_is_unread = self._result is None and os.path.lexists(path)
        self._records, self._digest = 0, ""

    def passing(self, reader: RunReader) -> Iterator[Record]:
        """The reader's records; the digest of the last one that the result speaks of is kept."""
        last = self._result.records if self._result is not None else 0
        for record in reader:
            self._records = record.seq
            if record.seq <= last:
                self._digest = reader.digest
            yield record

    def refuse_other(self, state: State) -> None:
        """Hold the result against the trace, once all of its records have passed.

        Raises:
            TraceError: The result was written after another trace than this one, or says something else of its end.
        """
        result, count = self._result, self._records
        if result is None or not result.digest:  # killed before its end; or none of a trace
            return
        if result.records > count:
            raise TraceError(
                f"the trace of {self._run} ends at record {count:,} and its result.json was written after record "
                f"{result.records:,}: the lines between are lost; remove result.json to go on with what is left"
            )
        if self._digest != result.digest:
            raise TraceError(
                f"record {result.records:,} of {self._run} has the digest {self._digest[:16]}… and its result.json was "
                f"written after one with {result.digest[:16]}…: one of the two was changed; take a copy from before"
            )
        if result.records < count:  # it was resumed, and killed
            return
        for field, follows in result_fields(state).items():
            if (says := getattr(result, field)) != follows:
                raise TraceError(
                    f"result.json of {self._run} says {field} {_brief(says)} and its trace comes to {_brief(follows)}: "
                    "one of the two was changed; take a copy from before, or remove result.json"
                )


def _brief(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= _BRIEF_CHARS else f"{text[:_BRIEF_CHARS]}…"


def holds_secret(reply: ModelReplied, scrubber: Scrubber) -> bool:
    """Whether a reply of the model holds a secret of the caller's environment."""
    texts = _texts(msgspec.to_builtins(reply.parts))
    return scrubber.may_hold("\0".join(texts)) and any(map(scrubber.holds, texts))  # most replies are looked at once


def _texts(value: object) -> list[str]:
    """Every string in it as it is meant: in JSON a quote in a secret would hide it."""
    found, left = list[str](), [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            found.append(one)
        elif isinstance(one, dict):
            found += map(str, one)
            left += one.values()
        elif isinstance(one, list | tuple):
            left += one
    return found
