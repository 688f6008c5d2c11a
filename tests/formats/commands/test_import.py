"""``stackmem import`` turns another agent's recording into a run with a cost, and refuses it where rules are needed."""

import json
from pathlib import Path

import pytest

from stackmem.core.errors import UsageError
from stackmem.core.pricing import cost_usd
from stackmem.formats.import_ import ImportedRun, import_file
from stackmem.models.catalog import lookup
from stackmem.review.report.follow import FollowedRun
from stackmem.review.report.prompts import Prompts
from stackmem.review.report.texts import Texts
from stackmem.run.result import read_result
from stackmem.trace.open_run import Run
from tests.formats.test_recordings import FILES, SAMPLES, read, text_of
from tests.stage import Stage, records


def imported(file: Path, spelled: str | None, runs: Path) -> ImportedRun:
    (run,) = import_file(file, spelled, runs)
    return run


@pytest.mark.parametrize("name", FILES)
def test_a_recording_becomes_a_run_with_its_cost(stage: Stage, name):
    done = imported(SAMPLES / FILES[name], None, stage.runs)
    session = read(name)
    expected = sum(cost_usd(said.usage, lookup(said.model).price) for said in session.replies())
    assert done.cost_usd == pytest.approx(expected, abs=1e-6)
    result = read_result(Path(done.run_dir) / "result.json")
    assert (result.steps, result.cost_usd, result.outcome) == (done.steps, done.cost_usd, "finished")
    assert result.records == len(records(done.run_dir))


def test_credentials_in_a_recording_are_not_stored(stage, tmp_path, monkeypatch):
    monkeypatch.setenv("OWN_API_KEY", "own-value-of-mine")
    github, cookie = "ghp_" + "a1B2c3D4e5" * 4, "s3ss10nabcdef"
    text = json.dumps({"github": github, "own": "own-value-of-mine", "line": f"Cookie: sid={cookie}"})
    recording = text_of("atif").replace('"message": "', f'"message": {json.dumps(text)[:-1]} ')
    assert github in recording
    (tmp_path / "leaks.json").write_text(recording, "utf-8")
    run = Path(imported(tmp_path / "leaks.json", None, stage.runs).run_dir)
    kept = b"".join(path.read_bytes() for path in run.rglob("*") if path.is_file()).decode()
    assert [secret for secret in (github, cookie, "own-value-of-mine") if secret in kept] == []
    assert all(f"[secret {name}]" in kept for name in ("GITHUB_TOKEN", "COOKIE", "OWN_API_KEY"))


def test_two_imports_of_a_file_hold_the_same_trace(stage):
    one, other = (imported(SAMPLES / "atif.json", None, stage.runs) for _ in range(2))
    assert (Path(one.run_dir) / "trace.jsonl").read_bytes() == (Path(other.run_dir) / "trace.jsonl").read_bytes()


def test_without_a_price_the_cost_comes_from_the_recording_or_is_unknown(stage, tmp_path):
    unknown = text_of("atif").replace("claude-haiku-4-5", "somebody-elses")
    named, silent = tmp_path / "named.json", tmp_path / "silent.json"
    named.write_text(unknown, "utf-8")
    silent.write_text(unknown.replace("total_cost_usd", "total_steps").replace("0.0042", "7"), "utf-8")
    assert imported(named, None, stage.runs).cost_usd == 0.0042
    assert imported(silent, None, stage.runs).cost_usd is None


def test_subagent_files_next_to_the_session_are_read(stage, tmp_path):
    lines = text_of("claude-code").splitlines(keepends=True)
    file = tmp_path / "session.jsonl"
    file.write_text("".join(line for line in lines if '"isSidechain":true' not in line), "utf-8")
    inner = tmp_path / "session" / "subagents" / "agent-ad2d877.jsonl"
    inner.parent.mkdir(parents=True)
    inner.write_text("".join(line for line in lines if '"isSidechain":true' in line), "utf-8")
    assert imported(file, None, stage.runs).frames == 1


def test_the_command_says_what_came_in_and_what_did_not(stage):
    ran = stage.call("import", SAMPLES / "claude_code.jsonl")
    assert ran.returncode == 0, ran.stderr
    assert "5 steps, 1 frame, 30,172 tokens, $0.0441\n" in ran.stdout
    assert "imported from claude-code 2.1.39, model claude-sonnet-5-5, claude-haiku-4-5-20251001" in ran.stdout
    assert "left out: lines of the kind 'summary': 1" in ran.stdout
    listed = json.loads(stage.call("runs", "--json").stdout)
    assert [(row["outcome"], row["steps"]) for row in listed] == [("finished", 5)]


def test_json_holds_what_is_kept(stage):
    ran = stage.call("import", SAMPLES / "mini.traj.json", "--json", "--format", "mini")
    kept = json.loads((stage.only_run() / "imported.json").read_text("utf-8"))
    assert json.loads(ran.stdout) == kept
    assert kept["recorded_usd"] == 0.0123


