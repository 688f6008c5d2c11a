"""Recorded jobs of real agents: written by this module's program, and replayed by tests without the agents.

``python -m tests.doors.gateway.clients.recorded claude-code codex`` runs the agents' jobs and writes one file each.
Long texts of the agents are shortened, because only their place in a request matters.
"""

from __future__ import annotations

import json
import lzma
import os
import re
import sys
import tempfile
import threading
from collections import deque
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stackmem.doors.gateway.wires import wire_of
from tests.doors.gateway.clients import claims
from tests.doors.gateway.clients.job import JobProvider
from tests.doors.gateway.clients.table import place_of, version
from tests.doors.gateway.upstream import RawAnswer

Json = dict[str, Any]
PLACE = Path(__file__).parent.parent / "recorded"
_KEPT_HEADERS = ("x-claude-code-session-id", "x-claude-code-agent-id", "x-claude-code-parent-agent-id", "session-id",
                 "thread-id", "x-codex-parent-thread-id", "x-codex-turn-metadata", "x-session-id",
                 "x-session-affinity", "x-parent-session-id")  # fmt: skip
_SHORT = 160
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|ses_[A-Za-z0-9]{26}|\ba[0-9a-f]{16}\b")
_CALL = re.compile(r"\b(toolu|call)_0{6}")


class RecordedExchange(Struct, frozen=True):
    """A request, without its key, and its answer."""

    path: str
    headers: dict[str, str]
    body: str
    status: int
    kind: str  # the answer's content type
    answer: str


class RecordedJob(Struct, frozen=True):
    """The exchanges of a job in the order of their arrival, and the provider's sums."""

    agent: str
    billed: list[int]
    usd: float
    sub_agents: int
    exchanges: list[RecordedExchange]

    def renamed(self, number: int) -> RecordedJob:
        """Return the job of another session: with other ids, calls and names."""

        def change(text: str) -> str:
            text = _UUID.sub(lambda found: found[0][:-4] + f"{number:04x}", text)
            text = _CALL.sub(lambda found: f"{found[1]}_{number:06}", text)
            return text.replace("JOB one ", f"JOB n{number} ")

        return replace(self, exchanges=[
            RecordedExchange(one.path, {name: change(value) for name, value in one.headers.items()}, change(one.body),
                             one.status, one.kind, change(one.answer))
            for one in self.exchanges
        ])  # fmt: skip


def recorded_job(name: str) -> RecordedJob:
    """Read a recorded job."""
    return msgspec.json.decode(lzma.decompress((PLACE / f"{name}.json.xz").read_bytes()), type=RecordedJob)


def answer_of(exchange: RecordedExchange) -> RawAnswer:
    """Return the recorded answer."""
    return RawAnswer((exchange.answer.encode(),), exchange.status, (("content-type", exchange.kind),))


class Replayed:
    """Answers each request as recorded; equal requests in their order."""

    def __init__(self, *jobs: RecordedJob) -> None:
        self._answers: dict[str, deque[RawAnswer]] = {}
        self._lock = threading.Lock()
        for exchange in (exchange for job in jobs for exchange in job.exchanges):
            self._answers.setdefault(exchange.body, deque()).append(answer_of(exchange))

    def __call__(self, _: str, body: bytes) -> RawAnswer:
        with self._lock:
            return self._answers[body.decode()].popleft()


def _short(value: Any, name: str = "") -> Any:
    """Shorten long texts at the same place in every request."""
    match value:
        case dict():
            return {key: _short(each, key) for key, each in value.items()}
        case list():
            return [_short(each, name) for each in value]
        case str() if len(value) > _SHORT and not re.search(r"JOB one (MAIN|RESUME|BLOCK|BACK)", value):
            return value[:_SHORT]
        case _:
            return value


class _Recorder(JobProvider):
    exchanges: list[tuple[str, bytes, RawAnswer]]

    def answer(self, path: str, body: bytes) -> RawAnswer:
        given = super().answer(path, body)
        if wire_of(path) is not None:
            self.exchanges = [*getattr(self, "exchanges", []), (path, body, given)]
        return given


def record(name: str, clients: Path) -> RecordedJob:
    """Run an agent's job and return its traffic."""
    job = claims.JOBS[name]
    before, claims.JobProvider = claims.JobProvider, _Recorder  # type: ignore[misc]
    try:
        with tempfile.TemporaryDirectory(prefix="stackmem-record-", ignore_cleanup_errors=True) as scratch:
            found = claims.run_job(job, "full", clients, Path(scratch))
    finally:
        claims.JobProvider = before  # type: ignore[misc]
    provider = found.provider
    assert isinstance(provider, _Recorder)
    headers: dict[bytes, deque[dict[str, str]]] = {}
    for _, given, body in found.passed:
        headers.setdefault(body, deque()).append({key: given[key] for key in _KEPT_HEADERS if key in given})
    exchanges = [
        RecordedExchange(path, headers[body].popleft(), _spelled(body, scratch), answer.status,
                         dict(answer.headers)["content-type"], b"".join(answer.pieces).decode())
        for path, body, answer in provider.exchanges
    ]  # fmt: skip
    installed = f"{job.client.package} {version(job.client, clients)}"
    return RecordedJob(installed, provider.billed, round(provider.usd or 0.0, 6), job.agents, exchanges)


def _spelled(body: bytes, scratch: str) -> str:
    return json.dumps(_short(json.loads(body)), ensure_ascii=False, separators=(",", ":")).replace(scratch, "/job")


def main() -> None:
    """Record the named agents' jobs."""
    clients = Path(os.environ["STACKMEM_CLIENTS"])
    PLACE.mkdir(exist_ok=True)
    for name in sys.argv[1:]:
        if place_of(claims.JOBS[name].client, clients) is None:
            print(f"{name} is not installed", file=sys.stderr)
            continue
        content = msgspec.json.encode(record(name, clients))
        (PLACE / f"{name}.json.xz").write_bytes(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
