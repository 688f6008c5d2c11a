"""Builds a trace from the traffic, in trace order regardless of the order of arrival."""

from typing import Any

import pytest

from stackmem.core.facts import FramePopped, FramePushed, ModelFailed, ModelReplied, NoticeGiven, RunEnded, ToolReturned
from stackmem.core.machine import fold
from stackmem.core.messages import Part, Text, ToolCall, ToolResult, ToolSpec, Usage
from stackmem.doors.gateway.exchanges import AnswerPassed, Passed, RequestPassed, RunClosed, ToldMessage
from stackmem.doors.gateway.telling import COMPACTED, EDITED, Telling


class Tape:
    """Traffic assembled as the gateway does it."""

    def __init__(self) -> None:
        self.passed: list[Passed] = []
        self.count = 0

    def ask(self, *told: Part, conversation: int = 1, **more: Any) -> int:
        self.count += 1
        given = {"kind": "turn", "wire": "w", "model": "claude-sonnet-5-5", **more}
        sizes = {"body_sha256": "", "body_bytes": 0, "sent_sha256": "", "sent_bytes": 0}
        message = ToldMessage("user", told)
        self.passed.append(
            RequestPassed(float(self.count), self.count, conversation, new_messages=(message,), **given, **sizes)
        )
        return self.count

    def answer(self, number: int, *parts: Any) -> None:
        reply = parts[0] if isinstance(parts[0], ModelFailed) else ModelReplied(parts, "end", Usage(10, output=1))
        self.passed.append(AnswerPassed(float(self.count), number, 200, reply))

    def turn(self, *told: Part, reply: tuple[Any, ...], **more: Any) -> None:
        self.answer(self.ask(*told, **more), *reply)

    def events(self) -> list[Any]:
        telling = Telling("gateway test")
        return [fact.event for one in [*self.passed, RunClosed(99.0)] for fact in telling.take(one)]


def names(events: list[Any]) -> list[str]:
    return [type(event).__name__ for event in events]


def task(number: int) -> ToolCall:
    return ToolCall(f"c{number}", "task", {"prompt": f"Part {number}."})


def test_sub_agents_that_ran_at_once_are_frames_one_after_the_other():
    tape = Tape()
    tape.turn(Text("Do both."), reply=(task(1), task(2)), kind="new")
    one = tape.ask(Text("Part 1."), conversation=2, kind="child", parent=1, call_id="c1")
    two = tape.ask(Text("Part 2."), conversation=3, kind="child", parent=1, call_id="c2")
    tape.answer(two, Text("Second."))
    tape.answer(one, ToolCall("x", "run", {}))
    tape.turn(ToolResult("x", "out"), reply=(Text("First."),), conversation=2)
    tape.turn(ToolResult("c2", "Second."), ToolResult("c1", "First."), reply=(Text("Both done."),))
    events = tape.events()
    frames = [event for event in events if isinstance(event, FramePushed | FramePopped)]
    told = [one.intent if isinstance(one, FramePushed) else one.result for one in frames]
    assert told == ["Part 1.", "First.", "Part 2.", "Second.", "Both done."]
    state = fold(events)
    assert (state.step, state.pushes, state.usage.prompt, state.outcome) == (6, 2, 50, "finished")


def test_a_failure_precedes_the_next_reply_and_no_record_is_repeated():
    tape = Tape()
    tape.turn(Text("Go."), reply=(ToolCall("c1", "run", {}),), kind="new")
    tape.turn(ToolResult("c1", "out"), reply=(ModelFailed("overloaded", "HTTP 529"),))
    tape.turn(ToolResult("c1", "out"), reply=(Text("Done."),), retry=True)
    assert names(tape.events()) == ["RunStarted", "ModelReplied", "ToolReturned", "ModelFailed", "ModelReplied",
                                    "FramePopped", "RunEnded"]  # fmt: skip


def test_an_edit_and_a_compaction_are_notices_in_the_same_run():
    tape = Tape()
    tape.turn(Text("Go."), reply=(Text("One."),), kind="new")
    tape.turn(Text("No."), reply=(Text("Two."),), kind="edit")
    tape.turn(Text("The summary."), reply=(Text("Three."),), kind="compacted")
    notices = [event.text for event in tape.events() if isinstance(event, NoticeGiven)]
    assert notices == [EDITED, "No.", COMPACTED, "The summary."]


