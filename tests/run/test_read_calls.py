"""Runs with ``--read-calls many``: from the command line, resumed between two calls, forked, and with hooks."""

import json
import os
from pathlib import Path

from msgspec import UNSET

from stackmem.core.conversation.hook_facts import HookRan
from stackmem.core.facts import CallRejected, ModelReplied, RunResumed, ToolReturned
from stackmem.core.state import Notice, Result
from stackmem.run.fork import ForkChanges, fork
from stackmem.run.resume import resume
from stackmem.trace.open_run import Run
from tests.run.killed import SOLVE, dies
from tests.run.people import Scripted, replayed, talk
from tests.run.test_hooks import Hooks, folder_of
from tests.stage import Stage, call, events, mounted, pop

MANY = {"calls": [call("read_file", path="a.txt"), call("list_files", path="."), call("read_file", path="no")]}
FILES = {"a.txt": "one\n"}


def texts(run: Path | str) -> list[str]:
    return [event.text for event in events(run, ToolReturned)]


def test_the_flag_answers_the_calls_of_a_reply_and_is_off_by_default(stage: Stage):
    task = stage.task(MANY, pop(), files=FILES)
    many = stage.run("solve", str(task), "--model", "demo", "--read-calls", "many", "--json")
    assert many.returncode == 0, many.stderr
    run = stage.only_run()
    assert texts(run)[0].strip() == "one"
    assert len(texts(run)) == 3
    off = stage.solve(task)
    assert (texts(off.run_dir), len(events(off.run_dir, CallRejected))) == ([], 1)
    assert Run(Path(off.run_dir)).start.read_calls is UNSET


@mounted
def test_a_run_killed_between_two_calls_continues_with_the_next_one(stage: Stage):
    task = stage.task(MANY, MANY, pop(), files=FILES)
    straight = stage.solve(task, read_calls="many")
    whole = texts(straight.run_dir)
    facts = [type(event) for event in events(straight.run_dir)]
    between = [n for n, kind in enumerate(facts, 1) if kind is ToolReturned]
    assert len(between) == 6
    for after in between:
        before = set(stage.runs.iterdir())
        assert dies(stage, SOLVE, after, task, "read_calls=many")
        (run,) = set(stage.runs.iterdir()) - before
        done = resume(run, {}, os.environ)
        assert (texts(run), done.result.outcome) == (whole, "solved")
        kept = [event.prompt_digest for event in events(run, ModelReplied)]
        assert kept == [event.prompt_digest for event in events(straight.run_dir, ModelReplied)]
        assert len(events(run, RunResumed)) == 1
        replayed(done.result)


def test_a_fork_keeps_the_setting_and_can_change_it(stage: Stage):
    result = stage.solve(stage.task(MANY, MANY, pop(), files=FILES), read_calls="many")
    same = fork(Path(result.run_dir), 1, ForkChanges(), os.environ).result
    assert len(texts(same.run_dir)) == 3
    off = fork(Path(result.run_dir), 1, ForkChanges(read_calls="one"), os.environ).result
    assert len(events(off.run_dir, CallRejected)) == 1
    for each in (same, off):
        replayed(each)


def test_hooks_run_for_each_call_and_their_words_follow_the_results(stage: Stage):
    hooks = Hooks(stage.root)
    hooks.add("before_tool", "", tools=["list_files"])
    hooks.add("after_tool", "echo 'well done' >&2; exit 2")
    result = stage.solve(folder_of(stage), "Look.", model=stage.script(MANY, pop()), read_calls="many")
    ran = [event.hook.event for event in events(result.run_dir, HookRan)]
    assert ran == ["after_tool", "before_tool", "after_tool", "after_tool"]
    [root] = [done.frame for done in Run(Path(result.run_dir)).state.popped]
    kinds = [type(turn) for turn in root.turns][1:7]
    assert kinds == [Result] * 3 + [Notice] * 3
    assert replayed(result) == 2


def test_a_conversation_answers_several_reads(stage: Stage):
    person = Scripted("Look.")
    done = talk(stage, person, stage.script(MANY, {"text": "Seen."}), read_calls="many")
    assert (len(texts(done.run_dir)), replayed(done)) == (3, 2)


def test_whatif_costs_such_a_run_under_other_strategies(stage: Stage):
    result = stage.solve(stage.task(MANY, MANY, pop(), files=FILES), read_calls="many", strategy="stackheap")
    shown = stage.call("whatif", result.run_dir, "--strategies", "full,stackheap", "--json")
    rows = {row["strategy"]: row for found in json.loads(shown.stdout) for row in found["rows"]}
    assert rows.keys() == {"full", "stackheap"}, shown.stdout
