"""The script language: the meaning of a script, and the position of every error in it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.errors import UsageError
from stackmem.core.messages import Usage
from stackmem.lab.simulated.script_language import MAX_SCRIPT_BYTES, PlannedCall, Script, parse_script, read_script


def refusal(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse_script(text, "play.yaml")
    return str(caught.value)


def outcome(text: str) -> Script | str:
    try:
        return parse_script(text, "play.yaml")
    except UsageError as error:
        return str(error)


def only_reply(text: str):
    (reply,) = parse_script("replies:\n" + text, "play.yaml").replies
    return reply


def test_a_call_passes_its_arguments_as_they_are():
    reply = only_reply("- call: no_such_tool\n  args: {n: 1, deep: [a, {b: null}], flag: true}\n")
    assert reply.calls == (PlannedCall("no_such_tool", {"n": 1, "deep": ["a", {"b": None}], "flag": True}),)


@pytest.mark.parametrize(("written", "value"), [("[1]", [1]), ("text", "text"), ("null", None), ("3.5", 3.5)])
def test_arguments_need_not_be_an_object(written, value):
    assert only_reply(f"- call: read_file\n  args: {written}\n").calls[0].args == value


def test_arguments_left_out_are_an_empty_object():
    assert only_reply("- call: list_files\n").calls[0].args == {}


def test_a_block_text_keeps_its_lines():
    reply = only_reply(
        "- call: write_file\n  args:\n    path: a.py\n    content: |\n      if x:\n          y()\n\n      z()\n"
    )
    assert reply.calls[0].args["content"] == "if x:\n    y()\n\nz()\n"


def test_values_are_pythons_own_types():
    args = only_reply("- call: x\n  args: {s: 'q', i: 0x10, f: 1e3, l: [1], m: {a: b}}\n").calls[0].args
    assert [type(value) for value in args.values()] == [str, int, float, list, dict]


def test_half_a_character_is_replaced_and_two_halves_are_one():
    reply = only_reply('- text: "a \\ud83d b"\n  call: heap_alloc\n  args: {content: "\\ud83d\\ude00"}\n')
    assert (reply.text, reply.calls[0].args) == ("a \N{REPLACEMENT CHARACTER} b", {"content": "\N{GRINNING FACE}"})


def test_several_calls_stand_in_their_order():
    reply = only_reply("- text: both\n  calls:\n  - {call: a}\n  - {call: b, args: {x: 1}}\n")
    assert (reply.text, [call.tool for call in reply.calls]) == ("both", ["a", "b"])


def test_an_expectation_takes_one_text_or_a_list():
    expect = only_reply(
        "- text: x\n  expect: {contains: a, absent: [b, c], depth: 0, heap_has: spec, frame: root}\n"
    ).expect
    assert (expect.contains, expect.absent, expect.depth) == (("a",), ("b", "c"), 0)
    assert (expect.heap_has, expect.frame) == (("spec",), "root")


def test_usage_and_waiting_are_read():
    reply = only_reply("- fault: 429\n  retry_after_seconds: 2\n  latency_seconds: 0.5\n  usage: {output: 7}\n")
    assert (reply.fault, reply.retry_after_seconds, reply.latency_seconds) == ("429", 2.0, 0.5)
    assert reply.usage == Usage(output=7)


def test_an_entry_knows_its_line():
    script = parse_script("description: two\nreplies:\n- text: a\n\n- text: b\n", "play.yaml")
    assert [reply.line for reply in script.replies] == [3, 5]


REFUSED = {
    "": ("1:1", "empty"),
    "# only a comment\n": ("1:1", "empty"),
    "- text: a\n": ("1:1", "a mapping"),
    "just text": ("1:1", "a mapping"),
    "replies: 3\n": ("1:1", "a list"),
    "replies: []\n": ("1:1", "empty"),
    "description: x\n": ("1:1", "'replies' is missing"),
    "replies:\n- text: a\nrepiles: 1\n": ("3:1", "unknown key 'repiles'"),
    "replies:\n- cal: read_file\n": ("2:3", "unknown key 'cal'"),
    "replies:\n- call: 3\n": ("2:3", "'call' must be a text"),
    "replies:\n- call: a\n  call: b\n": ("3:3", "duplicate key"),
    "replies:\n- args: {}\n": ("2:3", "'args' requires 'call'"),
    "replies:\n- {}\n": ("2:3", "this reply is empty"),
    "replies:\n- expect: {depth: 0}\n": ("2:3", "this reply is empty"),
    "replies:\n- null\n": ("2:3", "a mapping"),
    "replies:\n- call: a\n  calls: [{call: b}]\n": ("2:3", "cannot be combined"),
    "replies:\n- calls: []\n": ("2:3", "empty"),
    "replies:\n- calls: [{args: {}}]\n": ("2:11", "'call' is missing"),
    "replies:\n- calls:\n  - call: a\n    text: b\n": ("4:5", "unknown key 'text'"),
    "replies:\n- fault: 430\n": ("2:3", "known: 429, 529"),
    "replies:\n- fault: [429]\n": ("2:3", "no fault"),
    "replies:\n- fault: 429\n  call: a\n": ("2:3", "fault 429 sends no reply"),
    "replies:\n- fault: no_call\n  call: a\n": ("2:3", "without a call"),
    "replies:\n- fault: two_calls\n  calls: [{call: a}, {call: b}]\n": ("2:3", "adds a second call"),
    "replies:\n- text: a\n  retry_after_seconds: 1\n": ("3:3", "requires fault"),
    "replies:\n- fault: 429\n  retry_after_seconds: -1\n": ("3:3", "a number of seconds"),
    "replies:\n- text: a\n  latency_seconds: .nan\n": ("3:3", "a number of seconds"),
    "replies:\n- text: a\n  latency_seconds: true\n": ("3:3", "a number of seconds"),
    "replies:\n- text: [a]\n": ("2:3", "'text' must be a text"),
    "replies:\n- text: a\n  expect: {}\n": ("3:3", "'expect' is empty"),
    "replies:\n- text: a\n  expect: {contain: x}\n": ("3:12", "unknown key 'contain'"),
    "replies:\n- text: a\n  expect: {contains: ''}\n": ("3:12", "a non-empty text"),
    "replies:\n- text: a\n  expect: {heap_has: [1]}\n": ("3:12", "a list of them"),
    "replies:\n- text: a\n  expect: {depth: one}\n": ("3:12", "a whole number"),
    "replies:\n- text: a\n  expect: {depth: true}\n": ("3:12", "a whole number"),
    "replies:\n- text: a\n  usage: {tokens: 3}\n": ("3:11", "unknown key 'tokens'"),
    "replies:\n- text: a\n  usage: {output: -3}\n": ("3:11", "a whole number"),
    "replies:\n- call: a\n  args: {when: 2026-01-01}\n": ("3:10", "a date is not a JSON value"),
    "replies:\n- call: a\n  args: {n: .inf}\n": ("3:10", "not a JSON value"),
    "replies:\n- call: a\n  args: {1: x}\n": ("3:10", "is not a text"),
    "replies:\n- call: a\n  args: !!python/object/apply:os.system [ls]\n": ("3:3", "tags are not supported"),
    "replies:\n- text: *nobody\n": ("2:9", "undefined alias"),
    "replies:\n- text: 'open\n": ("3:1", "not a valid script"),
    "a: b: c\n": ("1:5", "not a valid script"),
    "---\nreplies: [{text: a}]\n---\nreplies: [{text: b}]\n": ("3:1", "another document"),
    "replies:\n- text: \x07\n": ("2:9", "does not allow"),
}


@pytest.mark.parametrize("text", REFUSED, ids=repr)
def test_unknown_words_are_refused_with_their_position(text):
    place, reason = REFUSED[text]
    message = refusal(text)
    assert message.startswith(f"play.yaml:{place}: ")
    assert reason in message


def test_an_error_shows_its_line_with_a_caret():
    assert refusal("replies:\n- cal: x\n").splitlines()[1:] == ["    - cal: x", "      ^"]


def test_nesting_without_end_is_refused():
    assert refusal("replies: " + "[" * 2_000).startswith("play.yaml:1:261: not a valid script: nested deeper than 250")
    assert "nested too deeply" in refusal("replies:\n" + "- " * 1_000 + "x")


def test_aliases_that_multiply_are_refused():
    lines = ["replies:", "- call: x", "  args:", "    a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"    a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert "use fewer aliases" in refusal("\n".join(lines))


@given(st.text(max_size=60))
def test_any_text_is_a_script_or_refused(text):
    outcome = ""
    try:
        assert parse_script("replies:\n- text: " + text).replies
    except UsageError as error:
        outcome = str(error)
    assert not outcome or outcome.startswith("script:")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["call", "args", "text", "fault", "usage", "frame"]), VALUES))
@pytest.mark.parametrize("ascii_only", [True, False])
def test_one_line_of_json_is_read_as_yaml_reads_it(ascii_only, entry):
    text = json.dumps({"replies": [entry]}, ensure_ascii=ascii_only)
    assert outcome(text) == outcome(f"{text}\n")  # the line break selects the YAML reader


@pytest.mark.parametrize(
    "args",
    [
        '{"a": 1, "a": 2}',
        '{"a": NaN}',
        "[" * 260 + "]" * 260,
        '{"' + "k" * 1_100 + '": 1}',
        '{"a": "\x7f"}',
        '{"a": 1,}',
    ],
    ids=["twins", "no number", "deep", "a long key", "a control character", "a comma"],
)
def test_one_line_of_json_is_accepted_only_if_yaml_accepts_it(args):
    text = f'{{"replies": [{{"call": "x", "args": {args}}}]}}'
    assert outcome(text) == outcome(f"{text}\n")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"no script .*nowhere\.yaml"):
        read_script(tmp_path / "nowhere.yaml")


def test_a_folder_is_refused_as_a_script(tmp_path):
    with pytest.raises(UsageError, match="not a regular file"):
        read_script(tmp_path)


def test_bytes_that_are_not_utf8_are_refused_with_their_place(tmp_path):
    path = tmp_path / "play.yaml"
    path.write_bytes(b"replies:\n- text: a\xff\n")
    with pytest.raises(UsageError, match=r"play\.yaml:2:10: byte 0xff is not UTF-8"):
        read_script(path)


def test_a_huge_file_is_refused_unread(tmp_path):
    path = tmp_path / "play.yaml"
    with path.open("wb") as file:
        file.truncate(MAX_SCRIPT_BYTES + 1)
    with pytest.raises(UsageError, match="larger than"):
        read_script(path)


def test_a_byte_order_mark_is_accepted(tmp_path):
    path = tmp_path / "play.yaml"
    path.write_text("replies:\n- text: a\n", encoding="utf-8-sig")
    assert read_script(path).replies[0].text == "a"