def shape(events: list[Any]) -> list[str]:
    """Return the frames and replies of a trace, one word each."""
    words: list[str] = []
    for event in events:
        match event:
            case FramePushed():
                words.append(f"({event.intent}")
            case FramePopped():
                words.append(f"{event.result})")
            case ModelReplied():
                words.append(" ".join(part.text for part in event.parts if isinstance(part, Text)) or "call")
    return words


def test_an_agent_in_the_background_keeps_its_steps_and_cost():
    tape = Tape()
    tape.turn(Text("Go."), reply=(task(1),), kind="new")
    tape.turn(Text("Part 1."), reply=(ToolCall("x", "run", {}),), conversation=2, kind="child", parent=1, call_id="c1")
    tape.turn(ToolResult("c1", "It runs beside."), reply=(Text("I wait."),))
    tape.turn(ToolResult("x", "out"), reply=(Text("Late."),), conversation=2)
    tape.turn(Text("And?"), reply=(Text("Done."),))
    events = tape.events()
    assert shape(events) == ["call", "I wait.", "call", "(Part 1.", "call", "Late.", "Late.)", "Done.", "Done.)"]
    assert [event.text for event in events if isinstance(event, ToolReturned)] == ["It runs beside.", "out"]
    assert [event.text for event in events if isinstance(event, NoticeGiven)] == ["And?"]
    assert fold(events).usage.prompt == 50


def test_an_agent_that_works_again_after_its_end_becomes_another_frame():
    tape = Tape()
    tape.turn(Text("Go."), reply=(task(1),), kind="new")
    tape.turn(Text("Part 1."), reply=(Text("One."),), conversation=2, kind="child", parent=1, call_id="c1")
    tape.turn(ToolResult("c1", "One."), reply=(ToolCall("c2", "send", {}),))
    tape.turn(Text("More."), reply=(Text("Two."),), conversation=2)
    tape.turn(ToolResult("c2", "sent"), reply=(Text("Done."),))
    events = tape.events()
    assert shape(events) == ["call", "(Part 1.", "One.", "One.)", "call", "call", "(Part 1.", "Two.", "Two.)", "Done.",
                             "Done.)"]  # fmt: skip
    assert fold(events).usage.prompt == 50


def test_an_agent_that_still_works_at_the_end_is_part_of_the_run():
    tape = Tape()
    tape.turn(Text("Go."), reply=(task(1), task(2)), kind="new")
    tape.turn(Text("Part 1."), reply=(ToolCall("x", "run", {}),), conversation=2, kind="child", parent=1, call_id="c1")
    tape.turn(ToolResult("c1", "It runs."), ToolResult("c2", "It runs."), reply=(Text("Done."),))
    tape.ask(ToolResult("x", "out"), conversation=2)
    tape.turn(Text("Part 2."), reply=(Text("Two."),), conversation=3, kind="child", parent=1, call_id="c2")
    events = tape.events()
    assert shape(events) == ["call", "Done.", "call", "(Part 2.", "Two.", "Two.)", "call", "(Part 1.", "call", ")",
                             "Done.)"]  # fmt: skip
    assert fold(events).usage.prompt == 40


def test_a_side_request_before_the_first_one_is_a_frame_of_the_same_run():
    tape = Tape()
    tape.turn(Text("Title of: Go."), reply=(Text("A title."),), conversation=1, kind="side", model="claude-haiku-4-5")
    tape.turn(Text("Go."), reply=(Text("Done."),), conversation=2, kind="new")
    events = tape.events()
    assert (events[0].task, events[0].model) == ("Go.", "claude-sonnet-5-5")
    assert shape(events) == ["call", "(Title of: Go.", "A title.", "A title.)", "Done.", "Done.)"]
    assert fold(events).outcome == "finished"


def test_a_run_of_side_requests_alone_has_a_trace():
    tape = Tape()
    tape.turn(Text("Title?"), reply=(Text("A title."),), kind="side")
    tape.turn(Text("Another?"), reply=(Text("Another."),), conversation=2, kind="side")
    assert shape(tape.events()) == ["A title.", "call", "(Another?", "Another.", "Another.)", "A title.)"]