@pytest.mark.parametrize("asked", [["replay", "last"], ["resume", "last"]])
def test_commands_that_need_our_rules_are_refused_in_one_sentence(stage, asked):
    imported(SAMPLES / "mini.traj.json", None, stage.runs)
    ran = stage.call(*asked)
    assert ran.returncode == 2
    assert "was imported from mini (mini-swe-agent 2.2.1) and cannot be" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["no-such-file"], "cannot be read (No such file"),
        (["."], "cannot be read (Is a directory)"),
        ([SAMPLES / "README.md"], "has an unknown format"),
        ([SAMPLES / "README.md", "--format", "mini"], "is not valid JSON"),
        ([SAMPLES / "README.md", "--format", "csv"], "no format 'csv'; known: aider, atif, chat, claude-code"),
        ([SAMPLES / "atif.json", "--format", "mini"], "does not match its format"),
        ([SAMPLES / "atif.json", "--format", "claude-code"], "is not valid JSON"),
    ],
)
def test_an_invalid_recording_prints_one_sentence_and_leaves_no_run(stage, arguments, says):
    ran = stage.call("import", *arguments)
    assert ran.returncode == 2
    assert says in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
    assert not stage.runs.exists() or list(stage.runs.iterdir()) == []


def test_agents_in_agents_without_end_are_one_sentence_and_leave_nothing(stage, tmp_path):
    def agent(number: int, following: int) -> dict:
        ref = {"source_call_id": "c", "content": "", "subagent_trajectory_ref": [{"trajectory_id": f"t{following}"}]}
        call = {"tool_call_id": "c", "function_name": "f", "arguments": {}}
        step = {"step_id": 1, "source": "agent", "message": "", "tool_calls": [call], "observation": {"results": [ref]}}
        return {
            "schema_version": "ATIF-v1.8", "trajectory_id": f"t{number}", "agent": {"name": "a", "version": "1"},
            "steps": [step],
        }  # fmt: skip

    file = tmp_path / "deep.json"
    file.write_text(
        json.dumps(agent(0, 1) | {"subagent_trajectories": [agent(one, one + 1) for one in range(1, 3_000)]})
    )
    with pytest.raises(UsageError, match="nests agents too deeply"):
        imported(file, None, stage.runs)
    assert not stage.runs.exists() or list(stage.runs.iterdir()) == []


def test_a_file_that_begins_with_a_byte_order_mark_is_read(stage, tmp_path):
    file = tmp_path / "marked.json"
    file.write_text("\ufeff" + text_of("atif"), "utf-8")
    assert imported(file, None, stage.runs).steps == 4


def test_a_runs_directory_that_cannot_be_made_is_named(stage):
    ran = stage.call("import", SAMPLES / "atif.json", "--runs-dir", "/dev/full/runs")
    assert ran.returncode == 2
    assert "cannot be written" in ran.stderr


def test_costs_of_models_with_different_prices_add_up_from_the_facts(stage):
    done = imported(SAMPLES / "claude_code.jsonl", None, stage.runs)
    run = Run(Path(done.run_dir))
    assert len(done.models) == 2
    assert run.cost == pytest.approx(done.cost_usd, abs=1e-6)
    assert run.state.cost_usd == pytest.approx(done.cost_usd, abs=1e-6)
    assert sum(frame.usd for frame in run.frames) == pytest.approx(done.cost_usd, abs=1e-6)


def test_one_reply_of_a_model_without_a_price_leaves_the_cost_unknown(stage, tmp_path):
    file = tmp_path / "session.jsonl"
    file.write_text(text_of("claude-code").replace("claude-haiku-4-5-20251001", "somebody-elses"), "utf-8")
    run = Run(Path(imported(file, None, stage.runs).run_dir))
    assert (run.cost, run.state.cost_usd) == (None, None)
    assert run.state.usd > 0


def test_the_page_and_the_list_show_the_cost_and_the_strategy_that_the_recording_states(stage, tmp_path):
    """Regression test: the page said "cost unknown" and showed the strategy that only renders the prompts."""
    recording = json.loads((SAMPLES / "atif.json").read_text("utf-8"))
    recording["agent"]["extra"] = {"strategy": "window:20"}
    recording["agent"]["model_name"] = "nobody/knows-its-price"
    for step in recording["steps"]:
        step.pop("model_name", None)
    recording["final_metrics"] = {"total_cost_usd": 0.1234}
    file = tmp_path / "recording.json"
    file.write_text(json.dumps(recording), "utf-8")
    run = imported(file, None, stage.runs)
    texts = Texts()
    page = FollowedRun(Path(run.run_dir), texts, Prompts(texts, [], {})).read()
    assert (page.strategy, page.stated_usd) == ("window:20 (stated by the recording)", 0.1234)
    (row,) = json.loads(stage.call("runs", "--json").stdout)
    assert (row["strategy"], row["cost_usd"]) == ("window:20", 0.1234)


def test_a_recording_that_states_no_strategy_is_shown_by_its_format(stage):
    run = imported(SAMPLES / "atif.json", None, stage.runs)
    texts = Texts()
    page = FollowedRun(Path(run.run_dir), texts, Prompts(texts, [], {})).read()
    assert page.strategy == "imported:atif"
    (Path(run.run_dir) / "imported.json").write_text("[1")  # damaged: the page omits the stated values
    assert FollowedRun(Path(run.run_dir), texts, Prompts(texts, [], {})).read().stated_usd is None
