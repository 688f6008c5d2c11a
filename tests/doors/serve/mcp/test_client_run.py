"""Runs whose replies are the calls of a third-party agent, without the protocol that carries them."""

import json
import os
import threading
from pathlib import Path

import pytest

from stackmem.core.errors import UsageError
from stackmem.core.facts import RunEnded, RunStarted
from stackmem.core.state import State
from stackmem.doors.mcp.client_run import ClientCalls, open_client_run, plan_client_run
from stackmem.run.interrupts import Interrupts
from stackmem.run.play import play
from stackmem.trace.lineage import RunReader
from stackmem.trace.verify import verify
from tests.stage import Stage, events


class Session:
    """A client's run, played in a thread."""

    def __init__(self, stage: Stage, folder: Path, **flags: str) -> None:
        given = {"runs_dir": str(stage.runs), **flags}
        self.plan = plan_client_run(str(folder), given, os.environ, stage.elsewhere)
        self.calls = ClientCalls()
        self._thread = threading.Thread(target=self._play)
        self._thread.start()

    def _play(self) -> None:
        if self.calls.wait():
            with Interrupts() as interrupts, open_client_run(self.plan, self.calls, os.environ, interrupts) as opened:
                play(opened.start, State(), opened)
            self.calls.close("over")

    def ask(self, name: str, /, **arguments: object) -> str:
        answer = self.calls.call(name, arguments, "somebody 1").result(60)
        return ("refused: " if answer.failed else "") + answer.text

    def end(self) -> None:
        self.calls.leave()
        self._thread.join(60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    (place / "spec.md").write_text("first", encoding="utf-8")
    return place


def test_a_session_is_a_run_that_replays_and_its_folder_stays_as_it_is(stage: Stage, folder: Path) -> None:
    session = Session(stage, folder)
    assert "stored 'spec'" in session.ask("heap_alloc", name="spec", content="x", source="spec.md")
    opening = session.ask("push_frame", name="part", objective="Do it.", context="None.", return_spec="All.")
    assert opening.startswith("FRAME 'part', depth 1 of 5")
    assert "spec | 1 chars" in opening
    (folder / "spec.md").write_text("second", encoding="utf-8")
    assert "STALE" in session.ask("heap_read", name="spec")
    assert "frame 'part' returned:\nDone." in session.ask("pop_frame", result="Done.")
    assert session.ask("pop_frame", result="More.").startswith("refused: pop_frame refused: no frame is open")
    session.end()
    run = stage.only_run()
    assert [event.client for event in events(run, RunStarted)] == ["somebody 1"]
    assert events(run, RunEnded) == [RunEnded("left", "")]
    assert verify(RunReader(run)).prompts == 5
    assert sorted(path.name for path in folder.iterdir()) == ["spec.md"]
    assert json.loads((run / "result.json").read_text("utf-8"))["outcome"] == "finished"


def test_a_session_without_a_call_leaves_nothing(stage: Stage, folder: Path) -> None:
    Session(stage, folder).end()
    assert not any(stage.runs.iterdir())


def test_client_messages_are_bounded_and_scrubbed(stage: Stage, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-a-secret-of-the-caller-42")
    session = Session(stage, folder, heap_chars="20")
    assert "maximum is 1,048,576" in session.ask("heap_alloc", name="a", content="x" * (1 << 20))
    assert "20 characters" in session.ask("heap_alloc", name="a", content="x" * 21)
    assert session.ask("heap_alloc", name="a\nb", content="x").startswith("refused: ")
    assert session.ask("heap_alloc", name="a", content="\ud800").startswith("stored")
    assert session.ask("heap_alloc", name=["a"], content={}).startswith("refused: ")
    assert session.ask("rm -rf /" * 100).startswith("refused: unknown tool")
    session.ask("heap_write", name="a", content="sk-a-secret-of-the-caller-42")
    assert "[secret" in session.ask("heap_read", name="a")
    session.end()
    assert b"caller-42" not in (stage.only_run() / "trace.jsonl").read_bytes()
    assert session.ask("heap_list") == "refused: over"
    verify(RunReader(stage.only_run()))


def test_many_calls_at_once_are_answered_in_their_order(stage: Stage, folder: Path) -> None:
    session = Session(stage, folder)
    asked = [session.calls.call("heap_alloc", {"name": f"c{n}", "content": "x"}, "") for n in range(40)]
    told = [one.result(60).text.splitlines()[0] for one in asked]
    assert told == [f"stored 'c{n}', 1 characters; {n + 1} of 10,000 used" for n in range(40)]
    session.end()


def test_such_a_run_is_neither_resumed_nor_forked(stage: Stage, folder: Path) -> None:
    session = Session(stage, folder)
    session.ask("heap_list")
    session.end()
    for arguments in (("resume", "last"), ("fork", "last", "--at", "1")):
        done = stage.call(*arguments)
        assert done.returncode == 2
        assert "start a new run with stackmem mcp" in done.stderr


def test_a_folder_that_is_none_is_refused(stage: Stage, folder: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        Session(stage, folder / "spec.md")


def test_sessions_side_by_side_keep_what_each_stores_for_the_next(stage: Stage, folder: Path) -> None:
    one, other = Session(stage, folder), Session(stage, folder)
    one.ask("heap_alloc", name="a", content="from one", source="spec.md")
    other.ask("heap_alloc", name="b", content="from the other")
    one.end()
    other.end()
    (folder / "spec.md").write_text("second", encoding="utf-8")
    third = Session(stage, folder)
    assert "from one" in third.ask("heap_read", name="a")
    told = third.ask("heap_list")
    assert "a | 8 chars | source spec.md | kept from before this run" in told
    assert "STALE" in told
    assert "b | 14 chars" in told
    third.end()
    alone = Session(stage, folder, heap="none")
    assert "0 chunks" in alone.ask("heap_list")
    alone.end()
    assert [verify(RunReader(run)).same_rules for run in stage.runs.iterdir()] == [True] * 4
