"""The outcome of a run, as printed by ``--json`` and stored in ``result.json``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from stackmem.core.errors import TraceError
from stackmem.core.facts import ModelReplied
from stackmem.core.messages import FailureKind, ToolCall, Usage
from stackmem.core.state import Reply, State
from stackmem.core.strict_json import decode_json
from stackmem.foreign.files import read_regular
from stackmem.foreign.private import write_json
from stackmem.models.registry import takes_address
from stackmem.trace.lineage import RunReader
from stackmem.trace.record import Record
from stackmem.workspace.secrets import Scrubber

_BRIEF_CHARS = 60
_STOPPED_CODES = {"model_error": 4, "workspace_error": 5}
_WAYS_OUT: dict[FailureKind, str] = {
    "connection": "check that the server is running, or use another with --base-url",
    "incomplete": "check the server's log, then resume the run",
    "timeout": "use a shorter prompt or a faster server, then resume the run",
    "window": "start the server with a larger context, then resume the run; or start over with --strategy stackheap",
}


class RunResult(Struct, frozen=True):
    """The outcome of a run.

    Attributes:
        run: Run id, the name of ``run_dir``.
        ending: Why the run ended.
        outcome: ``solved`` or ``unsolved`` by the checks; without checks ``finished``, or the ending.
        steps: Number of model replies.
        frames: Number of pushed frames.
        cost_usd: Cost, or None if the model's price is unknown.
        wall_seconds: From the first request to the end of the checks.
        result: Return value of the root frame, or the partial result of a stopped run.
        check_error: Why the checks gave no verdict; empty otherwise.
        failure: Error from the provider or the sandbox that ended the run; empty otherwise.
        changed: Files that differ from the start.
        chunks: Names of the heap chunks at the end.
        not_kept: Files omitted from the patch because they are too large, unreadable, or contain a secret, and folders
            with packages that the run installed.
        changed_meanwhile: Files under an overlay that the user, not the run, changed since the run began.
        executed_by_host: Changed files that the host may execute later; review them before use.
        commits: The agent's commits, newest first. They stay in the workspace; the patch contains their changes.
        history: How much of the folder's git history was readable, if not all of it.
        steps_with_secrets: Steps whose reply contains a secret from the caller's environment.
        records, digest: Length of the trace, and the digest of its last line.
        signal: Signal that interrupted the run, or 0.
        parent: Run that this one was forked from, or that an edited program continued; otherwise empty.
        unsigned: Why the run is not signed; empty if it is signed or the signing extra is not installed.
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
        """0 solved or finished, 1 unsolved, stalled or halted, 3 limit, 4 provider, 5 workspace, 8 input needed, 128 +
        signal.
        """
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
    """Return the provider or sandbox error that ended the run, or an empty string."""
    if state.end is None:
        return ""
    if state.failures and state.end.ending in ("model_error", "stalled"):
        last = state.failures[-1]
        tries = f" ({len(state.failures)} attempts)" if len(state.failures) > 1 else ""
        hint = f"; {_WAYS_OUT[last.kind]}" if last.kind in _WAYS_OUT else ""
        return f"{last.kind}: {last.detail}{tries}{hint}"
    if state.end.ending == "stalled" and takes_address(state.begun.model) and not _has_called(state):
        model = state.begun.model
        return (
            f"no reply of {model} contained a call; stackmem doctor --model {model} shows which form of call works "
            "there, and --text-calls prompt describes the tools in the prompt"
        )
    return state.end.result if state.end.ending == "workspace_error" else ""


def _has_called(state: State) -> bool:
    frames = (*state.stack, *(popped.frame for popped in state.popped))
    replies = (turn for frame in frames for turn in frame.turns if isinstance(turn, Reply))
    return any(isinstance(part, ToolCall) for reply in replies for part in reply.parts)


def write_result(result: RunResult, path: Path) -> None:
    write_json(path, result)


def read_result(path: str | os.PathLike[str]) -> RunResult | None:
    """Read the result of a finished run. Returns None if it is missing or was written by an incompatible version."""
    try:
        return decode_json(read_regular(path), RunResult)
    except (OSError, msgspec.DecodeError, RecursionError):
        return None


def result_fields(state: State) -> dict[str, Any]:
    """Return the result fields that follow from the trace alone.

    ``failure`` is not included, because its wording can differ between versions.
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
    """Compares the end of a trace with ``result.json`` to detect lost or altered lines."""

    def __init__(self, run_dir: Path) -> None:
        self._run = run_dir.name
        path = run_dir / "result.json"
        self._result = read_result(path)
        self.result_is_unread = self._result is None and os.path.lexists(path)
        self._records, self._digest = 0, ""

    def passing(self, reader: RunReader) -> Iterator[Record]:
        """Yield the reader's records and remember the digest of the last one that the result covers."""
        last = self._result.records if self._result is not None else 0
        for record in reader:
            self._records = record.seq
            if record.seq <= last:
                self._digest = reader.digest
            yield record

    def refuse_other(self, state: State) -> None:
        """Compare the result with the trace, after all records were read.

        Raise TraceError if the result belongs to a different trace or contradicts it.
        """
        result, count = self._result, self._records
        if result is None or not result.digest:  # the run was killed before its end, or has no trace
            return
        if result.records > count:
            raise TraceError(
                f"the trace of {self._run} ends at record {count:,} and its result.json was written after record "
                f"{result.records:,}: the records in between are lost; remove result.json to continue without them"
            )
        if self._digest != result.digest:
            raise TraceError(
                f"record {result.records:,} of {self._run} has the digest {self._digest[:16]}… and its result.json was "
                f"written after one with {result.digest[:16]}…: one of the two was modified; restore an earlier copy"
            )
        if result.records < count:  # the run was resumed and then killed
            return
        for field, follows in result_fields(state).items():
            if (says := getattr(result, field)) != follows:
                raise TraceError(
                    f"result.json of {self._run} has {field} {_brief(says)}, but its trace gives {_brief(follows)}: "
                    "one of the two was modified; restore an earlier copy, or remove result.json"
                )


def _brief(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= _BRIEF_CHARS else f"{text[:_BRIEF_CHARS]}…"


def holds_secret(reply: ModelReplied, scrubber: Scrubber) -> bool:
    """Return whether a model reply contains a secret from the caller's environment."""
    texts = _texts(msgspec.to_builtins(reply.parts))
    # the joined search rules out most replies quickly
    return scrubber.may_hold("\0".join(texts)) and any(map(scrubber.holds, texts))


def _texts(value: object) -> list[str]:
    """Return every string in a value.

    The decoded strings are needed because JSON escaping would hide a secret that contains a quote.
    """
    texts, stack = list[str](), [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            texts.append(item)
        elif isinstance(item, dict):
            texts += map(str, item)
            stack += item.values()
        elif isinstance(item, list | tuple):
            stack += item
    return texts
