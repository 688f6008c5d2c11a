"""Unusable replies: the fault, its position in the original reply, and the end of the agent."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.languages.frame.bounds import TEXT_CHARS
from stackmem.languages.loop_agent.reply_json import read_object
from stackmem.languages.loop_agent.response import Malformed, read_response
from stackmem.languages.operations import ToolAnswer

from .stage import actions, change, done, play, step

NOTES = "name: a\nprompt: p\nactions: [{name: Poll, tool: poll}]\npayload: {notes: []}\n"
PLACE = re.compile(r"line (\d+), column (\d+)\)?\Z")


def place(text, at):
    lines = text[:at].split("\n")
    return len(lines), len(lines[-1]) + 1


def told_place(fault):
    found = PLACE.search(fault)
    assert found, fault
    return int(found[1]), int(found[2])


REFUSED = {
    "NaN": "NaN is not JSON",
    "-Infinity": "-Infinity is not JSON",
    "1e999": "the number 1e999 is too large",
    "-1" + "0" * 400: "the number -1000000000000000000 is too large",
    r'"a \ud800 b"': "a text holds half of a surrogate pair",
    '"a \ud800 b"': "a text holds half of a surrogate pair",
    r'{"\udc00": 1}': "a text holds half of a surrogate pair",
    '{"x": 1, "y": {"x": 2}, "x": 3}': "the key 'x' stands twice",
    r'{"x": 1, "\u0078": 3}': "the key 'x' stands twice",
    "[" * 100 + "]" * 100: "nested deeper than 100 levels",
}
OFFSET = {r'{"\udc00": 1}': 1, '{"x": 1, "y": {"x": 2}, "x": 3}': 24, r'{"x": 1, "\u0078": 3}': 9}


@pytest.mark.parametrize("around", ["%s", "\ufeff\n\n  %s\n", "\n```json\n%s\n```\n\n", "/* a\n b */ %s", "%s // x"])
@pytest.mark.parametrize("token", REFUSED, ids=lambda token: token[:20].encode("ascii", "backslashreplace").decode())
def test_a_token_that_is_refused_is_named_with_its_place_in_the_reply(token, around):
    reply = around % f'{{"a": [1, "x]"],\r\n "b": {{"c": {token}}}}}'
    offset = OFFSET.get(token, 98 if token[0] == "[" else 0)
    fault = read_object(reply).fault
    assert REFUSED[token] in fault
    assert told_place(fault) == place(reply, reply.index('"c": ') + 5 + offset)


@pytest.mark.parametrize(
    ("reply", "told", "at"),
    [
        ("\n\nyes", "Expecting value", "yes"),
        ("\n [1]", "it is a list and not one JSON object", "["),
        ("\n\ufeff 7", "Expecting value", "\ufeff"),
        ('```\n"x"\n```', "it is a text", '"x"'),
        ('{"a": 1}\n{"b": 2}', "Extra data", '{"b'),
        ('```json\n{"a": 1}\n```\n```json\n{"b": 2}\n```', "Extra data", '```\n```json\n{"b'),
        ('Here:\n```json\n{"a": 1}\n```', "Expecting value", "Here"),
        ('{"a": "x\ny"}', "Invalid control character", "\ny"),
        ('{"a": "x', "Unterminated string", '"x'),
        ('{"a": 1 /* b', "Expecting ',' delimiter", None),
        ('{"a": 1,, }', "Expecting property name", ", }"),
        ("{'a': 1}", "Expecting property name", "'a"),
        ('{"a" 1}', "Expecting ':' delimiter", "1"),
        ('{"a": 01}', "Expecting ',' delimiter", "1"),
        ('{"a": .5}', "Expecting value", "."),
        (r'{"a": "\x"}', r"Invalid \escape", "\\x"),
        ('{"a": True}', "Expecting value", "True"),
    ],
)
def test_what_is_not_one_object_is_told_with_its_place_in_the_reply(reply, told, at):
    fault = read_object(reply).fault
    assert told in fault
    assert told_place(fault) == place(reply, len(reply) if at is None else reply.index(at))


@pytest.mark.parametrize(
    ("object_", "told", "at"),
    [
        ('{"message": 5, "nextStep": {"type": "Chat"}}', "message must be a text, is 5", "5"),
        ('{"nextStep":\n {"type": "Actions", "actions": [{"name": "a"}, {"name": "b"}, {"name": 7}]}}',
         "nextStep.actions[2].name must be a text, is 7", "7"),
        ('{"nextStep": {"type": "Actions", "actions": [{"name": "a"}, {"params": {}}]}}',
         "nextStep.actions[1].name is missing", '{"params'),
        ('{"nextStep": {"type": "Dance"}}', "nextStep.type 'dance' is not known", '"Dance"'),
        ('{"nextStep": {"type": "Actions", "actions": []}}', "Actions not specified", "[]"),
        ('{"nextStep": {"type": "Chat"}}', "a Chat needs a message", '{"type'),
        ('{"nextStep": {"type": "ForEach", "forEach": {"collectionPath": "x", "maxIterations": -1}}}',
         "nextStep.forEach must have either action or subAgent", '{"collectionPath'),
        ('{"nextStep": {"type": "Retry"}, "payloadChangeRequest": {"newElements": [1]}}',
         "payloadChangeRequest.newElements must be an object", "[1]"),
        ('{"responseForm": {"questions": [{"id": "a", "label": "A", "type": {"type": "radio", "options": [{}]}}]}}',
         "responseForm.questions[0].type.options[0].value is missing", "{}"),
        ('{"actionableCommands": [{"type": "open:url", "label": "L", "url": "file:///x"}]}',
         "actionableCommands[0].url must begin with http", '"file'),
        ('{"confidence": 1}', "it asks for nothing", "{"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("around", ["%s", "\n```json\n\n  %s\n```", "// so\n%s"])
def test_what_does_not_fit_is_told_with_its_path_and_its_place(object_, told, at, around):
    found = read_response(around % object_).step
    assert isinstance(found, Malformed)
    assert told in found.fault
    reply = around % object_
    assert told_place(found.fault) == place(reply, reply.index(object_) + object_.index(at))


def test_a_reply_that_is_too_long_is_told_where_it_became_so():
    reply = "{\n" + " " * TEXT_CHARS + "}"
    assert read_object(reply).fault.endswith(f"at most 1,000,000 are read (line 2, column {TEXT_CHARS - 1})")


def test_what_looks_like_a_fault_within_a_text_is_none():
    text = 'NaN 1e999 \\ " [[ // , ] /* */ \ud83d\ude00 {"a": 1, "a": 2}'.encode("utf-16", "surrogatepass").decode(
        "utf-16"
    )
    for ascii_ in (True, False):
        assert read_object(json.dumps({"a": [text] * 60}, ensure_ascii=ascii_)).value == {"a": [text] * 60}


VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
OBJECT = st.dictionaries(st.text(max_size=5), VALUE, max_size=5)
AROUND = st.sampled_from(["%s", "\n\n %s \n", "\ufeff%s", "```json\n%s\n```", "\r\n```\r\n%s\r\n```"])


@st.composite
def written(draw):
    """Return a reply that contains an object, the object's own text, and the object."""
    value = draw(OBJECT)
    text = json.dumps(value, indent=draw(st.sampled_from([None, 1])), ensure_ascii=draw(st.booleans()))
    return draw(AROUND).replace("%s", text), text, value


