"""Agents that ask other agents: frames, messages, payloads, files and limits."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.languages.loop_agent.conversation import AgentConversation
from stackmem.languages.loop_agent.paths import parse_rule, reaches
from stackmem.languages.loop_agent.sub_agents import parent_messages
from stackmem.languages.operations import EnterFrame, Group, LeaveFrame

from .stage import AGENT, actions, ask, change, done, play, step

PARENT = """
name: lead
prompt: Lead.
payload: {facts: []}
sub_agents:
  - name: helper
    inline:
      name: helper
      description: looks things up
      prompt: "Help {{parentAgentName}} in a {{tone}} tone. {{unknown}}"
      actions: [{name: Poll, tool: poll}]
      payload: {own: 1}
  - {name: thinker, inline: {name: thinker, prompt: Think.}}
"""


def frames(played):
    kinds = (EnterFrame, LeaveFrame)
    return [
        (type(each).__name__, getattr(each, "result", None) or each.name)
        for each in played.done.happened
        if isinstance(each, kinds)
    ]


def test_a_sub_agent_works_in_a_frame_on_the_payload_of_its_parent():
    played = play(
        ask("helper", "find it", templateParameters={"tone": "dry"}), actions("poll"),
        done("found", **change(newElements={"facts": ["f"]})), done(), agent=PARENT,
    )  # fmt: skip
    assert frames(played) == [("EnterFrame", "helper"), ("LeaveFrame", "found")]
    assert played.value == {"facts": ["f"]}
    assert "Help lead in a dry tone. {{unknown}}" in played.asked[1].system
    assert "Parent: lead." in played.asked[1].system
    assert played.prompt(1).startswith("find it")
    assert "[#1] ## helper ✓" in played.last
    assert "**helper**: looks things up" in played.asked[0].system


def test_a_sub_agents_chat_is_its_result_and_marked():
    played = play(ask("helper"), {"message": "Which one?"}, done(), agent=PARENT)
    assert "**Result:** SUCCESS — chat\n**Output:**\nWhich one?" in played.last
    assert played.questions == []


def test_a_sub_agents_form_is_text_for_its_parent():
    form = {"questions": [{"id": "n", "label": "How many?", "type": "number"}]}
    link = {"type": "open:url", "label": "See", "url": "https://a.b"}
    played = play(ask("helper"), {"responseForm": form, "actionableCommands": [link]}, done(), agent=PARENT)
    assert "How many?\nHow many?\n(a number; may be empty)" in played.last
    assert played.done.said[0] == "[open] See: https://a.b"


def test_a_sub_agent_that_fails_is_told_and_the_parent_goes_on():
    played = play(ask("helper"), "no", "no", "no", done(), agent=PARENT)
    assert "## helper ✗\n**Result:** MALFORMED RESPONSE — 3 responses in a row" in played.last
    assert played.value == {"facts": []}


def test_terminate_after_ends_the_parent_with_the_childs_success_only():
    played = play(ask("helper", terminateAfter=True), done("all done"), agent=PARENT)
    assert played.done.said == ["all done"]
    played = play(ask("helper", terminateAfter=True), "no", "no", "no", done("mine"), agent=PARENT)
    assert played.done.said == ["mine"]


def test_a_child_that_asks_something_does_not_end_its_parent():
    asks = {"message": "Which one?", "nextStep": {"type": "Chat"}}
    played = play(ask("helper", terminateAfter=True), asks, done("mine"), agent=PARENT)
    assert "**Result:** SUCCESS — chat\n**Output:**\nWhich one?" in played.last
    assert played.done.said == ["mine"]


def test_what_must_run_first_holds_for_an_end_by_a_child_too():
    agent = PARENT + "actions: [{name: Poll, tool: poll, min_runs: 1}]\n"
    played = play(ask("helper", terminateAfter=True), done("theirs"), actions("Poll"), done("mine"), agent=agent)
    assert "these actions must run first: Poll (0 of 1)" in played.prompt(2)
    assert played.done.said == ["mine"]


def test_an_unknown_sub_agent_lists_the_known_ones():
    assert "unknown sub-agent 'nobody'; known: helper, thinker" in play(ask("nobody"), done(), agent=PARENT).last


def test_a_child_may_change_only_what_its_parent_may():
    agent = PARENT.replace("sub_agents:", "allowed_paths: ['facts:update']\nsub_agents:")
    played = play(ask("helper"), done("x", **change(newElements={"facts": ["f"]})), done(), agent=agent)
    assert played.value == {"facts": []}
    assert "Cannot add 'facts[0]'" in played.last


def test_what_a_child_removes_is_gone():
    agent = PARENT.replace("payload: {facts: []}", "payload: {facts: [], junk: 1}")
    played = play(ask("thinker"), done("x", **change(removeElements={"junk": "__DELETE__"})), done(), agent=agent)
    assert played.value == {"facts": []}


def test_thinkers_without_tools_run_side_by_side_without_frames():
    loop = step("ForEach", forEach={
        "collectionPath": "facts", "executionMode": "parallel", "maxConcurrency": 3, "continueOnError": True,
        "subAgent": {"name": "thinker", "message": "judge {{item}}", "context": {"n": "index"}},
    })  # fmt: skip
    agent = PARENT.replace("facts: []", "facts: [a, b, c]")
    replies = [done(f"r{n}", **change(newElements={"facts": [n]})) for n in range(3)]
    replies[1] = change(newElements={"facts": ["more"]})
    played = play(loop, *replies, done("late"), done(), agent=agent)
    groups = [each for each in played.done.happened if isinstance(each, Group)]
    assert [len(each.operations) for each in groups] == [3, 1]
    assert frames(played) == []
    assert played.value["facts"] == ["a", "b", "c", 0, "more", 2]
    assert 'judge b\n\nCONTEXT\n{"n": 1}' in played.prompt(2)
    assert "### Iteration 2\n✓ SUCCESS\nlate" in played.last


def test_helpers_with_tools_run_one_after_another_and_see_the_payload_as_it_was():
    loop = step("ForEach", forEach={
        "collectionPath": "facts", "executionMode": "parallel",
        "subAgent": {"name": "helper", "message": "item", "context": "{{item}}"},
    })  # fmt: skip
    agent = PARENT.replace("facts: []", "facts: [1, 2]")
    played = play(
        loop, done("a", **change(newElements={"n": 1})), done("b", **change(newElements={"n": 2})), done(), agent=agent
    )
    assert [name for name, _ in frames(played)] == ["EnterFrame", "LeaveFrame"] * 2
    assert '"n"' not in played.prompt(2)
    assert "different values to 'n'" in played.last
    assert played.prompt(1).startswith("1\n\nCONTEXT\n1")


def test_a_loop_of_sub_agents_one_after_another_and_one_that_is_not_there():
    loop = {"collectionPath": "facts", "continueOnError": True, "subAgent": {"name": "thinker", "message": "{{item}}"}}
    agent = PARENT.replace("facts: []", "facts: [x, y]")
    played = play(step("ForEach", forEach=loop), done("a"), done("b"), done(), agent=agent)
    assert frames(played)[1] == ("LeaveFrame", "a")
    for mode in ("parallel", "sequential"):
        gone = {**loop, "executionMode": mode, "subAgent": {"name": "nobody", "message": "m"}}
        assert "UNKNOWN_AGENT" in play(step("ForEach", forEach=gone), done(), agent=agent).last


@pytest.mark.parametrize(
    ("mode", "shown"),
    [
        ("none", []),
        ("latest", ["TOLD: e"]),
        ("all", ["TOLD: task", "PARENT: a", "TOLD: b", "PARENT: c", "TOLD: e"]),
        ("bookend", ["TOLD: task", "PARENT: a", "[2 messages omitted for context management]", "TOLD: e"]),
    ],
)
def test_what_a_sub_agent_sees_of_its_parent(mode, shown):
    conversation = AgentConversation("task")
    for text in "ab", "ce":
        conversation.reply(text[0], 1)
        conversation.tell(text[1], 1)
    assert parent_messages(conversation.entries, mode) == shown


def test_a_short_conversation_has_no_bookends_but_is_shown_whole():
    conversation = AgentConversation("task")
    conversation.reply("a", 1)
    assert parent_messages(conversation.entries, "bookend") == ["TOLD: task", "PARENT: a"]


def test_the_parents_messages_stand_in_the_childs_request():
    agent = PARENT.replace("- name: helper", "- name: helper\n    messages: all")
    played = play(ask("helper"), done(), done(), agent=agent, options={"request": "Find Ann."})
    assert "CONVERSATION OF THE PARENT\nTOLD: Find Ann." in played.prompt(1)


def test_the_response_that_asks_is_none_of_the_messages():
    agent = PARENT.replace("- name: helper", "- name: helper\n    messages: latest")
    first = {**change(newElements={"facts": ["x"]}), "nextStep": {"type": "Retry"}}
    played = play(first, {**ask("helper", "Go."), **change(stray=1)}, done(), done(), agent=agent)
    assert played.prompt(2).startswith("Go.\n\nCONVERSATION OF THE PARENT\nTOLD: Done. Go on.\n## Current State")


FILE = "name: other\nprompt: Look into {{agentName}}.\nsub_agents: [{name: again, file: main.agent.yaml}]\n"
LEAD = "name: lead\nprompt: Lead.\nsub_agents: [{name: other, file: other.agent.yaml}]\n"


def test_a_sub_agent_may_stand_in_a_file_and_a_circle_ends_at_depth_eight():
    sources = {"other.agent.yaml": FILE, "main.agent.yaml": LEAD}
    down = [ask("other"), ask("again")] * 4
    played = play(*down, *[done(f"up {n}") for n in range(8)], agent=LEAD, sources=sources)
    assert [name for name, _ in frames(played)].count("EnterFrame") == 7
    assert "agents may ask one another 8 deep; do this yourself" in played.prompt(8)
    assert played.done.said == ["up 7"]
    assert "Look into other." in played.asked[1].system


def test_a_file_that_is_missing_or_broken_halts_with_its_place():
    assert "the file other.agent.yaml cannot be read (No such file)" in play(agent=LEAD).halted[1]
    assert "the agent needs `prompt`" in play(agent=LEAD, sources={"other.agent.yaml": "name: x\n"}).halted[1]


def test_a_tool_that_an_inner_agent_needs_is_looked_for_too():
    played = play(agent=PARENT.replace("tool: poll", "tool: nowhere"))
    assert played.halted[0] == "Unknown Tool"


def test_the_tokens_of_a_child_count_for_its_parent():
    agent = PARENT + "limits: {tokens: 45}\n"
    assert "45 of its 45 tokens" in play(ask("helper"), actions("poll"), done(), agent=agent).halted[1]
    assert AGENT


VALUES = st.recursive(
    st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
PAYLOADS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)
RULES = st.lists(st.sampled_from(["a", "b", "a.b", "b.*", "c[*].a", "**.c", "a:add"]), max_size=2)


def at(value, path=()):
    """Map the path of every leaf in a value to the leaf."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {place: one for name, each in inner for place, one in at(each, (*path, name)).items()} or {path: value}


@given(PAYLOADS, RULES, RULES, st.dictionaries(st.sampled_from("abc"), VALUES, max_size=2))
def test_a_sub_agent_changes_nothing_that_it_may_not_write(payload, reads, writes, request):
    reads = [text for text in reads if ":" not in text]
    sub = {"name": "kid", "read_paths": reads, "write_paths": writes, "inline": {"name": "kid", "prompt": "q"}}
    agent = json.dumps({"name": "lead", "prompt": "p", "payload": payload, "sub_agents": [sub]})
    played = play(ask("kid"), done("x", **change(replaceElements=request)), done(), agent=agent)
    rules = tuple(parse_rule(text) for text in writes)
    before, after = at(payload), at(played.value)
    changed = [place for place in {**before, **after} if before.get(place) != after.get(place)]
    assert [place for place in changed if rules and not reaches(rules, place)] == []
