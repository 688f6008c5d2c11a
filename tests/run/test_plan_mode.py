"""Plan mode: nothing changes, an accepted plan becomes a request for each step, and all of it is recorded."""

import os

import pytest

from stackmem import replay
from stackmem.core.conversation.planning import MAX_STEPS, TEXT, steps_of
from stackmem.core.facts import CallRejected, FramePopped, NoticeGiven, ToolReturned
from stackmem.core.person_facts import PersonAccepted, PersonPlanned, PersonStopped, SessionRules, TurnEnded, WordsGiven
from stackmem.core.state import State
from stackmem.run.opened import Person
from stackmem.run.ports import UserChoice
from stackmem.run.resume import resume
from tests.run.people import Scripted, replayed, talk
from tests.stage import Stage, call, command, events, pop, push

PLAN = "Two steps.\n\n1. Write b.txt\n   with x\n2) Write c.txt\n"


class Planner(Scripted):
    """A user whose requests may be choices."""

    def request(self) -> str:
        if self._requests and not isinstance(self._requests[0], str):
            raise UserChoice(self._requests.pop(0))
        return super().request()


def write(path: str) -> dict:
    return call("write_file", path=path, content="x")


@pytest.mark.parametrize("policy", ["frame", "flat"])
def test_a_plan_is_made_without_changes_and_its_steps_become_requests(stage: Stage, policy: str):
    replies = [
        write("b.txt"), command("echo a"), call("read_file", path="a.txt"), {"text": PLAN},
        write("b.txt"), {"text": "Wrote b."}, write("c.txt"), {"text": "Wrote c."}, {"text": "Bye."},
    ]  # fmt: skip
    person = Planner("Plan it.", PersonAccepted(), "Thanks.")
    result = talk(stage, person, stage.script(*replies), SessionRules(policy, mode="plan"))
    assert [event.code for event in events(result.run_dir, CallRejected)] == ["plan_mode", "plan_mode"]
    assert TEXT in [event.text for event in events(result.run_dir, NoticeGiven)]
    first, second = events(result.run_dir, WordsGiven)
    assert first.text.startswith("Step 1 of 2 of the accepted plan: Write b.txt\n   with x\n\nDo only this step.")
    assert second.text.startswith("Step 2 of 2 of the accepted plan: Write c.txt\n\nDo only this step.")
    assert set(result.changed) == {"b.txt", "c.txt"}
    ended = events(result.run_dir, FramePopped if policy == "frame" else TurnEnded)
    assert [event.result for event in ended] == [PLAN.strip(), "Wrote b.", "Wrote c.", "Bye."]
    assert replayed(result) == len(replies)


def test_an_edited_plan_counts_and_a_rejected_one_is_made_again(stage: Stage):
    replies = [{"text": PLAN}, {"text": "1. Other"}, {"text": "Did mine."}]
    person = Planner(PersonPlanned(True), "Plan it.", "No, another.", PersonAccepted("Only do mine."))
    result = talk(stage, person, stage.script(*replies))
    (given,) = events(result.run_dir, WordsGiven)
    assert given.text == "Carry out the accepted plan:\n\nOnly do mine."
    assert replayed(result) == 3


def test_a_flat_conversation_reads_that_plan_mode_is_over(stage: Stage):
    person = Planner(PersonPlanned(True), "Plan it.", PersonPlanned(False), "Just do it.")
    result = talk(
        stage, person, stage.script({"text": PLAN}, write("b.txt"), {"text": "Did it."}), SessionRules("flat")
    )
    notices = [event.text for event in events(result.run_dir, NoticeGiven)]
    assert notices == [TEXT, "Plan mode is over: commands and changes are possible again."]
    assert result.changed == ("b.txt",)
    replayed(result)


