"""Parallel frames: their merge, their limits, every order of completion, kill -9, and a user who is asked."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

import stackmem
from stackmem import UsageError
from stackmem.core.facts import CallRejected, FramePopped, ModelReplied, RunEnded, RunForked
from stackmem.core.parallel.facts import FrameReturned, FramesMerged, FramesPushed
from stackmem.core.person_facts import PersonDecided, PersonStopped, SessionRules
from stackmem.core.requests import AskPermission, AskUser
from stackmem.core.state import Result
from stackmem.doors.acp.updates import call_of_frame
from stackmem.lab.simulated.script_language import Script, parse_script
from stackmem.lab.simulated.scripted import ScriptedModel
from stackmem.models.registry import MODELS
from stackmem.review.measure.metrics import measure
from stackmem.review.measure.moments import moments
from stackmem.run.fork import ForkChanges, fork
from stackmem.run.resume import resume
from stackmem.trace.open_run import Run
from tests.groups import together
from tests.run.people import Scripted, talk
from tests.stage import Reply, Stage, call, command, events, fails, mounted, pop, push

BASE = "one\ntwo\nthree\nfour\nfive\n"


TOKENS = ("uncached_tokens", "cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens", "output_tokens")


def measured_of(run: Path | str) -> dict[str, Any]:
    return measure(moments((record.at, record.event) for record in Run(Path(run)).records()))


def write(path: str, content: str) -> Reply:
    return call("write_file", path=path, content=content)


def group_task(
    stage: Stage, replies: Sequence[Reply], frames: dict[str, Sequence[Reply]], files: dict[str, str] | None = None,
    **more: Any,
) -> Path:  # fmt: skip
    task = stage.task(files=files or {"base.txt": BASE}, **more)
    (task / "demo.yaml").write_text(json.dumps({"replies": replies, "frames": frames}), encoding="utf-8")
    return task


def answer(run: Path | str) -> str:
    """Return what the parent reads once its frames are merged."""
    state = next(state for event, state in states(run) if isinstance(event, FramesMerged))
    last = state.running.turns[-1]
    assert isinstance(last, Result)
    return last.text


def states(run: Path | str):
    state = stackmem.core.state.State()
    for record in Run(Path(run)).records():
        state = stackmem.core.machine.evolve(state, record.event)
        yield record.event, state


def file_of(run: Path | str, path: str) -> str:
    folder = Run(Path(run))
    return folder.snapshot(folder.state)[path].decode()


def all_replay(stage: Stage) -> None:
    for run in stage.runs.iterdir():
        stackmem.replay(run)


@mounted
def test_frames_pushed_together_are_merged_and_each_is_a_run(stage: Stage):
    frames = {name: [write(f"{name}.txt", name), pop(f"Did {name}.")] for name in "abc"}
    task = group_task(stage, [together("a", "b", "c"), command("cat a.txt b.txt c.txt"), pop()], frames)
    result = stage.solve(task, parallel_frames=3)
    assert (result.outcome, result.steps, result.frames) == ("solved", 3, 3)
    pushed, *returned, merged = events(result.run_dir, FramesPushed, FrameReturned, FramesMerged)
    assert (
        [each.frame for each in pushed.frames] == [each.frame for each in returned] == ["frame-1", "frame-2", "frame-3"]
    )
    assert [each.text for each in returned] == [f"frame {name!r} returned:\nDid {name}." for name in "abc"]
    assert merged.files == ()
    for each in returned:
        child = Run(stage.runs / each.run)
        assert [span.name for span in child.frames] == ["root", "abc"[returned.index(each)]]
        assert events(child.folder, RunEnded)[-1].ending == "popped"
    assert result.usage.total == sum(
        event.usage.total for run in stage.runs.iterdir() for event in events(run, ModelReplied)
    )
    all_replay(stage)


class Gated:
    """A scripted model whose parallel frames end in a chosen order: each waits for the run of the one before it."""

    name, window_tokens, price = "gated", 200_000, None

    def __init__(self, script: Script, order: Sequence[str], runs: Path) -> None:
        self._model, self._order, self._runs = ScriptedModel(script), order, runs

    def reply(self, request):
        place = self._order.index(request.parallel) if request.parallel else 0
        last = request.parallel and request.facts - request.facts_before == len("abc") - 2
        while last and place and not self._ended(self._order[place - 1]):
            time.sleep(0.005)
        return self._model.reply(request)

    def _ended(self, name: str) -> bool:
        number = "abc".index(name) + 1
        return any(b'"RunEnded"' in trace.read_bytes() for trace in self._runs.glob(f"*.frame-{number}/trace.jsonl"))


def gated(script: Script, order: Sequence[str], runs: Path, wanted: object) -> Gated:
    return Gated(script, order, runs)


@mounted
def test_the_result_is_the_same_in_every_order_of_completion(stage: Stage):
    changed = {
        "a": "1\ntwo\nthree\nfour\nfive\n",
        "b": "2\ntwo\nthree\nfour\nfive\n",
        "c": "one\ntwo\nthree\nfour\n5\n",
    }
    frames = {
        name: [call("write_file", path="base.txt", content=changed[name]), pop(f"Did {name}.", store=[
            {"name": "note", "content": f"note of {name}"}, {"name": f"own-{name}", "content": name}])]
        for name in "abc"
    }  # fmt: skip
    script = parse_script(json.dumps({"replies": [together("a", "b", "c"), pop()], "frames": frames}))
    task = stage.task(files={"base.txt": BASE})
    seen = []
    for order in permutations("abc"):
        runs = stage.root / "".join(order)
        MODELS["gated"] = partial(gated, script, order, runs)
        try:
            result = stage.solve(task, model="gated", parallel_frames=3, runs_dir=str(runs))
        finally:
            del MODELS["gated"]
        name = Path(result.run_dir).name
        told = [repr(event).replace(name, "RUN") for event, _ in states(result.run_dir) if not is_start(event)]
        assert ended_in_order(runs, order)
        seen.append((without_digests(told), file_of(result.run_dir, "base.txt"), Run(Path(result.run_dir)).state.heap))
    assert len(seen) == 6
    assert all(each == seen[0] for each in seen)
    _, text, heap = seen[0]
    assert text == "<<<<<<< merged so far\n1\n=======\n2\n>>>>>>> frame b\ntwo\nthree\nfour\n5\n"
    assert {name: chunk.content for name, chunk in heap.chunks.items()} == {
        "note": "note of a", "own-a": "a", "note-2": "note of b", "own-b": "b", "note-3": "note of c", "own-c": "c",
    }  # fmt: skip
    assert "CONFLICT in base.txt" in answer(result.run_dir)


def is_start(event: object) -> bool:
    return type(event).__name__ == "RunStarted"


def without_digests(told: list[str]) -> list[str]:
    """Leave out what contains times: the digests of the frames' traces."""
    return [
        text.partition("digest='")[0] + text.partition("ending=")[2] if "FrameReturned" in text else text
        for text in told
    ]


