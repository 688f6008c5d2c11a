"""Recorded jobs of real agents, replayed by concurrent clients: each session is one run with its true tree and bill."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stackmem.core.facts import FramePushed
from stackmem.doors.gateway.status import GatewayRunStatus, gateway_status
from stackmem.doors.gateway.verifying import verify_gateway_run
from stackmem.formats.exports.atif import atif
from stackmem.run.run_folder import TRACE
from stackmem.trace.store import TraceReader
from tests.conftest import CAMPAIGN
from tests.doors.gateway.clients.recorded import PLACE, RecordedJob, Replayed, StrictReplay, recorded_job, signed
from tests.doors.gateway.clients.table import STRATEGIES
from tests.doors.gateway.test_proxy import HEADERS, events, gateway
from tests.doors.gateway.upstream import CLIENT, RawUpstream

NAMES = sorted(path.name.partition(".")[0] for path in PLACE.glob("*.json.xz"))
WITH_IDS = ("claude-code", "codex")
SESSIONS = 100 if CAMPAIGN else 8
SAMPLE = [("full", name) for name in NAMES] + list(zip(STRATEGIES[1:], itertools.cycle(NAMES)))
JOBS = [(name, one) for one in STRATEGIES for name in NAMES] if CAMPAIGN else [(name, one) for one, name in SAMPLE]
"""In a campaign each job under each strategy; otherwise each job once, and each strategy once."""


def play(url: str, job: RecordedJob) -> None:
    for one in job.exchanges:
        headers = {**HEADERS, **one.headers, "content-type": "application/json"}
        answer = CLIENT.post(f"{url}{one.path}", content=one.body.encode(), headers=headers)
        assert (answer.status_code, answer.content) == (one.status, one.answer.encode())


def billed(rows: list[GatewayRunStatus]) -> list[int]:
    used = [row.usage for row in rows]
    written = sum(one.cache_write_5m + one.cache_write_1h for one in used)
    read = sum(one.cache_read for one in used)
    return [sum(one.uncached for one in used), read, written, sum(one.output for one in used)]


def strands(folder: Path) -> list[str]:
    """Return the sub-agents of a run, by the words of their tasks."""
    pushed = (event.name for event in events(folder) if isinstance(event, FramePushed))
    return sorted(word for name in pushed for word in ("BLOCK", "BACK") if f"-{word}-" in name)


@pytest.mark.parametrize(("name", "strategy"), JOBS)
def test_a_recorded_job_has_its_tree_its_bill_and_its_cuts(tmp_path, name, strategy):
    job = signed(recorded_job(name))
    replay = StrictReplay(job)
    with RawUpstream(at=replay) as upstream, gateway(upstream, tmp_path, strategy=strategy) as served:
        play(served.url, job)
    refused = [one.status == 400 for one in job.exchanges]
    if strategy == "full":
        assert [why is not None for why in replay.faults] == refused
    assert [why for why, known in zip(replay.faults, refused, strict=True) if why and not known] == []
    rows = gateway_status(tmp_path)
    assert billed(rows) == [whole + part for whole, part in zip(job.billed, replay.billed, strict=True)]
    assert round(sum(row.cost_usd or 0.0 for row in rows), 4) == round(job.usd + replay.usd, 4)
    wanted = ["BACK", "BLOCK"] if job.sub_agents else []
    assert sorted(word for row in rows for word in strands(tmp_path / row.run)) == wanted
    exports = ["".join(atif(TraceReader(tmp_path / row.run / TRACE), row.run)) for row in rows]
    assert all(f"JOB-one-{word}-" in "".join(exports) for word in wanted)
    assert sum(one.count('"subagent_trajectory_ref":') for one in exports) >= len(wanted)
    for row in rows:
        verified = verify_gateway_run(tmp_path / row.run)
        assert (verified.cuts, verified.not_followed) == (0 if strategy == "full" else row.requests, 0)


def test_concurrent_sessions_of_two_agents_have_their_own_trees(tmp_path):
    recorded = [recorded_job(name) for name in WITH_IDS]
    jobs = [recorded[number % 2].renamed(number) for number in range(SESSIONS)]
    with (
        RawUpstream(at=Replayed(*jobs)) as upstream,
        gateway(upstream, tmp_path) as served,
        ThreadPoolExecutor(SESSIONS) as threads,
    ):
        list(threads.map(lambda job: play(served.url, job), jobs))
    rows = gateway_status(tmp_path)
    assert len(rows) == len({row.session for row in rows}) == SESSIONS
    assert sorted((row.requests, row.sub_agents) for row in rows) == sorted(
        (len(job.exchanges), job.sub_agents) for job in jobs
    )
    assert all(strands(tmp_path / row.run) == ["BACK", "BLOCK"] for row in rows)
    assert sorted(billed([row]) for row in rows) == sorted(job.billed for job in jobs)
