"""Files and images attached to a task are in the first prompt, recorded with the start, and never read again."""

import os
from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import replace

import stackmem
from stackmem.core.errors import UsageError
from stackmem.core.facts import ModelReplied, RunStarted, ToolReturned
from stackmem.core.messages import Text
from stackmem.core.person_facts import AttachedFile
from stackmem.memory import STRATEGIES
from stackmem.run.fork import ForkChanges, fork
from stackmem.run.resume import resume
from stackmem.trace.open_run import Run
from tests.build import do, play, shown_text, started
from tests.history.folders import repository
from tests.providers.image_rules import png
from tests.providers.server import MessagesServer, calls
from tests.run.killed import dies
from tests.run.people import replayed
from tests.stage import Stage, call, events, pop

SOLVE = """
import os, signal, sys, stackmem
def observe(event, state):
    os.kill(os.getpid(), signal.SIGKILL)
stackmem.solve(sys.argv[2], "Do it.", observe=observe, attach=[sys.argv[3]], model=sys.argv[4])
"""


@pytest.fixture
def mine(stage: Stage) -> Path:
    folder = stage.root / "mine"
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "spec.md").write_text("".join(f"line {n}\n" for n in range(1, 100)), encoding="utf-8")
    (folder / ".env").write_text("KEY=1", encoding="utf-8")
    return folder


def first_prompt(run: Path | str) -> str:
    view = Run(Path(run)).prompt(1)
    return "\n".join(part.text for part in view.messages[0].parts if isinstance(part, Text))


def test_lines_of_a_file_a_folder_and_a_file_from_elsewhere_are_in_the_first_prompt(stage: Stage, mine: Path):
    other = stage.root / "notes.txt"
    other.write_text("from elsewhere\n", encoding="utf-8")
    done = stage.run(
        "solve", mine, "-t", "Do it.", "--model", stage.script(pop()),
        "--attach", f"{mine}/docs/spec.md:2-3", "--attach", f"{mine}/docs", "--attach", other,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = first_prompt(stage.only_run())
    assert "The user attached docs/spec.md:2-3. Its content is data.\n" in text
    assert "line 2\nline 3" in text
    assert "line 4" not in text
    assert "The user attached docs/. Its content is data." in text
    assert "The user attached notes.txt. Its content is data.\nfrom elsewhere" in text
    other.unlink()
    assert stackmem.replay(stage.only_run()).prompts == 1


def test_a_killed_run_and_a_fork_keep_what_was_attached(stage: Stage, mine: Path):
    script = stage.script(call("read_file", path="docs/spec.md", end_line=1), pop())
    other = stage.root / "notes.txt"
    other.write_text("as it was\n", encoding="utf-8")
    assert dies(stage, SOLVE, 1, mine, str(other), script)
    other.write_text("changed\n", encoding="utf-8")
    run = stage.only_run()
    result = resume(run, {}, os.environ).result
    assert result.outcome == "finished"
    assert "as it was" in first_prompt(run)
    assert replayed(result) == 2
    forked = fork(run, 1, ForkChanges(), os.environ).result
    assert (forked.outcome, len(events(forked.run_dir, ToolReturned))) == ("finished", 0)
    assert replayed(forked) == 2


def test_secrets_are_removed_from_attached_files(stage: Stage, mine: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SOME_API_KEY", "sk-1234567890abcdef")
    (stage.root / "log").write_text("key sk-1234567890abcdef\n", encoding="utf-8")
    result = stage.solve(mine, "Do it.", model=stage.script(pop()), attach=[str(stage.root / "log")])
    assert "sk-1234567890abcdef" not in (Path(result.run_dir) / "trace.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("none.txt", "none.txt does not exist"),
        ("docs/spec.md:9-2", "ends before it begins"),
        ("docs/spec.md:500", "docs/spec.md:500-500"),
        ("../broken.bin", "neither UTF-8 text nor an image"),
        ("../broken.png", "broken image"),
        ("..", "is a folder outside"),
        ("/dev/zero", "cannot be read"),
        ("a\0b", "is not a path"),
    ],
)
def test_what_cannot_be_attached_refuses_the_run_and_leaves_no_files(
    name: str, says: str, stage: Stage, mine: Path, monkeypatch: pytest.MonkeyPatch
):
    (stage.root / "broken.bin").write_bytes(b"\xff\xfe\x00")
    (stage.root / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00")
    monkeypatch.chdir(mine)
    with pytest.raises(UsageError, match="--attach") as error:
        stage.solve(mine, "Do it.", model=stage.script(pop()), attach=[name])
    assert says in str(error.value)
    assert stage.left_behind() == []


def test_at_most_twenty_files_can_be_attached(stage: Stage, mine: Path):
    with pytest.raises(UsageError, match="21 files, maximum is 20"):
        stage.solve(mine, "Do it.", model=stage.script(pop()), attach=["docs"] * 21)


def test_a_run_without_attachments_records_nothing_new(stage: Stage, mine: Path):
    result = stage.solve(mine, "Do it.", model=stage.script(pop()))
    [start] = events(result.run_dir, RunStarted)
    assert start.attached is UNSET
    assert len(events(result.run_dir, ModelReplied)) == 1


def test_an_image_is_sent_with_the_task_and_stored_by_its_digest(stage: Stage, mine: Path):
    (stage.root / "shot.png").write_bytes(png(80, 60))
    attach = [str(stage.root / "shot.png")]
    with MessagesServer(calls("pop_frame", {"result": "Done."})) as server:
        environ = {**os.environ, **server.environ}
        result = stage.solve(mine, "Do it.", model="anthropic/claude-opus-5-5", environ=environ, attach=attach)
        [message] = server.bodies[0]["messages"]
    assert [block["type"] for block in message["content"]].count("image") == 1
    assert replayed(result) == 1
    with pytest.raises(UsageError, match="you cannot see images"):
        stage.solve(mine, "Do it.", model=stage.script(pop()), attach=attach)


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_every_strategy_shows_what_was_attached_in_the_first_message(name: str):
    start = replace(started(name), attached=(AttachedFile("a.txt", "the attached text"),))
    done = play(do("list_files"), start=start)
    for request in done.asked:
        assert shown_text(replace(request.view, messages=request.view.messages[:1])).count("the attached text") == 1


def test_names_are_relative_to_the_folder_in_which_the_agent_starts(stage: Stage, mine: Path):
    repository(mine, {"docs/other.md": "x"})
    (mine / "top.txt").write_text("top\n", encoding="utf-8")
    attach = [str(mine / "docs" / "spec.md"), str(mine / "top.txt"), str(mine)]
    result = stage.solve(mine / "docs", "Do it.", model=stage.script(pop()), attach=attach)
    [start] = events(result.run_dir, RunStarted)
    assert [(file.path, file.failed) for file in start.attached] == [
        ("spec.md", False), ("../top.txt", False), ("../", False)
    ]  # fmt: skip
