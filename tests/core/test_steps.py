"""One tool call per step: replies without a call, with several or with wrong ones; and failures of the provider."""

import pytest
from msgspec.structs import replace

from stackmem.core.facts import CallRejected, ModelFailed, ReplyNudged, RunEnded
from stackmem.core.messages import ToolCall, ToolResult
from stackmem.core.requests import AskModel, UseTool
from stackmem.core.text import fill
from stackmem.core.tool_schemas import parse, spec
from stackmem.core.tools import PushFrame, ReadFile
from stackmem.memory import open_strategy
from tests.build import (
    World,
    alloc,
    call,
    do,
    failed,
    play,
    pop,
    push,
    reply,
    shown_text,
    slots,
    slots_of,
    started,
    stored,
)  # fmt: skip

SAYS_NOTHING = [reply(stop="end"), reply("", stop="end"), reply(" \n", stop="end")]


def rejected(played):
    (event,) = played.of(CallRejected)
    return event


def test_one_reply_is_one_step():
    played = play(do("list_files"), reply("hm"), pop())
    assert [asked.step for asked in played.asked] == [1, 2, 3]
    assert played.state.step == 3


def test_no_call_is_nudged_and_three_in_a_row_end_the_run_as_stalled_with_what_was_achieved():
    played = play(push(name="part"), pop("The part is done."), reply("a"), reply("b"), reply("my last words"))
    assert [nudge.code for nudge in played.of(ReplyNudged)] == ["no_call"] * 3
    (end,) = played.of(RunEnded)
    assert end.ending == "stalled"
    assert "The part is done." in end.result
    assert "my last words" in end.result
    assert played.state.outcome == "stalled"


@pytest.mark.parametrize(
    "between",
    [do("list_files"), push(), alloc("a"), do("nonsense"), do("heap_free", name="gone"), reply(call("x"), call("y"))],
)
def test_only_three_in_a_row_are_a_stall(between):
    played = play(reply("a"), reply("b"), between, reply("c"), reply("d"))
    assert played.state.end is None


def test_a_pop_resets_the_nudge_count():
    assert play(push(), reply("a"), reply("b"), pop(), reply("c")).state.end is None


@pytest.mark.parametrize("nothing", SAYS_NOTHING)
def test_an_empty_reply_is_recorded_sent_back_to_the_model_and_limited(nothing):
    played = play(nothing, nothing)
    assert [nudge.code for nudge in played.of(ReplyNudged)] == ["empty"] * 2
    assert "Your reply was empty" in shown_text(played.view)
    assert play(nothing, nothing, nothing).state.end.ending == "stalled"


@pytest.mark.parametrize(("stop", "word"), [("truncated", "output limit"), ("refused", "provider refused")])
@pytest.mark.parametrize("parts", [(), ("some text",), (call("write_file", path="a", content="b"),)])
def test_a_truncated_reply_is_recorded_sent_back_to_the_model_and_limited(stop, word, parts):
    world = World()
    cut = reply(*parts, stop=stop)
    played = play(cut, cut, world=world)
    assert [event.code for event in played.of(ReplyNudged, CallRejected)] == [stop] * 2
    assert word in shown_text(played.view)
    assert world.files == {}, "a call in such a reply is never executed"
    assert play(cut, cut, cut).state.end.ending == "stalled"


def test_several_calls_are_none_executed_and_each_is_answered_with_the_reason():
    played = play(reply(call("push_frame"), call("push_frame"), call("write_file", path="a", content="b")))
    answers = [part for part in played.view.messages[-1].parts if isinstance(part, ToolResult)]
    assert [answer.call_id for answer in answers] == ["call_0_0", "call_0_1", "call_0_2"]
    assert all("this reply had 3" in answer.text and answer.failed for answer in answers)
    assert len(played.state.stack) == 1
    assert not [effect for effect in played.effects if isinstance(effect, UseTool)]


SEVERAL = reply(call("list_files"), call("write_file", path="a", content="b"), call("pop_frame", result="x"))


def results(played):
    return [part.text for part in played.view.messages[-1].parts if isinstance(part, ToolResult)]


@pytest.mark.parametrize("strategy", ["stackheap", "stackheap_fork", "full", "summary"])
def test_from_the_second_reply_in_a_row_with_several_calls_on_the_first_call_is_performed(strategy):
    start = replace(started(strategy), several_calls="first")
    played = play(SEVERAL, SEVERAL, SEVERAL, do("list_files"), SEVERAL, start=start)
    assert [type(one.call).__name__ for one in played.effects if isinstance(one, UseTool)] == ["ListFiles"] * 3
    assert len(played.of(CallRejected)) == 2  # the first reply, and the first one after a reply with one call
    third = play(SEVERAL, SEVERAL, SEVERAL, start=start)
    assert results(third)[1:] == ["not performed: one call per reply"] * 2
    messages = third.view.messages
    assert {part.call_id for part in messages[-1].parts if isinstance(part, ToolResult)} == {
        part.id for part in messages[-2].parts if isinstance(part, ToolCall)
    }


