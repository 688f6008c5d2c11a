"""Tests for the `run`, `lint`, `languages` and `trust` commands."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.in_process import command_line

APL = """\
inputs:
  - {name: who, description: whom, default: you}
main:
  - {name: say, tool: log, message: "hi {{ who }}"}
"""


def stackmem(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return command_line([*words], os.environ, place)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "main.apl").write_text(APL, encoding="utf-8")
    return tmp_path


def run(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return stackmem(place, "run", *words, "--runs-dir", str(place / "runs"), "--sandbox-dir", str(place / "work"))


def test_a_folder_runs_its_main_program_and_prints_only_its_messages(place: Path) -> None:
    done = run(place, "p", "--input", "who=Ann")
    assert (done.returncode, done.stdout) == (0, "hi Ann\n{}\n")
    assert "Step: say" in done.stderr


def test_json_is_one_object_and_nothing_else(place: Path) -> None:
    told = json.loads(run(place, "p", "--json", "--quiet").stdout)
    assert (told["outcome"], told["said"]) == ("finished", ["hi you"])


def test_a_dry_run_prints_the_steps_and_leaves_no_run(place: Path) -> None:
    done = run(place, "p", "--dry-run")
    assert (done.returncode, "say: log" in done.stdout) == (0, True)
    assert not list((place / "runs").iterdir())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("p", "--input", "whom=x"), "known: who"),
        (("p", "--input", "who"), "is not valid"),
        (("p", "--input", "who:=x"), "needs a JSON value"),
        (("p", "--input", "who=@none"), "cannot be read"),
        (("none.apl",), "no program none.apl"),
        (("p/main.apl", "--language", "none"), "no language"),
        (("p", "--workspace", "none"), "no such folder"),
        (("p", "--mount", "none"), "no such folder"),
        ((".", "--language", "sexp"), "Module Entry Point Not Found"),
    ],
)
def test_invalid_programs_print_one_sentence_and_exit_2(place: Path, words: tuple[str, ...], told: str) -> None:
    done = run(place, *words)
    assert (done.returncode, told in done.stderr, "Traceback" in done.stderr) == (2, True, False)
    assert not (place / "runs").exists() or not list((place / "runs").iterdir())


def test_a_folder_without_a_main_program_gives_the_halt_report(place: Path) -> None:
    done = run(place, ".")
    assert done.returncode == 1
    assert "*   **Step**: `Program Resolution`\n*   **Error Type**: `Module Entry Point Not Found`" in done.stdout
    told = json.loads(run(place, ".", "--json").stdout)
    assert (told["outcome"], "Module Entry Point Not Found" in told["result"]) == ("halted", True)
    assert not (place / "runs").exists() or not list((place / "runs").iterdir())


def test_a_limit_returns_what_was_kept_by_name(place: Path) -> None:
    steps = """
  - {name: write, tool: write_file, to_file: out.txt, content_template: x}
  - {name: think, tool: agent_native, prompt: Say ok.}
