"""Procedures that an agent writes down: checked, rehearsed with the run's answers, kept by the user, called later."""

from pathlib import Path
from typing import Any

import pytest

from stackmem import replay
from stackmem.core.facts import ToolReturned
from stackmem.core.program_facts import ProgramCalled, ProgramReturned
from stackmem.run.companion.learning import MAX_CHARS, MAX_PROPOSALS, PROPOSALS, proposals
from stackmem.run.run_folder import TRACE
from tests.stage import Stage, call, command, events, pop

COUNT = """# Counts the lines of a file.
inputs: [{name: file, description: The file.}]
main:
- {name: Count, tool: shell, command: "wc -l <{{ file }}", register: counted}
- {name: Keep, tool: write_file, path: count.txt, content: "{{ counted.stdout }}"}
- {name: Read, tool: read_file, path: count.txt, register: again}
"""
RUN = command("wc -l <a.txt")
SAVE = call("save_program", name="count.apl", content=COUNT, inputs={"file": "a.txt"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "mine"
    place.mkdir()
    (place / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    return place


def solve(stage: Stage, folder: Path, *replies: Any, learn: str = "on", **more: Any):
    script = stage.script(*replies, name=f"{len(list(stage.root.iterdir()))}.yaml")
    return stage.solve(folder, "Count it.", model=script, learn=learn, **more)


def proposals_of(result: Any) -> Path:
    return Path(result.run_dir) / PROPOSALS


def answers(result) -> list[ToolReturned]:
    return events(result.run_dir, ToolReturned)


def learn(stage: Stage, *arguments: object, code: int = 0) -> str:
    ran = stage.run("learn", *map(str, arguments), "--runs-dir", str(stage.runs))
    assert (ran.returncode, "Traceback" in ran.stderr) == (code, False), ran.stderr
    return ran.stdout if code == 0 else ran.stderr


def test_a_procedure_is_rehearsed_kept_and_called_by_the_next_run(stage: Stage, folder: Path) -> None:
    first = solve(stage, folder, RUN, SAVE, pop())
    report = answers(first)[1].text
    assert report.startswith("count.apl is proposed to the user.\nlint found no errors\nwarning, line ")
    assert report.endswith(
        '\nrehearsal: 3 operations answered, and the program ended with {"counted":'
        '{"stdout":"2","stderr":"","exit_code":0},"again":"2"}'
    )
    assert not (folder / ".stackmem").exists()
    assert learn(stage, first.run_dir) == "count.apl\n"
    assert "not kept; read the program above" in learn(stage, first.run_dir, "count.apl", code=2)
    assert not (folder / ".stackmem").exists()
    assert learn(stage, first.run_dir, "count.apl", "--yes").strip() == COUNT.strip()
    assert (folder / ".stackmem/programs/count.apl").read_text() == COUNT
    assert "exists; pass --replace" in learn(stage, first.run_dir, "count.apl", "--yes", code=2)
    later = solve(stage, folder, call("run_program", path="count", inputs={"file": "a.txt"}), pop(), learn="off")
    assert len(events(later.run_dir, ProgramCalled)) == len(events(later.run_dir, ProgramReturned)) == 1
    for run in (first, later):
        replay(run.run_dir)


def test_without_the_option_nothing_is_offered(stage: Stage, folder: Path) -> None:
    result = solve(stage, folder, pop(), learn="off")
    assert "save_program" not in (Path(result.run_dir) / TRACE).read_text()
    assert "proposes no programs" in stage.run("learn", str(result.run_dir)).stderr


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"name": "../count.apl", "content": COUNT}, "without a folder"),
        ({"name": ".apl", "content": COUNT}, "without a folder"),
        ({"name": "count.exe", "content": COUNT}, "does not end with"),
        ({"name": "count.apl", "content": ""}, "a text of 1 to"),
        ({"name": "count.apl", "content": "x" * (MAX_CHARS + 1)}, "a text of 1 to"),
        ({"name": "count.apl", "content": COUNT, "inputs": [1]}, "one JSON object"),
        ({"name": "count.apl", "content": "main: 7"}, "and was not saved:\nline 1: "),
        ({"name": "count.sexp", "content": "(undefined-name)"}, "and was not saved:\nline 1: "),
    ],
)
def test_a_program_that_cannot_be_kept_is_refused(stage: Stage, folder: Path, given: dict[str, Any], says: str) -> None:
    result = solve(stage, folder, call("save_program", **given), pop())
    (answer,) = answers(result)
    assert answer.failed
    assert says in answer.text
    assert proposals(Path(result.run_dir)) == ()


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.apl", COUNT, "1 operation answered; then it needs something that this run does not have: the command"),
        (
            "a.sexp", '(defatom why (params text) (instructions "{{text}}")) (why (text "a"))',
            "0 operations answered; then it needs something that this run does not have: the work of an agent",
        ),
        ("a.sexp", '(nth (task-content (read_file (path "a.txt"))) 9)', "answered; then the program halted"),
        ("a.sexp", '(read_file (path "missing.txt"))', "1 operation answered"),
        ("a.sexp", '(map (lambda (n) (write_file (path "x") (content "y"))) (list 1 2 3))', "3 operations answered"),
    ],
)  # fmt: skip
def test_a_rehearsal_says_how_far_it_came(stage: Stage, folder: Path, name: str, content: str, says: str) -> None:
    save = call("save_program", name=name, content=content, inputs={"file": "b.txt"} if name == "a.apl" else {})
    result = solve(stage, folder, RUN, save, pop())
    answer = answers(result)[1]
    assert says in answer.text
    assert sorted(each.name for each in folder.iterdir()) == ["a.txt"]