def test_a_failed_request_of_a_sub_agent_is_part_of_its_frame():
    tape = Tape()
    tape.turn(Text("Go."), reply=(task(1),), kind="new")
    tape.turn(Text("Part 1."), reply=(ModelFailed("overloaded", "HTTP 529"),), conversation=2, kind="child", parent=1,
              call_id="c1")  # fmt: skip
    tape.turn(ToolResult("c1", "It failed.", failed=True), reply=(Text("Done."),))
    assert names(tape.events()) == ["RunStarted", "ModelReplied", "FramePushed", "ModelFailed", "FramePopped",
                                    "ModelReplied", "FramePopped", "RunEnded"]  # fmt: skip


def test_an_agent_in_the_background_whose_first_request_failed_and_was_repeated_is_one_frame():
    tape = Tape()
    tape.turn(Text("Go."), reply=(task(1),), kind="new")
    tape.turn(Text("Part 1."), reply=(ModelFailed("overloaded", "HTTP 529"),), conversation=2, kind="child", parent=1,
              call_id="c1")  # fmt: skip
    tape.turn(ToolResult("c1", "It runs."), reply=(Text("I wait."),))
    tape.turn(reply=(Text("One."),), conversation=2, retry=True)
    tape.turn(Text("And?"), reply=(Text("Done."),))
    assert shape(tape.events()) == ["call", "I wait.", "call", "(Part 1.", "One.", "One.)", "Done.", "Done.)"]


def test_calls_that_were_never_answered_end_the_run_as_interrupted():
    tape = Tape()
    tape.turn(Text("Go."), reply=(Text("I look."), ToolCall("c1", "run", {})), kind="new")
    events = tape.events()
    assert isinstance(events[-1], RunEnded)
    assert (events[-1].ending, events[-1].result) == ("interrupted", "I look.")
    assert not any(isinstance(event, ToolReturned) for event in events)


@pytest.mark.parametrize(
    "call",
    [ToolCall("c1", "bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}), ToolCall("c1", "submit", {})],
)
def test_an_agent_that_ends_with_a_call_has_finished(call):
    tape = Tape()
    tape.turn(Text("Go."), reply=(Text("All is done."), call), kind="new")
    events = tape.events()
    assert (events[-1].ending, events[-1].result) == ("popped", "All is done.")
    assert fold(events).outcome == "finished"


def test_a_reply_of_another_model_says_whose_it_is():
    tape = Tape()
    tape.turn(Text("Go."), reply=(Text("One."),), kind="new")
    tape.turn(Text("On."), reply=(Text("Two."),), model="claude-haiku-4-5")
    replies = [event for event in tape.events() if isinstance(event, ModelReplied)]
    assert replies[1].answerer.model == "claude-haiku-4-5"


def test_a_local_models_call_in_text_is_recorded_as_a_call():
    written = '{"name": "read_file", "arguments": {"path": "a"}}'
    tools = (ToolSpec("read_file", "", "{}"),)
    tape = Tape()
    tape.turn(Text("Read a."), reply=(Text(f"I read.\n{written}"),), kind="new", wire="openai-chat", tools=tools)
    tape.turn(ToolResult("call_0_0", "the text"), reply=(Text(f"It said: {written} and more."),), wire="openai-chat")
    events = tape.events()
    first, second = (event for event in events if isinstance(event, ModelReplied))
    assert first.parts == (Text("I read."), ToolCall("text_1", "read_file", {"path": "a"}))
    assert (first.stop, first.repairs) == ("call", ("read a call from the text, written as JSON",))
    assert [event.text for event in events if isinstance(event, ToolReturned)] == ["the text"]
    assert not any(isinstance(event, NoticeGiven) for event in events)
    assert second.parts == (Text(f"It said: {written} and more."),)


def test_a_wire_of_models_that_call_natively_is_not_searched():
    written = Text('{"name": "read_file", "arguments": {"path": "a"}}')
    tape = Tape()
    tape.turn(Text("Go."), reply=(written,), kind="new", wire="anthropic", tools=(ToolSpec("read_file", "", "{}"),))
    assert [event.parts for event in tape.events() if isinstance(event, ModelReplied)] == [(written,)]
