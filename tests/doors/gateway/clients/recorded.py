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

from stackmem.core.facts import ModelReplied
from stackmem.core.messages import Thinking, ToolCall, Usage
from stackmem.core.pricing import cost_usd
from stackmem.doors.gateway.wires import model_in, wire_of
from stackmem.doors.gateway.wires.gemini import GEMINI
from stackmem.doors.gateway.wires.messages import MESSAGES
from stackmem.doors.gateway.wires.wire import WireFormat
from stackmem.models.catalog import lookup
from tests.doors.gateway.clients import claims
from tests.doors.gateway.clients.agent_jobs import JOBS
from tests.doors.gateway.clients.job import JobProvider
from tests.doors.gateway.clients.provider import ASKS, SUMMARY
from tests.doors.gateway.clients.spelling import OUTPUT, Reply, spoken
from tests.doors.gateway.clients.table import place_of, version
from tests.doors.gateway.strict_rules import binds_thinking, fault
from tests.doors.gateway.upstream import RawAnswer
from tests.providers.api_rules import signature

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


class StrictReplay:
    """Answers a job's requests in order, as recorded, and checks each one as a strict provider does.

    Attributes:
        faults: For each request of the job, why a strict provider refuses it; None if it does not.
        billed: The sums of the tokens of summaries that the gateway requested; ``usd`` is their price.
    """

    def __init__(self, job: RecordedJob) -> None:
        self.faults: list[str | None] = []
        self.billed, self.usd = [0, 0, 0, 0], 0.0
        self._job = signed(job)
        self._given: dict[str, Any] = {}

    def __call__(self, path: str, body: bytes) -> RawAnswer:
        wire = wire_of(path)
        assert wire is not None
        value = json.loads(body)
        if wire is GEMINI:
            value |= {"stream": ":stream" in path, "model": model_in(path)}
        if ASKS in body:
            return self._summary(wire, value, body)
        self.faults.append(fault(wire, value, self._given))
        answer = answer_of(self._job.exchanges[len(self.faults) - 1])
        if wire is MESSAGES:
            blocks, calls = _thoughts(b"".join(answer.pieces))
            self._given |= dict.fromkeys(calls, blocks)
        return answer

    def _summary(self, wire: WireFormat, value: Json, body: bytes) -> RawAnswer:
        assert (why := fault(wire, value, self._given)) is None, why
        used = (len(body) // 4, 0, 0)
        self.billed = [whole + part for whole, part in zip(self.billed, (*used, OUTPUT), strict=True)]
        row = lookup(value["model"])
        assert row is not None
        assert row.price is not None
        self.usd += cost_usd(Usage(*used, 0, OUTPUT), row.price)
        return spoken(wire, value, Reply(SUMMARY), used, 900_000 + len(self.faults), [])


def signed(job: RecordedJob) -> RecordedJob:
    """Return the job with thinking that is signed for the recorded requests, whose long texts are shortened."""
    changed: dict[str, str] = {}
    exchanges: list[RecordedExchange] = []
    for one in job.exchanges:
        texts = [one.body, one.answer]
        for before, behind in changed.items():
            texts = [text.replace(before, behind) for text in texts]
        value = json.loads(texts[0])
        if one.path.partition("?")[0].endswith("/messages") and binds_thinking(value["model"]):
            for block in _thoughts(texts[1].encode())[0]:
                behind = signature(value, len(value["messages"]), block["thinking"])
                changed[block["signature"]] = behind
                texts[1] = texts[1].replace(block["signature"], behind)
        exchanges.append(replace(one, body=texts[0], answer=texts[1]))
    return replace(job, exchanges=exchanges)


def _thoughts(answer: bytes) -> tuple[list[Json], list[str]]:
    """Return the thinking of a streamed reply, and the ids of its calls."""
    reply = MESSAGES.reply(line[6:].decode() for line in answer.splitlines() if line.startswith(b"data: "))
    parts = reply.parts if isinstance(reply, ModelReplied) else ()
    blocks = [part.raw for part in parts if isinstance(part, Thinking)]
    return blocks, [part.id for part in parts if isinstance(part, ToolCall)]


def _short(value: Any, name: str = "") -> Any:
    """Shorten long texts at the same place in every request, but not in calls, which are the model's."""
    match value:
        case {"type": "tool_use" | "function_call" | "custom_tool_call"}:
            return value
        case {"functionCall": _}:
            return value
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
    job = JOBS[name]
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
                         dict(answer.headers)["content-type"], _placed(b"".join(answer.pieces).decode(), scratch))
        for path, body, answer in provider.exchanges
    ]  # fmt: skip
    installed = f"{job.client.package} {version(job.client, clients)}"
    return RecordedJob(installed, provider.billed, round(provider.usd or 0.0, 6), job.agents, exchanges)


def _spelled(body: bytes, scratch: str) -> str:
    return _placed(json.dumps(_short(json.loads(body)), ensure_ascii=False, separators=(",", ":")), scratch)


def _placed(text: str, scratch: str) -> str:
    return text.replace(scratch, "/job")


def main() -> None:
    """Record the named agents' jobs."""
    clients = Path(os.environ["STACKMEM_CLIENTS"])
    PLACE.mkdir(exist_ok=True)
    for name in sys.argv[1:]:
        if place_of(JOBS[name].client, clients) is None:
            print(f"{name} is not installed", file=sys.stderr)
            continue
        content = msgspec.json.encode(record(name, clients))
        (PLACE / f"{name}.json.xz").write_bytes(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