def ended_in_order(runs: Path, order: Sequence[str]) -> bool:
    ends = [
        next(
            record.at
            for trace in runs.glob(f"*.frame-{'abc'.index(name) + 1}")
            for record in stackmem.TraceReader(trace / "trace.jsonl")
            if isinstance(record.event, RunEnded)
        )
        for name in order
    ]
    return ends == sorted(ends)


@mounted
def test_files_that_cannot_be_merged_keep_both_versions(stage: Stage):
    files = {"text": BASE, "gone": BASE, "back": BASE, "same": BASE, "place/x": "x"}
    first = [
        command("rm back; echo 1 >gone; printf '\\0a' >bin; echo new >same; rm -r place; echo file >place"),
        pop("A."),
    ]
    later = [command("rm gone; echo 2 >back; printf '\\0b' >bin; echo new >same; echo y >place/y"), pop("B.")]
    task = group_task(stage, [together("a", "b"), pop()], {"a": first, "b": later}, files)
    result = stage.solve(task, parallel_frames=2)
    (merged,) = events(result.run_dir, FramesMerged)
    assert {(each.path, each.kind, each.other) for each in merged.files} == {
        ("gone", "kept", ""), ("back", "restored", ""), ("bin", "beside", "bin.b"), ("place/y", "beside", "place.b/y"),
    }  # fmt: skip
    read = {
        path: file_of(result.run_dir, path) for path in ("gone", "back", "bin", "bin.b", "place", "place.b/y", "same")
    }
    assert read == {
        "gone": "1\n", "back": "2\n", "bin": "\0a", "bin.b": "\0b", "place": "file\n", "place.b/y": "y\n",
        "same": "new\n",
    }  # fmt: skip
    assert answer(result.run_dir).count("CONFLICT") == 4
    all_replay(stage)


