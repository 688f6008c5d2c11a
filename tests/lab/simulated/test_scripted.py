"""The scripted model: its answers to requests, and that it has no state."""

import pytest
from msgspec import json
from msgspec.structs import replace

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.log import Log
from stackmem.core.messages import Message, Text, ToolCall, ToolResult, ToolSpec, Usage, View
from stackmem.core.requests import AskModel
from stackmem.lab.simulated.script_language import PlannedCall, Script, ScriptedReply, parse_script
from stackmem.lab.simulated.scripted import ScriptedModel


def asked(facts=0, *, messages=(), system="You are.", **changes):
    view = View(system, (), messages if isinstance(messages, Log) else Log(messages))
    return AskModel(view=view, step=facts + 1, facts=facts, **changes)


def said(*parts):
    return Message("user", tuple(Text(part) for part in parts))


def model(text, *, memory_optional=False, **changes):
    head = "memory: optional\n" if memory_optional else ""
    return ScriptedModel(parse_script(f"{head}replies:\n{text}", "play.yaml"), **changes)


def answer(text, **changes):
    return model(text).reply(asked(**changes))


def test_the_number_of_facts_picks_the_reply():
    played = model("- text: first\n- text: second\n")
    assert [played.reply(asked(facts)).parts for facts in (1, 0, 1)] == [
        (Text("second"),), (Text("first"),), (Text("second"),)
    ]  # fmt: skip


def test_a_call_has_an_id_made_of_its_fact_and_place():
    reply = answer("- text: a\n- text: both\n  calls: [{call: read_file, args: {path: x}}, {call: y}]\n", facts=1)
    assert reply.parts == (
        Text("both"), ToolCall("call_1_0", "read_file", {"path": "x"}), ToolCall("call_1_1", "y", {})
    )  # fmt: skip
    assert reply.stop == "call"


def test_a_text_ends_its_reply():
    assert answer("- text: done\n").stop == "end"


def test_a_reply_may_be_empty():
    reply = answer("- text: ''\n")
    assert (reply.parts, reply.stop) == ((), "end")


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("429", "rate_limited"), ("529", "overloaded"), ("timeout", "timeout"), ("disconnect", "connection")],
)
def test_a_fault_of_the_provider_is_a_failure(fault, kind):
    failed = answer(f"- fault: {fault}\n")
    assert isinstance(failed, ModelFailed)
    assert (failed.kind, failed.retry_after_seconds) == (kind, None)


def test_a_rate_limit_says_how_long_to_wait():
    assert answer("- fault: 429\n  retry_after_seconds: 7\n").retry_after_seconds == 7.0


def test_malformed_arguments_are_kept_as_text():
    (call,) = answer("- fault: malformed\n  call: read_file\n  args: {path: a}\n").parts
    assert (call.name, call.arguments) == ("read_file", None)
    with pytest.raises(ValueError, match="truncated"):
        json.decode(call.malformed)


def test_two_calls_are_the_same_call_twice():
    reply = answer("- fault: two_calls\n  call: push_frame\n  args: {name: a}\n")
    assert [(call.id, call.name) for call in reply.parts] == [("call_0_0", "push_frame"), ("call_0_1", "push_frame")]


@pytest.mark.parametrize("fault", ["malformed", "two_calls"])
def test_a_fault_of_a_call_brings_one_along(fault):
    assert all(call.name == "list_files" for call in answer(f"- fault: {fault}\n").parts)


def test_a_reply_without_a_call_is_only_text():
    reply = answer("- fault: no_call\n")
    assert (len(reply.parts), reply.stop) == (1, "end")


def test_a_truncated_reply_may_end_within_a_call():
    reply = answer("- fault: truncated\n  text: So\n  call: write_file\n  args: {path: a}\n")
    assert reply.stop == "truncated"
    assert reply.parts == (Text("So"), ToolCall("call_0_0", "write_file", None, '{"path":"a"'))


def test_a_refusal_is_the_providers():
    reply = answer("- fault: refusal\n")
    assert (reply.parts, reply.stop, reply.detail) == ((), "refused", "the script says so")


def test_running_dry_is_a_failure_that_says_where():
    failed = model("- text: a\n").reply(asked(1, frame="implement", depth=1))
    assert isinstance(failed, ModelFailed)
    assert failed.kind == "script"
    assert failed.detail.startswith("the script play.yaml has no reply left: it has 1 reply, and this is request 2")
    assert "'implement' at depth 1" in failed.detail