def test_frames_may_look_but_not_verify(stage: Stage):
    replies = [push(verify="make"), push(), write("b.txt"), pop("Looked."), {"text": PLAN}]
    result = talk(stage, Planner("Plan it."), stage.script(*replies), SessionRules(mode="plan"))
    assert [event.code for event in events(result.run_dir, CallRejected)] == ["plan_mode", "plan_mode"]
    assert result.changed == ()
    replayed(result)


def test_a_stop_ends_the_steps_after_it(stage: Stage):
    looks = iter(range(1_000))
    person = Planner("Plan it.", PersonAccepted(), "Next.")

    def stop(_: int) -> PersonStopped | None:
        state = last[-1] if last else None
        wants = state is not None and state.session is not None and state.session.requests == 2 and not stopped
        if wants and state is not None and state.session is not None and state.session.working:
            stopped.append(next(looks))
            return PersonStopped()
        return None

    last: list[State] = []
    stopped: list[int] = []
    person._meanwhile = stop
    script = stage.script({"text": PLAN}, {"text": "Never."}, {"text": "Bye."})
    result = talk(stage, person, script, SessionRules(mode="plan"), observe=lambda _, state: last.append(state))
    assert len(stopped) == 1
    assert len(events(result.run_dir, WordsGiven)) == 1
    replayed(result)


class Killed(BaseException):
    pass


def test_a_kill_between_the_steps_loses_none(stage: Stage):
    def kill(event: object, state: State) -> None:
        if isinstance(event, FramePopped) and event.result == "Wrote b.":
            raise Killed

    replies = [{"text": PLAN}, write("b.txt"), {"text": "Wrote b."}, write("c.txt"), {"text": "Wrote c."}]
    person = Planner("Plan it.", PersonAccepted())
    with pytest.raises(Killed):
        talk(stage, person, stage.script(*replies), SessionRules(mode="plan"), observe=kill)
    (run_dir,) = [path for path in stage.runs.iterdir() if path.is_dir()]
    result = resume(run_dir, {}, os.environ, person=Person(port=Planner())).result
    assert set(result.changed) == {"b.txt", "c.txt"}
    replay(run_dir)


def test_headless_the_plan_is_printed_and_accepted_later(stage: Stage):
    mine = stage.root / "mine"
    mine.mkdir()
    script = stage.script({"text": PLAN}, write("b.txt"), {"text": "Wrote b."}, write("c.txt"), {"text": "Wrote c."})
    done = stage.run("chat", mine, "--model", script, "--network", "none", "--mode", "plan", "-p", "Plan it.")
    assert done.returncode == 0, done.stderr
    assert "1. Write b.txt" in done.stdout
    again = stage.run("chat", mine, "--continue", "-p", "/accept")
    assert again.returncode == 0, again.stderr
    assert again.stdout == "Wrote c.\n"
    assert len(events(stage.only_run(), ToolReturned)) == 2
    wrong = stage.run("chat", mine, "--continue", "--mode", "plan", "-p", "x")
    assert wrong.returncode == 2
    assert "--mode is for a new conversation; use /plan" in wrong.stderr
    unknown = stage.run("chat", mine, "--mode", "plans", "-p", "x")
    assert "--mode must be one of work, plan, not 'plans'" in unknown.stderr


@pytest.mark.parametrize(
    ("plan", "count"),
    [
        ("", 1),
        ("No numbers.", 1),
        ("1. One", 1),
        ("1. a\n2. b\n", 2),
        ("1.\n2. b\n3. c", 2),
        ("1. a\n   1. b\n2. c", 2),
        ("1.5 is a number", 1),
    ],
)
def test_the_steps_of_a_plan(plan: str, count: int):
    assert len(steps_of(plan)) == count


def test_a_plan_has_at_most_so_many_steps():
    steps = steps_of("\n".join(f"{number}. do {number}" for number in range(1, 99)))
    assert len(steps) == MAX_STEPS
    assert (
        "do 98" in steps_of("1. a\n" * 19 + "\n".join(f"{number}. do {number}" for number in range(20, 99)))[-1][:2_000]
    )