@pytest.mark.parametrize("strategy", ["stackheap", "stackheap_fork"])
def test_a_push_before_other_calls_is_performed_and_every_call_is_answered_once(strategy):
    pushes = reply(call("push_frame", name="a", objective="o", context="c", return_spec="r"), call("list_files"))
    start = replace(started(strategy), several_calls="first")
    played = play(pushes, pushes, pop("done"), start=start)
    asked = [part.id for message in played.view.messages for part in message.parts if isinstance(part, ToolCall)]
    answers = [part for message in played.view.messages for part in message.parts if isinstance(part, ToolResult)]
    assert sorted(asked) == sorted(answer.call_id for answer in answers)
    assert [answer.text.splitlines()[0] for answer in answers[-2:]] == [
        "not performed: one call per reply", "frame 'a' returned:",
    ]  # fmt: skip
    child = play(pushes, pushes, start=start)
    assert child.state.running.name == "a"
    if strategy == "stackheap_fork":
        assert results(child)[0] == "not performed: one call per reply"


def test_a_first_call_that_is_refused_leaves_the_others_unperformed():
    wrong = reply(call("read_file"), call("list_files"))
    played = play(wrong, wrong, start=replace(started(), several_calls="first"))
    assert [event.code for event in played.of(CallRejected)] == ["several_calls", "bad_arguments"]
    assert results(played)[1] == "not performed: one call per reply"


def test_a_run_that_was_recorded_without_it_refuses_every_such_reply():
    played = play(SEVERAL, SEVERAL, SEVERAL)
    assert [event.code for event in played.of(CallRejected)] == ["several_calls"] * 3


@pytest.mark.parametrize("arguments", [None, [], "text", 7, True, 1.5, [{"path": "a"}]])
def test_arguments_that_are_not_an_object_are_refused_with_the_accepted_form(arguments):
    played = play(reply(ToolCall("id", "read_file", arguments)))
    assert "must be one JSON object with path (a string)" in rejected(played).reason


def test_malformed_arguments_are_refused_with_the_accepted_form():
    played = play(reply(ToolCall("id", "heap_alloc", None, '{"name": "a')))
    assert "must be one JSON object with name (a string), content (a string)" in rejected(played).reason
    assert played.state.heap.chunks == {}


@pytest.mark.parametrize("name", ["", "read", "READ_FILE", "x" * 100_000, "heap_alloc; rm"])
def test_an_unknown_tool_is_refused_with_those_there_are(name):
    reason = rejected(play(reply(ToolCall("id", name, {})))).reason
    assert "the tools are read_file, write_file" in reason
    assert len(reason) < 500


@pytest.mark.parametrize(
    ("tool", "arguments", "fault"),
    [
        ("read_file", {}, "path is missing"),
        ("read_file", {"path": None}, "path is missing"),
        ("read_file", {"path": 1}, "path must be a string, is a number"),
        ("read_file", {"path": "a", "start_line": "1"}, "start_line must be an integer, is a string"),
        ("read_file", {"path": "a", "start_line": 1.0}, "start_line must be an integer, is a number"),
        ("read_file", {"path": "a", "end_line": True}, "end_line must be an integer, is a boolean"),
        ("read_file", {"path": "a", "lines": 3}, "lines is not a parameter"),
        ("write_file", {"path": "a"}, "content is missing"),
        ("run_command", {"command": ["ls"]}, "command must be a string, is a list"),
        ("heap_alloc", {"content": "x"}, "name is missing"),
        ("heap_alloc", {"name": {"a": 1}, "content": "x"}, "name must be a string, is an object"),
        ("pop_frame", {"result": "r", "store": "x"}, "store must be a list of"),
        ("pop_frame", {"result": "r", "store": [1]}, "store[0] must be an object, is a number"),
        ("pop_frame", {"result": "r", "store": [None]}, "store[0] must be an object, is null"),
        ("pop_frame", {"result": "r", "store": [stored("a"), {"name": "b"}]}, "store[1].content is missing"),
        ("pop_frame", {"result": "r", "store": [stored("a", x=1)]}, "store[0].x is not a parameter"),
    ],
)
def test_a_wrong_parameter_is_named_with_the_accepted_form(tool, arguments, fault):
    played = play(do(tool, **arguments))
    assert fault in rejected(played).reason
    assert "Accepted: " in rejected(played).reason
    assert played.state.heap.chunks == {}
    assert played.state.end is None


def test_all_wrong_parameters_of_a_call_are_named_at_once():
    reason = rejected(play(do("read_file", start_line="x", other=1))).reason
    assert all(fault in reason for fault in ("path is missing", "start_line must be", "other is not a parameter"))


def test_null_means_an_omitted_parameter():
    played = play(do("read_file", path="a", start_line=None), push(constraint=None, verify=None, store=None))
    assert not played.of(CallRejected)


