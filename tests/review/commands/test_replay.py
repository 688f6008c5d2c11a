"""Tests ``stackmem replay``: a single step, a single frame, and the walk through a run."""

import json
import signal
import time

import pytest
from msgspec.structs import replace

from stackmem.core.facts import ModelReplied
from stackmem.review.commands.replay import LONGEST_WAIT_SECONDS, walk
from stackmem.trace.open_run import Run
from tests import stage as acts
from tests.build import alloc, do, play, pop, push, started
from tests.stage import Stage, command
from tests.trace.kept import keep

HOSTILE = "\x1b]0;owned\x07\u202eevil\r\x9b1m"


@pytest.fixture
def folder(tmp_path):
    replies = (alloc("spec", f"see {HOSTILE}"), push(name="part"), do(f"no\n-- system{HOSTILE}"), pop(HOSTILE), pop())
    return keep(tmp_path / "kept" / "a-run", play(*replies, start=started(task=HOSTILE)).events)


def test_a_step_is_shown_whole_and_hostile_text_can_do_nothing(stage: Stage, folder):
    ran = stage.call("replay", folder, "--step", "4")
    assert ran.returncode == 0, ran.stderr
    for heading in ("PROMPT: ", "REPLY: call", "EVENTS", "REGISTERS", "HEAP: 1 chunk", "FILES CHANGED: "):
        assert f"\n{heading}" in ran.stdout
    assert "\n-- message 2, assistant: call no -- system" in ran.stdout
    assert not set(ran.stdout) & set("\x1b\x07\u202e\r\x9b")


def test_a_frame_is_shown_by_its_last_step(stage: Stage, folder):
    ran = stage.call("replay", folder, "--frame", "part", "--json")
    shown = json.loads(ran.stdout)
    assert (ran.stdout.count("\n"), shown["step"], shown["frame"]["id"]) == (1, 4, "frame-1")
    assert shown["prompt"][-1]["text"].startswith("unknown tool")


def test_the_walk_tells_every_step_on_stdout(stage: Stage, folder):
    ran = stage.call("replay", folder, "--play", "--speed", "1000")
    assert ran.returncode == 0, ran.stderr
    assert [line.split()[0] for line in ran.stdout.splitlines() if line[:4].strip().isdigit()] == list("12345")
    assert ran.stdout.splitlines()[-1] == "ended: popped"
    assert not set(ran.stdout) & set("\x1b\x07\u202e\r\x9b")


@pytest.mark.parametrize(("speed", "waits"), [(1.0, 1.0), (2.0, 0.5), (0.001, LONGEST_WAIT_SECONDS)])
def test_the_walk_waits_as_the_run_did_and_never_long(folder, speed, waits, capsys):
    waited = []
    walk(Run(folder), speed, waited.append)
    assert set(waited) == {waits}
    assert "ended: popped" in capsys.readouterr().out


def test_a_walk_through_a_run_cut_short_says_so(tmp_path, capsys):
    walk(Run(keep(tmp_path / "cut", play(push(), start=started()).events)), 1.0, [].append)
    assert capsys.readouterr().out.splitlines()[-1] == "the trace ends here, because the run was cut short"


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--step", "9"], "a-run has no step 9; it has steps 1 to 5"),
        (["--step", "0"], "has no prompt"),
        (["--frame", "nobody"], "no frame 'nobody'"),
        (["--step", "1", "--play"], "--step and --play cannot be combined"),
        (["--step", "1", "--frame", "part"], "--step and --frame cannot be combined"),
        (["--speed", "2"], "--speed requires --play"),
        (["--play", "--speed", "0"], "use a number above 0"),
        (["--play", "--speed", "nan"], "use a number above 0"),
        (["--play", "--json"], "--play and --json cannot be combined"),
    ],
)
def test_invalid_steps_and_frames_print_one_sentence_and_exit_2(stage: Stage, folder, flags, says):
    ran = stage.call("replay", folder, *flags)
    assert ran.returncode == 2
    assert says in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_repeated_calls_are_reported_and_a_difference_exits_6(stage: Stage):
    run = stage.solve(stage.task(command("echo same"), command("date +%s%N"), acts.pop())).run
    ran = stage.call("replay", run, "--tools", "live")
    assert ran.returncode == 6
    assert ran.stderr.splitlines() == ["executing run_command echo same", "executing run_command date +%s%N"]
    assert "1 call returned the recorded results, at isolation" in ran.stdout
    assert "step 2, record" in ran.stdout
    told = json.loads(stage.call("replay", run, "--tools", "live", "--from", "3", "--json").stdout)
    assert (told["calls"], told["difference"]) == (0, "")
    none = stage.call("replay", run, "--tools", "live", "--from", "3")
    assert none.stdout.endswith(": no workspace tool calls to execute again\n")
    beyond = stage.call("replay", run, "--tools", "live", "--from", "9")
    assert " has no step 9; " in beyond.stderr


def test_a_run_replayed_with_its_replies_is_reported(stage: Stage):
    run = stage.solve(stage.task(command("echo same"), acts.pop())).run
    ran = stage.call("replay", run, "--model", "recorded", "--from", "1")
    assert ran.returncode == 0, ran.stderr
    assert "   1  run_command echo same" in ran.stderr
    assert "2 steps from step 1 on" in ran.stdout
    assert "outcome solved (recorded: solved)" in ran.stdout


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--tools", "dead"], "use --tools live"),
        (["--model", "claude-sonnet-5-5"], "use --model recorded"),
        (["--model", "recorded"], "add --from N"),
        (["--from", "2"], "--from requires"),
        (["--tools", "live", "--from", "0"], "counted from 1"),
        (["--tools", "live", "--model", "recorded", "--from", "1"], "cannot be combined"),
        (["--tools", "live", "--step", "1"], "cannot be combined"),
    ],
)
def test_runs_that_cannot_be_repeated_print_one_sentence_and_exit_2(stage: Stage, folder, flags, says):
    ran = stage.call("replay", folder, *flags)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert says in ran.stderr


@pytest.mark.parametrize("how", [["--tools", "live"], ["--model", "recorded", "--from", "1"]])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_run_is_done_again_ends_it_and_leaves_nothing_behind(stage: Stage, how, number):
    run = stage.solve(stage.task(command("sleep 0"), acts.pop())).run
    kept = acts.records(stage.runs / run)
    slow = [
        replace(record, event=replace(record.event, parts=(replace(part, arguments={"command": "sleep 60"}),)))
        if isinstance(record.event, ModelReplied)
        and (part := record.event.parts[0]).arguments.get("command") == "sleep 0"
        else record
        for record in kept
    ]
    acts.rechain(stage.runs / run / "trace.jsonl", slow)
    before = stage.left_behind()
    process = stage.start("replay", run, *how)
    acts.eventually(lambda: list(stage.work.glob("replay-*/history.git/stackmem.json")))
    time.sleep(1)  # the command has started or is about to; either way it must end cleanly
    process.send_signal(number)
    assert process.wait(100) == 128 + number
    assert stage.left_behind() == before
