"""Third-party agents, end to end: ``stackmem gateway run`` between them and a scripted provider.

Three of them always run. In a campaign all those that ``scripts/clients.sh`` installed run under every strategy.
"""

import json
import os
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from stackmem.core.facts import ModelReplied
from stackmem.core.messages import Text
from stackmem.doors.gateway.exchanges import AnswerPassed, read_exchanges
from stackmem.formats.import_ import import_file
from stackmem.run.run_folder import EXCHANGES, TRACE
from stackmem.trace.store import TraceReader
from tests.doors.gateway.clients.agent_jobs import JOBS, JobClient
from tests.doors.gateway.clients.claims import bounded, claims, run_job
from tests.doors.gateway.clients.frames import FRAME_AGENTS, framed, run_with_frames
from tests.doors.gateway.clients.job import MAIN, TITLE
from tests.doors.gateway.clients.provider import CALLS
from tests.doors.gateway.clients.table import CLIENTS, STRATEGIES, Client, ClientRun, place_of, run

INSTALLED = Path(os.environ.get("STACKMEM_CLIENTS", "/nonexistent"))
NAMED = {client.name: client for client in CLIENTS}
ALWAYS = (
    ("anthropic", "summary:2500,keep=2"), ("anthropic-4", "window:3,step=2"), ("openai-agents", "mask:2,poll=2"),
)  # fmt: skip


def held(found: ClientRun, strategy: str) -> None:
    """Check the rules for every agent: it finished, no request was refused, and every cut verifies."""
    assert (found.code, found.refused, found.notes) == (0, [], []), found.said[-2_000:]
    assert len(found.asked) > 6
    assert any(one.retry for one in found.asked)
    if strategy == "full":
        assert all((one.body_sha256, one.body_bytes) == (one.sent_sha256, one.sent_bytes) for one in found.asked)
    else:
        assert found.verified + found.not_followed == len(found.asked)


@pytest.mark.parametrize(("name", "strategy"), ALWAYS)
def test_a_third_party_agent_works_and_sends_less(tmp_path: Path, name: str, strategy: str) -> None:
    found = run(NAMED[name], strategy, INSTALLED, tmp_path)
    held(found, strategy)
    assert found.count("turn") == len(found.asked) - 1 == CALLS + 1  # one request failed and was retried
    assert found.not_followed == 0
    assert sum(one.sent_bytes for one in found.asked) < sum(one.body_bytes for one in found.asked)


@pytest.mark.campaign
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_every_agent_works_under_every_strategy(tmp_path: Path, client: Client, strategy: str) -> None:
    if place_of(client, INSTALLED) is None:
        pytest.skip(f"{client.name} is not installed; run scripts/clients.sh and set STACKMEM_CLIENTS to its folder")
    held(run(client, strategy, INSTALLED, tmp_path), strategy)


@pytest.mark.campaign
def test_gemini_cli_is_routed_by_what_the_gateway_says_when_it_did_not_start(tmp_path: Path) -> None:
    client = replace(NAMED["gemini-cli"], files={})
    if place_of(client, INSTALLED) is None:
        pytest.skip(f"{client.name} is not installed; run scripts/clients.sh and set STACKMEM_CLIENTS to its folder")
    without = run(client, "full", INSTALLED, tmp_path / "without")
    assert "Invalid auth method selected" in without.said
    advice = re.search(r"no request of gemini .* put (\{.*\}) into ~/(\S+);", without.said)
    assert advice is not None
    held(run(replace(client, files={advice[2]: json.loads(advice[1])}), "full", INSTALLED, tmp_path / "with"), "full")


def installed(name: str) -> JobClient:
    job = JOBS[name]
    if place_of(job.client, INSTALLED) is None:
        pytest.skip(f"{name} is not installed; run scripts/clients.sh and set STACKMEM_CLIENTS to its folder")
    return job


@pytest.mark.campaign
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", JOBS)
def test_the_record_of_a_job_agrees_with_the_provider(tmp_path: Path, name: str, strategy: str) -> None:
    job = installed(name)
    found = run_job(job, strategy, INSTALLED, tmp_path)
    assert {claim: why for claim, why in claims(job, found, strategy).items() if why} == {}


@pytest.mark.campaign
def test_aiders_history_has_the_replies_of_the_record(tmp_path: Path) -> None:
    """Its tokens are aider's rounded estimates, and it contains neither commit messages' requests nor summaries."""
    found = run_job(installed("aider"), "full", INSTALLED, tmp_path)
    imports = import_file(tmp_path / "work/one/.aider.chat.history.md", None, tmp_path / "imported")
    answers = [one for folder in found.folders for one in read_exchanges(folder / EXCHANGES)
               if isinstance(one, AnswerPassed)]  # fmt: skip
    recorded = [words_of(one.reply) for one in answers if isinstance(one.reply, ModelReplied)]
    events = (record.event for one in imports for record in TraceReader(Path(one.run_dir) / TRACE))
    told = [words_of(event) for event in events if isinstance(event, ModelReplied)]
    assert told == [words for words in recorded if not words.startswith((TITLE, "<analysis>"))]
    assert sum(one.steps for one in imports) == len(told) > len(MAIN)


def words_of(reply: ModelReplied) -> str:
    """Return the words of a reply with single blanks, because the history changes blanks."""
    return " ".join(" ".join(part.text for part in reply.parts if isinstance(part, Text)).split())


@pytest.mark.campaign
@pytest.mark.parametrize("name", JOBS)
def test_a_bound_refuses_the_second_request_of_every_agent(tmp_path: Path, name: str) -> None:
    assert bounded(run_job(installed(name), "full", INSTALLED, tmp_path, ("--max-usd", "0.00001"))) == ""


@pytest.mark.campaign
@pytest.mark.parametrize("name", FRAME_AGENTS)
def test_frames_work_in_every_agent_with_tools_of_a_server(tmp_path: Path, name: str) -> None:
    installed(name)
    assert framed(*run_with_frames(name, INSTALLED, tmp_path)) == ""