def test_a_refusal_never_fills_the_window_itself():
    played = play(do("read_file", **{f"parameter-{number}": 1 for number in range(50_000)}))
    assert len(rejected(played).reason) <= 8_000


def test_a_write_larger_than_what_is_shown_is_refused_with_size_and_maximum():
    content = "ü" * 16_385
    played = play(do("write_file", path="a", content=content), start=started())
    assert "32,770 bytes, maximum is 32,768" in rejected(played).reason
    assert not play(do("write_file", path="a", content=content[1:])).of(CallRejected)


def test_tool_results_are_clipped_to_32_kib_or_an_eighth_of_the_window():
    for window, most in ((200_000, 32_768), (8_000, 2_500)):
        played = play(do("list_files"), start=started(window_tokens=window))
        assert [effect.shown_bytes for effect in played.effects if isinstance(effect, UseTool)] == [most]


def test_the_defaults_of_a_call_are_the_tools_own():
    tools = open_strategy("stackheap").tools
    assert parse(ToolCall("", "read_file", {"path": "a"}), tools) == ReadFile("a")
    pushed = parse(
        ToolCall("", "push_frame", dict.fromkeys(("name", "objective", "context", "return_spec"), "x")), tools
    )
    assert pushed == PushFrame("x", "x", "x", "x", "", "", ())


def test_the_full_strategy_ends_the_run_with_pop_frame_and_refuses_every_tool_it_does_not_offer():
    start = started("full")
    assert play(pop("All done."), start=start).state.outcome == "finished"
    for tool in ("push_frame", "heap_alloc", "heap_read", "heap_write", "heap_free"):
        assert rejected(play(do(tool, name="a"), start=start)).code == "unknown_tool"
    assert "store is not a parameter" in rejected(play(pop(store=[stored("a")]), start=start)).reason


def test_every_number_in_a_tools_description_comes_from_the_budgets():
    tools = open_strategy("stackheap").tools
    for budgets in (slots(started().budgets), dict.fromkeys(slots(started().budgets), "7,777")):
        for tool in tools:
            shown = spec(tool, budgets)
            assert slots_of(shown.description + shown.schema) == set()
    pushes = spec(PushFrame, dict.fromkeys(slots(started().budgets), "7,777"))
    assert "200" not in pushes.description + pushes.schema


def test_a_tool_has_the_same_bytes_whenever_it_is_spelled():
    filled = slots(started().budgets)
    assert spec(PushFrame, filled) == spec(PushFrame, dict(reversed(filled.items())))


def test_an_unfilled_slot_is_an_error():
    with pytest.raises(KeyError):
        fill("{{a}} and {{ b }}", {"a": "1"})


@pytest.mark.parametrize("kind", ["rate_limited", "overloaded", "server_error", "timeout", "connection", "incomplete"])
def test_a_passing_failure_is_asked_again_with_a_doubling_wait_and_the_same_bytes(kind):
    played = play(do("list_files"), *[failed(kind)] * 5, pop())
    again = played.asked[1:7]
    assert [asked.attempt for asked in again] == [1, 2, 3, 4, 5, 6]
    assert [asked.wait_seconds for asked in again] == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0]
    assert len({asked.view.digest for asked in again}) == 1
    assert played.state.outcome == "finished"


def test_six_failures_end_the_run_resumable_with_what_was_achieved():
    played = play(push(), pop("The part."), *[failed()] * 6)
    (end,) = played.of(RunEnded)
    assert end.ending == "model_error"
    assert "The part." in end.result


@pytest.mark.parametrize("kind", ["spend_limit", "authentication", "rejected", "script"])
def test_a_hopeless_failure_ends_the_run_at_once(kind):
    played = play(failed(kind))
    assert played.state.end.ending == "model_error"
    assert len(played.asked) == 1


@pytest.mark.parametrize(
    ("asked", "waited"), [(7.5, 7.5), (0.1, 1.0), (1e9, 60.0), (float("inf"), 60.0), (float("nan"), 1.0), (-5.0, 1.0)]
)
def test_the_wait_is_what_the_provider_asks_between_ours_and_a_minute(asked, waited):
    assert play(failed("rate_limited", asked)).asked[-1].wait_seconds == waited


def test_a_reply_resets_the_failure_count():
    played = play(failed(), failed(), do("list_files"), *[failed()] * 5)
    assert isinstance(played.upcoming, AskModel)
    assert played.asked[-1].attempt == 6


def test_the_number_of_model_facts_counts_replies_and_failures():
    played = play(failed(), do("list_files"), failed())
    assert [asked.facts for asked in played.asked] == [0, 1, 2, 3]
    assert played.of(ModelFailed)


def test_a_prompt_too_long_for_the_model_pops_the_frame_and_the_run_continues():
    played = play(push(name="big"), reply("so far so good", call("list_files")), failed("window"))
    assert "forced: window" in played.answer
    assert "so far so good" in played.answer
    assert played.state.running.id == "frame-0"
    assert played.asked[-1].attempt == 1