"""
    (place / "p" / "main.apl").write_text(APL + steps, encoding="utf-8")
    (place / "once.yaml").write_text("replies: [{call: heap_alloc, args: {name: seen, content: c, description: d}}]\n")
    done = run(place, "p", "--model", "script:once.yaml", "--max-steps", "1")
    assert (done.returncode, "chunks kept: seen\nfiles kept: out.txt" in done.stderr) == (3, True), done.stderr
    told = json.loads(run(place, "p", "--model", "script:once.yaml", "--max-steps", "1", "--json").stdout)
    assert (told["chunks"], told["changed"]) == (["seen"], ["out.txt"])


def test_lint_names_place_and_code_and_fails_on_errors(place: Path) -> None:
    (place / "bad.apl").write_text("main:\n  - {name: x, tool: no_such_tool}\n", encoding="utf-8")
    done = stackmem(place, "lint", "p/main.apl", "bad.apl")
    assert done.returncode == 1
    assert done.stdout.startswith("bad.apl:2:")
    assert " error apl/" in done.stdout
    github = stackmem(place, "lint", "bad.apl", "--format", "github").stdout
    assert github.startswith("::error file=bad.apl,line=2,")
    assert json.loads(stackmem(place, "lint", "bad.apl", "--format", "json").stdout)[0]["line"] == 2
    assert stackmem(place, "lint", "p/main.apl").returncode == 0


def test_trust_shows_what_would_run_and_is_recorded_only_on_request(place: Path) -> None:
    (place / "stackmem.mcp.toml").write_text('[evil]\ncommand = ["touch", "ran"]\n', encoding="utf-8")
    done = run(place, "p")
    assert (done.returncode, "is not trusted" in done.stderr) == (0, True)
    refused = stackmem(place, "trust", ".")
    assert (refused.returncode, refused.stdout) == (2, '[evil]\ncommand = ["touch", "ran"]\n')
    assert not (place / "ran").exists()
    assert stackmem(place, "trust", ".", "--yes").returncode == 0
    assert stackmem(place, "trust", ".", "--remove").returncode == 0


def test_languages_are_listed_with_their_suffixes(place: Path) -> None:
    assert "apl" in stackmem(place, "languages").stdout
    assert ".apl" in json.loads(stackmem(place, "languages", "--json").stdout)[0]["suffixes"]


@pytest.mark.parametrize("limit", [(), ("--max-usd", "2")])
def test_a_run_that_ended_without_a_model_says_how_to_resume_and_resumes(place: Path, limit: tuple[str, ...]) -> None:
    step = '  - {name: think, tool: agent_native, prompt: "Say ok.", register: said}\n'
    (place / "p" / "main.apl").write_text(APL + step, encoding="utf-8")
    first = run(place, "p", "--quiet", *limit)
    assert (first.returncode, "stackmem resume RUN --model NAME" in first.stderr) == (4, True)
    (place / "late.yaml").write_text('replies: [{text: skipped}, {call: pop_frame, args: {result: "ok"}}]\n')
    words = ("resume", "last", "--runs-dir", str(place / "runs"), "--model", "script:late.yaml", "--json", "--quiet")
    done = stackmem(place, *words, *limit)
    assert (done.returncode, json.loads(done.stdout)["outcome"]) == (0, "finished"), done.stderr
    refused = stackmem(place, *words, "--program", "p/main.apl")
    assert (refused.returncode, "--model cannot be combined with --program" in refused.stderr) == (2, True)


def test_skipped_work_is_reported_on_the_terminal_in_json_and_in_trace_steps(place: Path) -> None:
    (place / "a.agent.yaml").write_text("name: a\nprompt: p\npayload: {items: 5}\n", encoding="utf-8")
    loop = {"nextStep": {"type": "ForEach", "forEach": {"collectionPath": "items", "action": {"name": "x"}}}}
    replies = [{"text": json.dumps(each)} for each in (loop, {"taskComplete": True})]
    (place / "script.yaml").write_text(json.dumps({"replies": replies}), encoding="utf-8")
    done = run(place, "a.agent.yaml", "--json", "--model", f"script:{place / 'script.yaml'}")
    told = json.loads(done.stdout)
    assert told["failed"] == [{"path": "a/turn 1", "reason": 'Collection path "items" not an array'}]
    assert 'a/turn 1 was not done: Collection path "items" not an array' in done.stderr
    steps = stackmem(place, "trace", "show", "--steps", told["run_dir"]).stdout
    assert 'failed (Collection path "items" not an array): ForEach' in steps


def test_a_program_that_did_not_use_its_workspace_leaves_none(place: Path) -> None:
    (place / "sum.sexp").write_text("(+ 1 2)\n", encoding="utf-8")
    done = json.loads(run(place, "sum.sexp", "--workspace", str(place / "p"), "--json").stdout)
    kept = json.loads((Path(done["run_dir"]) / "result.json").read_text("utf-8"))
    assert (kept["outcome"], kept["workspace"], list((place / "work").iterdir())) == ("finished", "", [])
    assert stackmem(place, "replay", done["run_dir"]).returncode == 0
    assert stackmem(place, "resume", done["run_dir"]).returncode == 0
    (place / "p" / "main.apl").write_text(
        "main:\n  - {name: made, tool: shell, command: touch made}\n", encoding="utf-8"
    )
    assert run(place, "p", "--json").returncode == 0
    (made,) = (place / "work").glob("*/*/made")
    assert made.is_file()


def test_a_session_without_an_expression_copies_and_keeps_nothing(place: Path) -> None:
    done = stackmem(place, "repl", "--runs-dir", str(place / "runs"), "--sandbox-dir", str(place / "work"))
    assert (done.returncode, done.stdout) == (0, "")
    assert "working " not in done.stderr
    assert not (place / "runs").exists() or not list((place / "runs").iterdir())