@given(written(), st.data())
def test_an_object_is_read_and_a_broken_one_is_faulted_at_the_break_or_before(reply, data):
    text, own, value = reply
    assert read_object(text).value == value
    start = text.index(own)
    at = start + data.draw(st.integers(0, len(own) - 1))
    for broken in (text[:at], text[:at] + "\x01" + text[at + 1 :]):
        fault = read_object(broken).fault
        line, column = told_place(fault)
        assert (line, column) <= place(broken, at)
        assert len(fault) < 300


@given(st.lists(st.sampled_from([
    *'{}[]:,"\\/*`\n \ufeff\ud800', "```json\n", "\n```", "//", "/*", "*/", '"a":', '"a"', "NaN", "1e999", "-", "1",
    r"\ud800", r"\u", "null", "{" * 99,
]), max_size=30))  # fmt: skip
def test_any_pieces_are_an_object_or_a_fault_with_a_place_in_them(pieces):
    text = "".join(pieces)
    found = read_object(text)
    assert (found.value is None) == bool(found.fault)
    if found.fault:
        line, column = told_place(found.fault)
        lines = text.split("\n")
        assert 1 <= line <= len(lines)
        assert 1 <= column <= len(lines[line - 1]) + 1


HOSTILE = {
    "brackets": "[" * TEXT_CHARS,
    "objects": '{"a":' * (TEXT_CHARS // 5),
    "comments that open": "{" + "/*" * 499_999,
    "comments": "{" + "/**/" * 249_999,
    "comments of a line": "{" + "//\n" * 333_333,
    "quotes": '"' * TEXT_CHARS,
    "backslashes": '"' + "\\" * 999_999,
    "open texts": '"\n' * 500_000,
    "fences": "```\n" * 250_000,
    "marks of fences": "`" * TEXT_CHARS,
    "a fence and space": "```\n" + " " * 999_000 + "x",
    "a fence, space, a fence": "```\n" + "\n \t" * 333_000 + "x```",
    "lines": "\n" * 999_999 + "x",
    "commas": "{" + "," * 999_999,
    "commas and space": '{"a":[' + "1, " * 333_000 + "x",
    "numbers": '{"a": ' + "9" * 999_000 + "}",
    "exponents": '{"a": [' + "1e999," * 166_000 + "1]}",
    "keys": "{" + ",".join(f'"{number}":1' for number in range(80_000)) + ',"0":2}',
    "one key": "{" + '"a":1,' * 166_000 + '"a":1}',
    "pairs and a half": '{"a":"' + r"\ud83d\ude00" * 83_000 + r'\ud83d"}',
    "a long name": '{"nextStep": {"type": "' + "x" * 999_900 + '"}}',
    "a wrong last action": '{"nextStep": {"type": "Actions", "actions": [' + '{"name": "a"},' * 71_000 + "{}]}}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_reply_of_a_million_characters_is_faulted_in_a_moment(name):
    # quadratic time would take hours for a million characters, beyond the test's time limit
    found = read_response(HOSTILE[name]).step
    assert isinstance(found, Malformed)
    assert told_place(found.fault)
    assert len(found.fault) < 400


def test_a_response_that_cannot_be_used_changes_nothing():
    wrong = {"nextStep": {"type": "Dance"}, **change(newElements={"notes": ["x"]})}
    played = play(wrong, {**done(), **change(newElements={"notes": ["x"]})}, agent=NOTES)
    assert played.value == {"notes": ["x"]}
    assert "could not be used: nextStep.type 'dance' is not known" in played.last
    assert "(line 1, column 23). Respond again" in played.last


USELESS = {
    "malformed": "{",
    "unfit": {"nextStep": {"type": "Dance"}},
    "empty": "",
    "retry": step("Retry"),
    "expansion": step("Retry", messageIndex=3),
    "unknown action": actions("dance"),
    "failing action": actions("poll"),
    "early end": done(),
}


@given(st.lists(st.sampled_from(sorted(USELESS)), min_size=1, max_size=5))
def test_no_round_of_useless_replies_goes_on_for_long(names):
    agent = "name: a\nprompt: p\nactions: [{name: Poll, tool: poll}, {name: Must, tool: poll, min_runs: 1}]\n"
    played = play(*[USELESS[name] for name in names] * 60, agent=agent, tool=lambda _: ToolAnswer(None, "error", "no"))
    assert played.halted[0] in ("Malformed Response", "Failed", "stalled")
    assert len(played.asked) <= 50
