"""ATIF: frames become subagents, and our output fits the official schema."""

import hashlib
import json
import os
import subprocess
from pathlib import Path

import jsonschema
import pytest

from tests.build import do, play, started
from tests.review.report.test_linked_frames import played
from tests.stage import Stage, mounted
from tests.trace.stories import PLAYED, cut_short, exported, hostile, records, told

SCHEMA = json.loads((Path(__file__).parents[1] / "schemas" / "atif_v1.8.schema.json").read_text("utf-8"))
RUNS = {**{name: lambda name=name: told(name) for name in PLAYED}, "cut": cut_short, "hostile": hostile}


def trajectory(run):
    return json.loads(exported("atif", run))


def every(tree):
    yield tree
    for below in tree.get("subagent_trajectories", []):
        yield from every(below)


@pytest.fixture(scope="module")
def family():
    return trajectory(told("family"))


@pytest.mark.parametrize("run", RUNS)
def test_it_is_valid_by_the_schema(run):
    jsonschema.validate(trajectory(RUNS[run]()), SCHEMA, cls=jsonschema.Draft202012Validator)


def test_the_schema_refuses_invalid_trajectories(family):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**family, "surprise": 1}, SCHEMA, cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize("run", RUNS)
def test_steps_count_from_one_and_results_answer_calls_of_their_own_step(run):
    for one in every(trajectory(RUNS[run]())):
        assert [step["step_id"] for step in one["steps"]] == list(range(1, len(one["steps"]) + 1))
        for step in one["steps"]:
            calls = [call["tool_call_id"] for call in step.get("tool_calls", [])]
            results = step.get("observation", {}).get("results", [])
            if "context_management" in step.get("extra", {}):
                assert [set(result) for result in results] == [{"content"}]
                continue
            results = [result["source_call_id"] for result in results]
            assert len(set(calls)) == len(calls)
            assert len(set(results)) == len(results)
            assert set(results) <= set(calls)


def test_frames_nest_as_they_were_pushed_and_the_push_points_to_its_child(family):
    assert [one["trajectory_id"] for one in every(family)] == ["frame-0", "frame-1", "frame-2"]
    (outer,) = family["subagent_trajectories"]
    assert [one["trajectory_id"] for one in outer["subagent_trajectories"]] == ["frame-2"]
    push = next(step for step in family["steps"] if "push_frame" in str(step.get("tool_calls")))
    (result,) = push["observation"]["results"]
    assert result["subagent_trajectory_ref"] == [{"trajectory_id": "frame-1", "session_id": "a-run"}]
    assert result["content"] == "frame 'outer' returned:\nOuter is done."


def test_a_child_begins_with_the_prompt_it_saw(family):
    system, opening = family["subagent_trajectories"][0]["steps"][:2]
    assert system["source"] == "system"
    assert opening["source"] == "user"
    assert "R0 INTENT: Do the part." in opening["message"]
    assert opening["extra"]["stackmem"]["registers"]["heap"] == ["spec", "plan"]


def test_the_totals_are_those_of_all_frames(family):
    metrics = [step["metrics"] for one in every(family) for step in one["steps"] if "metrics" in step]
    totals = family["final_metrics"]
    assert totals["total_prompt_tokens"] == sum(one["prompt_tokens"] for one in metrics) == 1_200
    assert totals["total_completion_tokens"] == sum(one["completion_tokens"] for one in metrics)
    assert totals["total_cost_usd"] == pytest.approx(sum(one["cost_usd"] for one in metrics))
    assert totals["total_steps"] == sum(len(one["steps"]) for one in every(family))


def test_an_unknown_price_gives_no_cost():
    text = exported("atif", told("calculator"))
    assert "cost_usd" not in text


def test_a_heap_call_carries_the_digest_of_its_content(family):
    (call,) = family["steps"][2]["tool_calls"]
    assert call["extra"]["stackmem"]["content_sha256"] == hashlib.sha256(b"1 + 1").hexdigest()


def test_a_refused_reply_answers_each_of_its_calls_with_the_reason(family):
    inner = family["subagent_trajectories"][0]["subagent_trajectories"][0]
    step = next(step for step in inner["steps"] if len(step.get("tool_calls", [])) == 2)
    assert [one["extra"]["stackmem"] for one in step["observation"]["results"]] == [
        {"failed": True, "refused": "several_calls"}
    ] * 2