EXPECTED = {
    "contains": ("contains: parse before dividing", "contains: the prompt has no 'parse before dividing'"),
    "absent": ("absent: secret", "absent: the prompt has 'secret'"),
    "depth": ("depth: 2", "depth: expected 2, is 1 in frame 'implement'"),
    "heap_has": ("heap_has: [spec, env]", "heap_has: no chunk 'env'; the heap has spec"),
    "frame": ("frame: root", "frame: expected 'root', is 'implement' at depth 1"),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_an_expectation_that_fails_names_its_line_and_what_is_there(name):
    expectation, told = EXPECTED[name]
    played = model(f"- text: a\n  expect: {{{expectation}}}\n")
    failed = played.reply(asked(messages=[said("the secret plan")], frame="implement", depth=1, chunks=("spec",)))
    assert isinstance(failed, ModelFailed)
    assert failed.kind == "script"
    assert failed.detail.startswith("play.yaml:2: reply 1: expected otherwise\n")
    assert told in failed.detail


def test_expectations_that_hold_change_nothing():
    conversation = [
        said("task"),
        Message("assistant", (ToolCall("1", "read_file", {"path": "spec.md"}),)),
        Message("user", (ToolResult("1", "the grammar"),)),
    ]
    expect = "{contains: [grammar, spec.md, You are], absent: nothing, depth: 1, frame: f, heap_has: a}"
    text = f"- text: go\n  expect: {expect}\n"
    reply = answer(text, messages=conversation, depth=1, frame="f", chunks=("a", "b"))
    assert isinstance(reply, ModelReplied)


def test_a_missing_text_is_shown_next_to_the_most_similar_line():
    failed = answer("- text: a\n  expect: {contains: 46 passed}\n", messages=[said("=====\n45 passed, 1 failed\n")])
    assert "- 46 passed\n" in failed.detail
    assert "+ 45 passed, 1 failed" in failed.detail


def test_an_expectation_is_met_before_a_fault_is_played():
    assert answer("- fault: 429\n  expect: {depth: 3}\n").kind == "script"


def test_every_failed_expectation_is_reported():
    failed = answer("- text: a\n  expect: {depth: 3, frame: x, heap_has: y}\n")
    assert [line.split(":")[0] for line in failed.detail.splitlines()[1:]] == ["depth", "frame", "heap_has"]


def test_latency_is_slept_on_the_given_clock():
    slept = []
    model("- text: a\n  latency_seconds: 1.5\n", sleep=slept.append).reply(asked())
    assert slept == [1.5]


def test_usage_is_estimated_at_two_and_a_half_characters_a_token():
    conversation = [said("x" * 60, "y" * 40)]
    usage = answer(f"- text: {'z' * 25}\n", messages=conversation, system="s" * 100).usage
    assert usage == Usage(uncached=80, output=10, estimated=True)


def test_usage_may_be_written():
    usage = answer(
        "- text: a\n  usage: {uncached: 1, cache_read: 2, cache_write_5m: 3, cache_write_1h: 4, output: 5}\n"
    ).usage
    assert usage == Usage(1, 2, 3, 4, 5)


def test_a_script_made_in_python_needs_no_file():
    played = ScriptedModel(Script((ScriptedReply(calls=(PlannedCall("list_files", {}),)),)))
    assert played.reply(asked()).parts == (ToolCall("call_0_0", "list_files", {}),)
    assert "script script has no reply left" in played.reply(asked(1)).detail


def test_a_reply_late_in_a_long_conversation_costs_no_more_than_an_early_one():
    """Measured in characters examined, not in time: the fold over the messages continues where it stopped."""
    counted = []

    class Counting(str):
        __slots__ = ()

        def __len__(self):
            counted.append(1)
            return super().__len__()

    played = ScriptedModel(Script(tuple(ScriptedReply(text="a") for _ in range(300))))
    messages = Log([])
    for facts in range(300):
        messages = messages.append(Message("user", (Text(Counting("x" * 10)),)))
        played.reply(asked(facts, messages=messages))
    assert len(counted) == 300


def test_json_is_found_however_it_is_spaced():
    conversation = [said('{"a": [1, 2],\n  "b": {}}')]
    for text in ('{"a":[1,2]', '"b" : {', '{"a": [1, 2],'):
        assert isinstance(answer(f"- text: x\n  expect: {{contains: '{text}'}}\n", messages=conversation), ModelReplied)
        assert answer(f"- text: x\n  expect: {{absent: '{text}'}}\n", messages=conversation).kind == "script"
    assert answer("- text: x\n  expect: {contains: 'a,b'}\n", messages=[said("a, b")]).kind == "script"


DEMO = """
- {call: heap_alloc, args: {name: a, content: x}, expect: {depth: 0}}
- {call: push_frame, args: {}}
- {call: read_file, args: {path: a}, expect: {depth: 1}}
- {call: pop_frame, args: {result: the child's}}
- {call: pop_frame, args: {result: the root's}}
"""


@pytest.mark.parametrize(
    ("offered", "called"),
    [
        ("heap_alloc push_frame read_file pop_frame", "heap_alloc push_frame read_file pop_frame pop_frame"),
        ("heap_alloc read_file pop_frame", "heap_alloc read_file pop_frame"),
        ("push_frame read_file pop_frame", "push_frame read_file pop_frame pop_frame"),
        ("read_file pop_frame", "read_file pop_frame"),
    ],
)
def test_a_script_may_leave_out_the_memory_that_a_strategy_does_not_have(offered, called):
    tools = tuple(ToolSpec(name, "", "{}") for name in offered.split())
    played, calls = model(DEMO, memory_optional=True), list[ToolCall]()
    for facts in range(len(called.split())):
        request = asked(facts)
        reply = played.reply(replace(request, view=replace(request.view, tools=tools), depth=1 if facts == 2 else 0))
        assert isinstance(reply, ModelReplied), reply
        calls += [part for part in reply.parts if isinstance(part, ToolCall)]
    assert [one.name for one in calls] == called.split()
    assert calls[-1].arguments == {"result": "the root's"}
