"""Ten thousand items in a real run, with parallel tools, recorded and replayed."""

import json
import os
from pathlib import Path

import pytest

from stackmem.core.errors import UsageError
from stackmem.core.program_facts import ToolAnswered
from stackmem.languages.running.prepare import ProgramArguments, prepare_program
from stackmem.languages.running.run import run_program
from stackmem.run.limits import first_limits
from stackmem.run.opened import Person
from stackmem.run.replays.replay import replay_run
from stackmem.settings.tools.own_tools import TOOLS, tool
from stackmem.trace.open_run import Run

AGENT = """
name: big
prompt: Fetch all.
actions: [{name: Fetch, tool: fetch_page, parallel: true}]
payload: {items: []}
"""


@pytest.fixture(autouse=True)
def own_tools():
    kept = dict(TOOLS)
    yield
    TOOLS.clear()
    TOOLS.update(kept)


def ran(count: int, root: Path, **more: str):
    @tool(parallel=True)
    def fetch_page(n: int) -> str:
        """Fetch a page."""
        if n % 100 == 7:
            raise ValueError(f"no page {n}")
        return f"page {n}"

    loop = {"collectionPath": "items", "maxIterations": count, "executionMode": "parallel", "maxConcurrency": 16,
            "continueOnError": True, "action": {"name": "Fetch", "params": {"n": "item"}}}  # fmt: skip
    replies = [{"nextStep": {"type": "ForEach", "forEach": loop}}, {"taskComplete": True}]
    folder = root / "here"
    folder.mkdir()
    (folder / "main.agent.yaml").write_text(AGENT, encoding="utf-8")
    script = root / "script.yaml"
    script.write_text(json.dumps({"replies": [{"text": json.dumps(each)} for each in replies]}), encoding="utf-8")
    flags = {"model": f"script:{script}", "runs_dir": str(root / "runs"), "sandbox_dir": str(root / "work"), **more}
    asked = ProgramArguments(str(folder), inputs={"items": list(range(count))}, interactive=False)
    return run_program(prepare_program(asked, flags, dict(os.environ), root), dict(os.environ), Person(lambda _: None))


def check(count: int, root: Path) -> None:
    result = ran(count, root)
    assert result.run.outcome == "finished"
    answers = [
        record.event for record in Run(Path(result.run.run_dir)).records() if isinstance(record.event, ToolAnswered)
    ]
    fetched = [answer for answer in answers if answer.value is not None or answer.failed]
    assert len(fetched) == count
    assert sum(answer.failed == "error" for answer in fetched) == sum(n % 100 == 7 for n in range(count))
    replayed = replay_run(Path(result.run.run_dir))
    assert (replayed.outcome, replayed.steps, replayed.prompts) == ("finished", 2, 2)
    if count > 1_000:
        rows = next((root / "work").glob("*/workspace/.stackmem/loop/1.jsonl")).read_text("utf-8").splitlines()
        assert [json.loads(row)["index"] for row in rows] == list(range(count))


def test_two_hundred_items_run_side_by_side_and_replay(tmp_path):
    check(200, tmp_path)


@pytest.mark.campaign
def test_ten_thousand_items_run_side_by_side_and_replay(tmp_path):
    check(10_000, tmp_path)


def prepared(root: Path, **flags: str):
    (root / "main.agent.yaml").write_text("name: a\nprompt: p\nlimits: {usd: 0.5, seconds: 90}\n", encoding="utf-8")
    return prepare_program(
        ProgramArguments(str(root), interactive=False), {"model": "demo", **flags}, dict(os.environ), root
    ).request.resolved


def test_the_limits_of_a_definition_hold_for_the_run_where_nothing_else_speaks(tmp_path):
    resolved = prepared(tmp_path)
    assert (resolved.settings.max_usd, resolved.settings.max_seconds) == (0.5, 90.0)
    assert resolved.value("max_usd").source == "main.agent.yaml"
    assert first_limits(resolved, "demo", None).usd == 0.5
    assert first_limits(resolved, "openai/unheard-of", None).usd is None


def test_a_flag_is_heard_before_the_limits_of_a_definition(tmp_path):
    resolved = prepared(tmp_path, max_usd="2", max_seconds="none")
    assert (resolved.settings.max_usd, resolved.settings.max_seconds) == (2.0, None)


def test_a_limit_that_the_run_cannot_have_is_refused_with_its_file(tmp_path):
    (tmp_path / "main.agent.yaml").write_text("name: a\nprompt: p\nlimits: {usd: 2000000}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"main\.agent\.yaml: max_usd is '2000000\.0'; write a number above 0"):
        prepare_program(ProgramArguments(str(tmp_path)), {}, dict(os.environ), tmp_path)


def test_a_round_under_a_limit_of_seconds_replays(tmp_path):
    result = ran(8, tmp_path, max_seconds="600")
    assert replay_run(Path(result.run.run_dir)).outcome == "finished"