def test_times_are_those_of_the_records(family):
    assert family["steps"][2]["timestamp"] == "2026-11-20T15:00:02.000Z"
    early = records(play(do("list_files"), start=started()).events)
    assert trajectory([type(one)(one.seq, -1e300, one.event) for one in early])["steps"][0]["timestamp"].startswith(
        "1970"
    )


def test_a_summary_is_a_boundary_with_its_text_in_the_observation_and_its_tokens_in_the_totals():
    whole = trajectory(told("compacted"))
    boundary = next(step for step in whole["steps"] if "context_management" in step.get("extra", {}))
    assert boundary["source"] == "system"
    assert boundary["extra"]["context_management"] == {"type": "compaction", "boundary": "replace"}
    assert boundary["observation"] == {"results": [{"content": "It is a long file."}]}
    metrics = [step["metrics"] for step in whole["steps"] if "metrics" in step]
    metrics += [step["extra"]["stackmem"]["metrics"] for step in whole["steps"] if "up_to_step" in str(step)]
    assert whole["final_metrics"]["total_prompt_tokens"] == sum(one["prompt_tokens"] for one in metrics)
    assert whole["final_metrics"]["total_cost_usd"] == pytest.approx(sum(one["cost_usd"] for one in metrics))


def test_a_branch_is_opened_by_what_opens_it_and_not_by_its_parents_first_message():
    child = trajectory(told("folded"))["subagent_trajectories"][0]
    assert child["steps"][1]["message"].startswith("BRANCH 'b', depth 1 of 5")


@pytest.mark.campaign
@pytest.mark.skipif(
    "HARBOR_PYTHON" not in os.environ, reason="run scripts/harbor.sh, which creates the environment and prints its name"
)
@pytest.mark.parametrize("run", RUNS)
def test_harbors_own_validator_accepts_it_and_refuses_what_is_wrong(run, tmp_path):
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    whole = trajectory(RUNS[run]())
    good.write_text(json.dumps(whole), "utf-8")
    whole["steps"][0]["step_id"] = 2
    bad.write_text(json.dumps(whole), "utf-8")
    assert validated(good).returncode == 0, validated(good).stdout
    assert validated(bad).returncode == 1


def validated(path: Path) -> subprocess.CompletedProcess[str]:
    command = [os.environ["HARBOR_PYTHON"], "-m", "harbor.utils.trajectory_validator", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


READS_MINI = """
import json, sys
from harbor.agents.installed.mini_swe_agent import convert_mini_swe_agent_to_atif
read = convert_mini_swe_agent_to_atif(json.load(open(sys.argv[1])), "s")
print(json.dumps([len([s for s in read.steps if s.source == "agent"]), read.final_metrics.total_prompt_tokens]))
"""


@pytest.mark.campaign
@pytest.mark.skipif(
    "HARBOR_PYTHON" not in os.environ, reason="run scripts/harbor.sh, which creates the environment and prints its name"
)
@pytest.mark.parametrize("run", ["calculator", "family"])
def test_harbors_own_reader_of_mini_swe_agent_reads_ours(run, tmp_path):
    path = tmp_path / "run.traj.json"
    path.write_text(exported("mini", told(run)), "utf-8")
    command = [os.environ["HARBOR_PYTHON"], "-c", READS_MINI, str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    replies = [step for one in every(trajectory(told(run))) for step in one["steps"] if step["source"] == "agent"]
    assert json.loads(ran.stdout) == [len(replies), sum(step["metrics"]["prompt_tokens"] for step in replies)]


@mounted
def test_a_group_of_parallel_frames_is_answered_and_points_to_the_runs_of_its_frames(stage: Stage):
    run = played(stage)
    whole = json.loads(stage.call("export", run, "--format", "atif").stdout)
    jsonschema.validate(whole, SCHEMA)
    (outer,) = whole["subagent_trajectories"]  # the request
    (result,) = next(step for step in outer["steps"] if "tool_calls" in step)["observation"]["results"]
    assert result["content"].startswith("2 frames returned, and their changes are merged:")
    refs = result["subagent_trajectory_ref"]
    assert [ref["session_id"] for ref in refs] == [f"{run.name}.frame-{number}" for number in (2, 3)]
    child = json.loads(stage.call("export", stage.runs / refs[1]["session_id"], "--format", "atif").stdout)
    assert refs[1]["trajectory_id"] in {tree["trajectory_id"] for tree in every(child)}
    rows = stage.call("export", run, "--format", "csv").stdout.splitlines()
    assert ",push_frames,ok," in rows[1]