def test_a_folder_is_merged_as_an_overlay_and_its_own_files_stay(stage: Stage):
    mine = stage.root / "mine"
    mine.mkdir()
    (mine / "a.txt").write_text("one\ntwo\nthree\n")
    frames = {"a": [write("a.txt", "1\ntwo\nthree\n"), pop()], "b": [write("a.txt", "one\ntwo\n3\n"), pop()]}
    script = stage.root / "script.yaml"
    script.write_text(json.dumps({"replies": [together("a", "b"), pop()], "frames": frames}))
    result = stage.solve(mine, "Do it.", model=f"script:{script}", parallel_frames=2)
    assert result.changed == ("a.txt",)
    assert file_of(result.run_dir, "a.txt") == "1\ntwo\n3\n"
    assert (mine / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert [each.kind for each in events(result.run_dir, FramesMerged)[0].files] == ["merged"]
    all_replay(stage)


def test_limits_are_shared_and_what_is_unused_comes_back(stage: Stage):
    frames = {"a": [command("true")] * 9, "b": [pop("B.")]}
    task = group_task(stage, [together("a", "b"), command("true"), command("true"), command("true"), pop()], frames)
    result = stage.solve(task, parallel_frames=2, max_steps=10, max_tokens=1_000_000, max_seconds=600)
    returned = events(result.run_dir, FrameReturned)
    assert [(each.ending, each.steps) for each in returned] == [("limit:steps", 3), ("popped", 1)]
    assert returned[0].text.startswith("frame 'a' ended early (limit:steps), and may not be done")
    limits = [events(stage.runs / each.run, RunForked)[0].start.limits for each in returned]
    assert limits[0] == limits[1]
    assert limits[0].steps == 1 + 9 // 3
    assert result.outcome == "solved"  # 1 + 3 + 1 steps were used, so five were left for the parent
    over = stage.solve(task, parallel_frames=2, max_steps=7)
    assert over.ending == "limit:steps"
    all_replay(stage)


def test_an_outer_constraint_counts_the_steps_of_parallel_frames(stage: Stage):
    inner = {"a": [command("true")] * 9, "b": [command("true")] * 9}
    replies = [push(constraint="steps=10"), together("a", "b"), *[command("true")] * 9, pop(), pop()]
    task = group_task(stage, replies, inner)
    result = stage.solve(task, parallel_frames=2, max_steps=100)
    returned = events(result.run_dir, FrameReturned)
    assert [each.steps for each in returned] == [3, 3]
    popped = events(result.run_dir, FramePopped)[0]
    own = [event for event in events(result.run_dir, CallRejected) if event.code == "constraint"]
    assert own or popped.forced  # 10 - 1 - 6 steps were left, and the frame wanted nine
    all_replay(stage)


def test_what_a_parallel_frame_may_not_do_is_refused(stage: Stage):
    frames = {"a": [together("c", "d"), pop("A.")], "b": [call("keep_job", job=1), pop("B.")]}
    long = {"objective": "x" * 300}
    replies = [
        together("a"), together("a", "a"), together("a", "b", "c"), together("a", "b", a=long), together("a", "b"),
        pop(),
    ]  # fmt: skip
    result = stage.solve(group_task(stage, replies, frames), parallel_frames=2)
    reasons = [event.reason for event in events(result.run_dir, CallRejected)]
    assert [reason.partition("; ")[0] for reason in reasons] == [
        "push_frames refused: frames has 1 entries",
        "push_frames refused: two frames have the same name",
        "push_frames refused: frames has 3 entries",
        "push_frames refused: frame 'a': objective is 300 chars, maximum is 200",
    ]
    inside = [event.reason for run in stage.runs.glob("*.frame-*") for event in events(run, CallRejected)]
    assert any("already runs in parallel" in reason for reason in inside)
    assert result.outcome == "solved"


def test_it_is_off_by_default_and_refused_where_it_cannot_work(stage: Stage):
    task = stage.task(pop())
    off = stage.solve(task)
    start = Run(Path(off.run_dir)).start
    assert "push_frames" not in {tool.name for tool in start.tools}
    assert start.parallel is stackmem.core.facts.UNSET
    for settings in ({"parallel_frames": 1}, {"strategy": "full", "parallel_frames": 2}):
        with pytest.raises(UsageError, match="parallel"):
            stage.solve(task, **settings)
    with pytest.raises(UsageError, match=r"gets the small one; pass --size full, or omit --parallel-frames"):
        stage.solve(task, size="small", parallel_frames=2)


def test_a_failing_model_in_one_frame_ends_the_run_and_a_resume_continues_only_that_frame(stage: Stage):
    frames = {"a": [write("a.txt", "a"), fails("429"), pop("A.")], "b": [write("b.txt", "b"), pop("B.")]}
    frames["a"][1:1] = [{"call": "list_files", "args": {}}]
    task = group_task(stage, [together("a", "b"), pop()], frames)
    script = json.loads((task / "demo.yaml").read_text())
    script["frames"]["a"] = script["frames"]["a"][:2]  # the script runs dry, which cannot be retried
    (task / "demo.yaml").write_text(json.dumps(script))
    result = stage.solve(task, parallel_frames=2)
    assert result.ending == "model_error"
    assert [each.ending for each in events(result.run_dir, FrameReturned)] == ["model_error", "popped"]
    script["frames"]["a"] = [*script["frames"]["a"], pop("never"), pop("A.")]
    (task / "demo.yaml").write_text(json.dumps(script))
    before = (stage.runs / f"{result.run}.frame-2" / "trace.jsonl").read_bytes()
    done = resume(Path(result.run_dir), {}, os.environ)
    assert done.outcome == "solved"
    assert (stage.runs / f"{result.run}.frame-2" / "trace.jsonl").read_bytes() == before
    assert [each.ending for each in events(result.run_dir, FrameReturned)] == [
        "model_error",
        "popped",
        "popped",
        "popped",
    ]
    assert done.result.usage.total == sum(
        event.usage.total for run in stage.runs.iterdir() for event in events(run, ModelReplied)
    )
    measured = measured_of(result.run_dir)
    assert sum(measured[name] for name in TOKENS) == done.result.usage.total
    all_replay(stage)


def test_the_cost_of_a_run_includes_its_parallel_frames(stage: Stage):
    frames = {name: [write(f"{name}.txt", name), pop(f"Did {name}.")] for name in "ab"}
    task = group_task(stage, [together("a", "b"), command("cat a.txt b.txt"), pop()], frames)
    result = stage.solve(task, parallel_frames=2, price="1,5")
    parent = Run(Path(result.run_dir))
    own = sum(each.usd for each in parent.steps)
    parts = [each.usd for each in events(result.run_dir, FrameReturned)]
    assert min(parts) > 0
    assert parent.cost == pytest.approx(own + sum(parts))
    assert result.cost_usd == pytest.approx(parent.cost, abs=1e-6)
    assert measured_of(result.run_dir)["cost_usd"] == pytest.approx(parent.cost, abs=1e-6)


def test_an_editor_is_asked_about_the_call_of_the_frame():
    question = AskPermission("run_command", "rm -r build", outside=True, frame="b")
    shown = call_of_frame(question)
    assert shown["title"] == "[b] run_command: rm -r build"
    assert (shown["kind"], shown["content"]) == ("execute", [])
    written = call_of_frame(replace(question, tool="write_file", about="a.txt", detail="new text"))
    assert "new text" in written["content"][0]["content"]["text"]


KILLED = """
import os, signal, stackmem, sys, threading
timer = threading.Timer(float(sys.argv[2]), os.kill, (os.getpid(), signal.SIGKILL))
timer.daemon = True
timer.start()
stackmem.solve(sys.argv[1], model="demo", parallel_frames=3)
"""
RESUMED = """
import os, signal, sys, threading
from pathlib import Path
from stackmem.run.resume import resume
timer = threading.Timer(float(sys.argv[2]), os.kill, (os.getpid(), signal.SIGKILL))
timer.daemon = True
timer.start()
resume(Path(sys.argv[1]), {}, os.environ)
"""


@mounted
def test_a_run_killed_at_random_while_frames_run_loses_nothing(stage: Stage):
    frames = {
        name: [command(f"echo {name} >>log-{name}; sleep 0.2"), call("heap_alloc", name=f"n-{name}", content=name),
               command(f"echo {name} >>log-{name}; sleep 0.2"), pop(f"Did {name}.")]
        for name in "abc"
    }  # fmt: skip
    task = group_task(stage, [together("a", "b", "c"), command("cat log-a log-b log-c"), pop("All.")], frames)
    straight = stage.solve(task, parallel_frames=3)
    whole = last_words(straight.run_dir)
    began = time.monotonic()
    stage.solve(task, parallel_frames=3)
    length = 2 * (time.monotonic() - began)
    chance, deaths = Random(7), 0
    for _ in range(4):
        known = set(stage.runs.iterdir())
        deaths += killed(stage, KILLED, task, chance.uniform(0.3, length))
        for run in set(stage.runs.iterdir()) - known:
            if "frame-" in run.name:
                continue
            if not (run / "trace.jsonl").is_file() or not (run / "trace.jsonl").stat().st_size:
                shutil.rmtree(run)  # killed before its first record, so there is nothing to lose
                continue
            for _ in range(3):
                deaths += killed(stage, RESUMED, run, chance.uniform(0.3, length))
            done = resume(run, {}, os.environ)
            assert done.outcome == "solved"
            assert last_words(run) == whole
            assert len(events(run, FramesPushed)) == len(events(run, FramesMerged)) == 1
    assert deaths > 0
    all_replay(stage)


def killed(stage: Stage, code: str, subject: Path, seconds: float) -> bool:
    ran = subprocess.run(
        [sys.executable, "-c", code, str(subject), str(seconds)], cwd=stage.elsewhere, env=stage.environ(),
        capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, timeout=200,
    )  # fmt: skip
    assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
    return ran.returncode == -signal.SIGKILL


def last_words(run: Path | str) -> str:
    return [event.text for event in events(run) if type(event).__name__ == "ToolReturned"][-1]


def test_ctrl_c_ends_all_frames(stage: Stage):
    frames = {name: [command("echo x >>log; sleep 60"), pop(f"Did {name}.")] for name in "ab"}
    task = group_task(stage, [together("a", "b"), pop()], frames)
    process = stage.start("solve", str(task), "--model", "demo", "--parallel-frames", "2")
    until(lambda: len(list(stage.work.glob("*.frame-*/workspace/log"))) == 2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert [events(each, RunEnded)[-1].ending for each in stage.runs.iterdir()] == ["interrupted"] * 3
    all_replay(stage)


def until(holds, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_questions_and_permissions_name_the_frame_and_come_one_at_a_time(stage: Stage):
    class Person(Scripted):
        busy, most = 0, 0

        def _slow(self, answer):
            self.busy += 1
            self.most = max(self.most, self.busy)
            assert threading.current_thread() is threading.main_thread()
            time.sleep(0.05)
            self.busy -= 1
            return answer

        def answer(self, asked: AskUser) -> str | None:
            return self._slow(super().answer(asked))

        def decide(self, asked: AskPermission) -> PersonDecided:
            return self._slow(super().decide(asked))

    frames = {name: [call("ask_user", question="Which?"), command("true"), pop(f"Did {name}.")] for name in "ab"}
    script = stage.root / "script.yaml"
    script.write_text(json.dumps({"replies": [together("a", "b"), pop("Done.")], "frames": frames}))
    person = Person("Do it.", answers=["this", "this"], decisions=[PersonDecided(allow=True)] * 2)
    done = talk(stage, person, f"script:{script}", SessionRules(approve="commands"), parallel_frames=2)
    questions = sorted(each.question for each in person.asked if isinstance(each, AskUser))
    assert questions == ["[a] Which?", "[b] Which?"]
    assert sorted(each.frame for each in person.asked if isinstance(each, AskPermission)) == ["a", "b"]
    assert person.most == 1
    assert (done.ending, len(events(done.run_dir, FramesMerged))) == ("left", 1)
    all_replay(stage)


def test_a_user_who_stops_the_request_stops_its_frames(stage: Stage):
    frames = {name: [command("sleep 60"), pop()] for name in "ab"}
    script = stage.root / "script.yaml"
    script.write_text(json.dumps({"replies": [together("a", "b"), pop("Second.")], "frames": frames}))
    began = time.monotonic()

    def meanwhile(_: int) -> PersonStopped | None:
        running = len(list(stage.work.glob("*.frame-*")))
        return PersonStopped() if running == 2 and not person.stopped and not person.mark() else None

    class Person(Scripted):
        stopped = False

        def mark(self) -> None:
            self.stopped = True

    person = Person("First.", "Second.", meanwhile=meanwhile)
    done = talk(stage, person, f"script:{script}", parallel_frames=2)
    assert time.monotonic() - began < 50  # the commands of the frames would take 60 s
    assert events(done.run_dir, FramesMerged) == []
    popped = [(event.forced, event.result) for event in events(done.run_dir, FramePopped)]
    assert popped[0][0] == "stopped"
    assert popped[-1] == ("", "Second.")
    all_replay(stage)


def test_runs_with_parallel_frames_and_the_frames_themselves_can_be_forked(stage: Stage):
    frames = {name: [write(f"{name}.txt", name), pop(f"Did {name}.")] for name in "ab"}
    task = group_task(stage, [together("a", "b"), command("cat a.txt b.txt"), pop()], frames)
    result = stage.solve(task, parallel_frames=2)
    again = fork(Path(result.run_dir), 1, ForkChanges(), os.environ).result
    assert (again.outcome, last_words(again.run_dir)) == ("solved", last_words(result.run_dir))
    assert events(again.run_dir, FramesMerged) == []  # the fork begins after the merge
    child = fork(stage.runs / f"{result.run}.frame-1", 2, ForkChanges(), os.environ).result
    assert (child.ending, child.result) == ("popped", "Did a.")
    all_replay(stage)
