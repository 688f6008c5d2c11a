"""The interface between programs and the machine, in memory: a program's events and their replay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from stackmem.core.budgets import Budgets, Limits
from stackmem.core.errors import RulesDiffer
from stackmem.core.facts import Event, ModelFailed, ModelReplied, RunEnded, RunResumed, RunStarted
from stackmem.core.machine import evolve
from stackmem.core.messages import Text
from stackmem.core.program_facts import (
    ProgramHalted,
    ProgramStarted,
    Said,
    SourceLoaded,
    ToolAnswered,
    UserAnswered,
    Waited,
)
from stackmem.core.requests import AskModel, AskUser, Effect, InvokeTool, LoadSource, Parallel, Wait
from stackmem.core.state import State
from stackmem.languages.program import ProgramDecider
from stackmem.languages.running.opening import launch_of
from stackmem.memory import open_strategy
from stackmem.trace.record import Record
from stackmem.trace.verify import verify
from tests.build import SPENT, call, started
from tests.languages import tiny


@pytest.fixture(autouse=True)
def language() -> Iterator[None]:
    tiny.install()
    yield
    tiny.remove()


class Played:
    """Plays a program in memory: texts answer the model, and a table answers the tools."""

    def __init__(self, text: str, replies: tuple[Any, ...] = (), **more: Any) -> None:
        self.replies = list(replies)
        self.tools: dict[str, ToolAnswered] = more.pop("tools", {})
        self.user: list[str] = more.pop("user", [])
        self.asked: list[AskModel] = []
        self.events: list[Event] = []
        self.text = text
        self.begun = ProgramStarted("tiny", "/p/main.tiny", "d", more.pop("inputs", {}), "/p")
        self.start = started(budgets=Budgets(heap_chars=100_000), **more)
        strategy = open_strategy("stackheap")
        launch = launch_of(self.begun, self.start, text)
        self.program = ProgramDecider(self.begun, lambda: tiny.start(launch), strategy, open_strategy, self.text_of)
        self.state = State()
        for event in (self.start, self.begun):
            self.add(event)

    def text_of(self, digest: str) -> str:
        return self.text if digest == "d" else f"text of {digest}"

    def add(self, event: Event) -> None:
        self.events.append(event)
        self.state = evolve(self.state, event)
        self.program.note(event, self.state)

    def play(self) -> Played:
        for _ in range(10_000):
            upcoming = self.program.decide(self.state)
            if upcoming is None:
                return self
            if isinstance(upcoming, Parallel):
                for branch, effect in upcoming.branches:
                    self.add(self.answer(branch, effect))
            elif isinstance(upcoming, Effect):
                self.add(self.answer(None, upcoming))
            else:
                self.add(upcoming)
        raise AssertionError("it never ends")

    def answer(self, branch: int | None, effect: Any) -> Event:
        match effect:
            case AskModel():
                return self.replied(branch, effect)
            case InvokeTool():
                found = self.tools.get(effect.tool, ToolAnswered({"ran": effect.arguments}))
                return replace(found, branch=branch or 0)
            case LoadSource():
                return SourceLoaded(effect.path, "abc", 5, branch=branch or 0)
            case Wait():
                return Waited(effect.seconds)
            case AskUser():
                return UserAnswered(self.user.pop(0)) if self.user else RunEnded("input_needed", effect.question)
        raise AssertionError(effect)

    def replied(self, branch: int | None, asked: AskModel) -> Event:
        self.asked.append(asked)
        said = self.replies.pop(0)
        more = {} if branch is None else {"branch": branch}
        if isinstance(said, ModelFailed):
            return replace(said, prompt_digest=asked.view.digest, **more)
        part = Text(said) if isinstance(said, str) else replace(said, id=f"call-{len(self.asked)}")
        stop = "end" if isinstance(said, str) else "call"
        return ModelReplied((part,), stop, SPENT, prompt_digest=asked.view.digest, **more)

    def replay(self) -> Any:
        records = [Record(number, 0.0, event) for number, event in enumerate(self.events, 1)]
        return verify(records, self.text_of)

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


def test_a_program_ends_with_its_value_and_every_fact_follows_from_it_again() -> None:
    played = Played("say hello $who\nrepeat 3", inputs={"who": "bob"}).play()
    assert played.program.value == 3
    assert played.state.outcome == "finished"
    assert [event.text for event in played.events if isinstance(event, Said)] == ["hello bob"]
    assert played.replay().events == len(played.events)


@pytest.mark.parametrize("at", range(3, 9))
def test_a_fact_that_does_not_follow_is_found_in_replay(at: int) -> None:
    played = Played("say one\nshell ls\nsay two").play()
    played.events[at - 1] = Said("something else")
    with pytest.raises(RulesDiffer, match=f"record {at}:"):
        played.replay()


def test_completions_count_as_steps_and_their_prompts_are_compared() -> None:
    played = Played("ask what?\nask $it again?", ("first", "second")).play()
    assert (played.program.value, played.state.step, played.state.usage.output) == ("second", 2, 40)
    assert played.replay().prompts == 2
    assert "first again?" in str(played.asked[1].view.messages)


def test_a_reply_that_does_not_fit_its_schema_is_asked_for_again_three_times() -> None:
    good = Played("ask_json a number", ("no json", '{"n": "x"}', '```json\n{"n": 4}\n```')).play()
    assert good.program.value == {"n": 4}
    assert "$.n must be of type integer" in str(good.asked[2].view.messages)
    bad = Played("ask_json a number", ("a", "b", "c", "d")).play()
    assert bad.state.outcome == "halted"
    assert "misfit" in bad.state.end.result if bad.state.end else False
    assert good.replay().prompts == 3


def test_a_frame_of_the_agent_has_its_task_whole_and_its_result_must_fit() -> None:
    replies = (
        "no call at all",
        call("pop_frame", result="not json"),
        call("pop_frame", result='{"n": 7}'),
    )
    played = Played("frame Count the files.", replies).play()
    assert played.program.value == {"n": 7}
    prompt = str(played.asked[0].view.messages)
    assert "Count the files." in prompt
    assert "- be quick" in prompt
    assert ".stackmem/in/frame-1/long" in prompt
    writes = [event for event in played.events if isinstance(event, ToolAnswered)]
    assert len(writes) == 1
    assert played.state.popped[0].frame.name == "work"
    played.replay()


def test_a_frame_whose_third_result_does_not_fit_has_failed() -> None:
    played = Played("tolerate frame Count.", tuple(call("pop_frame", result="x") for _ in range(3))).play()
    assert played.program.value == ["misfit", "3 results did not fit what is asked for"]
    played.replay()


def test_a_frame_that_makes_no_call_fails_and_the_program_goes_on() -> None:
    played = Played("tolerate frame Count.\nsay after", ("a", "b", "c")).play()
    assert played.state.outcome == "finished"
    assert "Said" in played.kinds()
    played.replay()


def test_the_agents_own_pushes_count_from_the_programs_frame() -> None:
    pushes = tuple(
        call("push_frame", name=f"n{i}", objective="Do.", context="None.", return_spec="All.") for i in range(6)
    )
    pops = tuple(call("pop_frame", result='{"n": 1}') for _ in range(6))
    played = Played("enter outer why\nframe Work.\nleave done", (*pushes, *pops)).play()
    assert max(asked.depth for asked in played.asked) == 7
    refused = [event for event in played.events if type(event).__name__ == "CallRejected"]
    assert len(refused) == 1
    assert played.state.outcome == "finished"
    played.replay()


def test_answers_of_a_group_are_delivered_in_the_order_asked() -> None:
    played = Played("both shell a & ask b & load c & frame Count.", ("B", call("pop_frame", result='{"n": 1}')))

    while True:
        upcoming = played.program.decide(played.state)
        if upcoming is None:
            break
        if isinstance(upcoming, Parallel):
            for branch, effect in reversed(upcoming.branches):
                played.add(played.answer(branch, effect))
        elif isinstance(upcoming, Effect):
            played.add(played.answer(None, upcoming))
        else:
            played.add(upcoming)
    assert played.program.value == [{"ran": {"command": "a"}}, "B", "text of abc", {"n": 1}]
    played.replay()


def test_a_halt_keeps_its_report_and_a_resumed_run_asks_the_last_question_again() -> None:
    failing = ToolAnswered(None, "error", "broken")
    played = Played("say one\nenter a b\nuse flaky\nleave x\nsay two", tools={"flaky": failing}).play()
    assert played.state.outcome == "halted"
    halted = next(event for event in played.events if isinstance(event, ProgramHalted))
    assert (halted.kind, halted.path) == ("Failed", "line 3")
    played.tools["flaky"] = ToolAnswered("fine")
    played.add(RunResumed(Limits(), "bubblewrap", "0"))
    played.play()
    assert played.state.outcome == "finished"
    assert [event.text for event in played.events if isinstance(event, Said)] == ["one", "two"]
    played.replay()


def test_a_halt_inside_a_frame_that_opened_since_is_taken_back_with_the_frame() -> None:
    played = Played("use a\nenter f g\nhalt here").play()
    assert len(played.state.stack) == 2
    played.add(RunResumed(Limits(), "bubblewrap", "0"))
    assert played.program.decide(played.state) is not None
    played.play()
    assert played.state.outcome == "halted"
    played.replay()


def test_a_question_that_nobody_answers_ends_the_run_and_the_answer_goes_on() -> None:
    played = Played("user Who?\nsay hi $it").play()
    assert played.state.outcome == "input_needed"
    played.user = ["Ann"]
    played.add(RunResumed(Limits(), "bubblewrap", "0"))
    played.play()
    assert played.state.outcome == "finished"
    assert "hi Ann" in [event.text for event in played.events if isinstance(event, Said)]
    played.replay()


def test_chunks_are_kept_under_names_that_can_be_and_two_never_become_one() -> None:
    played = Played("keep my§plan do it\nchunk my§plan\nkeep my¤plan other\nchunks\ndrop my§plan\nchunk my§plan").play()
    assert "unknown chunk" in played.program.value
    sizes = [event for event in played.events if type(event).__name__ == "ChunkKept"]
    assert [event.name for event in sizes] == ["my_plan"]  # type: ignore[union-attr]
    played.replay()


def test_a_failing_provider_is_asked_again_and_then_ends_the_run_resumable() -> None:
    passing = ModelFailed("overloaded", "busy")
    played = Played("ask a", (passing, passing, "done")).play()
    assert played.program.value == "done"
    assert [asked.attempt for asked in played.asked] == [1, 2, 3]
    ended = Played("ask a", (ModelFailed("authentication", "no key"),)).play()
    assert ended.state.outcome == "model_error"
    ended.replies = ["yes"]
    ended.add(RunResumed(Limits(), "bubblewrap", "0"))
    assert ended.play().program.value == "yes"
    ended.replay()


def test_a_round_whose_completions_all_fail_for_good_ends_the_run_once_all_of_it_has_come() -> None:
    hopeless = ModelFailed("authentication", "no key")
    ended = Played("both ask a & ask b & ask c", (hopeless, hopeless, "C")).play()
    assert ended.state.outcome == "model_error"
    assert ended.kinds().count("ModelFailed") == 2
    ended.replay()
    ended.replies = ["A", "B"]
    ended.add(RunResumed(Limits(), "bubblewrap", "0"))
    assert ended.play().program.value == ["A", "B", "C"]
    ended.replay()


def test_the_limit_of_steps_holds_for_completions_in_a_group() -> None:
    played = Played("both ask a & ask b & ask c", ("1", "2", "3"), limits=Limits(steps=2)).play()
    assert (played.state.outcome, played.state.step) == ("limit:steps", 2)
    played.replay()


def test_more_than_fifty_frames_of_a_program_halt_it() -> None:
    played = Played("\n".join(f"enter f{i} x" for i in range(60))).play()
    assert played.state.outcome == "halted"
    assert len(played.state.stack) == 51
    played.replay()


def test_frames_that_a_program_left_open_are_closed_at_its_end() -> None:
    played = Played("enter a b\nenter c d").play()
    assert played.state.outcome == "finished"
    assert not played.state.stack


def test_unknown_inputs_are_refused_before_anything_happens() -> None:
    with pytest.raises(Exception, match="no input"):
        Played("say x", inputs={"other": 1})


def test_the_start_of_a_run_without_own_tools_is_written_as_before() -> None:
    assert b"own_tools" not in __import__("msgspec").json.encode(started())
    assert isinstance(started(), RunStarted)