def test_a_run_proposes_a_bounded_number_of_programs(stage: Stage, folder: Path) -> None:
    many = [call("save_program", name=f"p{n}.apl", content=COUNT) for n in range(MAX_PROPOSALS + 1)]
    result = solve(stage, folder, *many, pop(), max_steps=60)
    assert len(proposals(Path(result.run_dir))) == MAX_PROPOSALS
    assert "at most 20 programs" in answers(result)[MAX_PROPOSALS].text


def test_a_folder_with_untrusted_programs_gets_none_and_loses_no_trust(stage: Stage, folder: Path) -> None:
    result = solve(stage, folder, RUN, SAVE, pop())
    (folder / ".stackmem/programs").mkdir(parents=True)
    (folder / ".stackmem/programs/theirs.apl").write_text(COUNT)
    assert "programs that you do not trust" in learn(stage, result.run_dir, "count.apl", "--yes", code=2)
    assert [each.name for each in (folder / ".stackmem/programs").iterdir()] == ["theirs.apl"]


def test_a_proposal_that_was_changed_into_a_link_is_not_read(stage: Stage, folder: Path) -> None:
    result = solve(stage, folder, RUN, SAVE, pop())
    place = proposals_of(result) / "count.apl"
    place.unlink()
    place.symlink_to(folder / "a.txt")
    assert "cannot be read" in learn(stage, result.run_dir, "count.apl", "--yes", code=2)


def test_secrets_reach_no_proposal(stage: Stage, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-very-secret-value-123")
    secret = call("save_program", name="s.apl", content=COUNT + "# sk-very-secret-value-123\n")
    result = solve(stage, folder, secret, pop())
    assert "sk-very-secret-value-123" not in (proposals_of(result) / "s.apl").read_text()


def test_a_run_that_stops_after_the_proposal_resumes_without_repeating_it(stage: Stage, folder: Path) -> None:
    result = solve(stage, folder, RUN, SAVE, RUN, pop(), max_steps=2)
    (proposals_of(result) / "count.apl").unlink()
    resumed = stage.run("resume", str(result.run_dir), "--max-steps", "+5", "--quiet")
    assert resumed.returncode == 0, resumed.stderr
    assert proposals(Path(result.run_dir)) == ()
    replay(result.run_dir)
