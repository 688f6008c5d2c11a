"""Odd, long and hostile input for single components."""

import copy
import json

from hypothesis import given
from hypothesis import strategies as st

from stackmem.languages.loop_agent import paths
from stackmem.languages.loop_agent.commands import read_actionable
from stackmem.languages.loop_agent.payload import apply_change
from stackmem.languages.loop_agent.references import ReferenceNames, resolve
from stackmem.languages.loop_agent.response import read_response
from stackmem.languages.loop_agent.results import crush_json
from stackmem.languages.loop_agent.writes import PayloadMerge, Write, mapping_fault
from stackmem.languages.operations import ToolAnswer

from .stage import AGENT, ask, done, for_each, play

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "x", "__DELETE__", "..."]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECT = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)
REQUESTS = ("newElements", "updateElements", "removeElements", "replaceElements", "a")
WRAPPED = st.fixed_dictionaries({}, optional=dict.fromkeys(REQUESTS, OBJECT))


@given(OBJECT, WRAPPED)
def test_any_change_leaves_the_payload_alone_and_its_edits_lead_from_it_to_the_result(payload, request):
    before = repr(payload)
    change = apply_change(payload, request)
    assert repr(payload) == before
    made = copy.deepcopy(payload)
    for edit in change.edits:
        *way, last = edit.path
        holder = paths.look_up(made, tuple(way))
        there = paths.look_up(made, edit.path)
        assert (there is paths.MISSING) == (edit.operation == "add")
        assert edit.before == (None if edit.operation == "add" else there)
        if edit.operation == "delete":
            assert edit.after is None
            del holder[last]
        elif isinstance(holder, list) and last == len(holder):
            holder.append(copy.deepcopy(edit.after))
        else:
            holder[last] = copy.deepcopy(edit.after)
    assert repr(made) == repr(change.result)


@given(st.text(max_size=200) | st.builds(lambda text: f'{{"nextStep": {{"type": "{text}"}}}}', st.text(max_size=9)))
def test_any_reply_comes_to_something(text):
    assert read_response(text).step is not None


@given(JSON, JSON)
def test_any_reference_comes_to_something(value, item):
    warnings = []
    resolve(value, ReferenceNames({"item": item, "payload": {"a": item}}, ("item",)), warnings)
    assert len(warnings) <= 50


def test_paths_are_spelled_and_read():
    assert paths.parse_path("a.b[0]['x y'].c") == ("a", "b", 0, "x y", "c")
    assert paths.parse_path('$.a["b"]') == ("a", "b")
    assert paths.parse_path("$") == paths.parse_path("") == ()
    assert [paths.parse_path(text) for text in (".a", "a.", "a[", "a[x]", "a[0]b")] == [None] * 5
    assert paths.path_text(("a", 0, "b")) == "a[0].b"
    assert ReferenceNames({"x": 1}).find("[0]") is paths.MISSING


def test_a_mapping_is_a_path_or_an_object_of_paths():
    assert mapping_fault("payload.a") == mapping_fault({"": "a"}) == mapping_fault("{{index}}") == ""
    assert [bool(mapping_fault(bad)) for bad in ("", [], {"a": 1}, "{bad", "payload.")] == [True] * 5


def test_what_is_merged_twice_is_told_once_and_not_for_ever():
    merged = PayloadMerge({"l": 5}, (), together=True)
    for index in range(200):
        merged.merge(index, (Write(("x", str(index % 99)), index), Write(("l",), [index], appended=True)))
    assert len(merged.warnings) == 50
    assert merged.payload["l"] == list(range(200))


def test_a_table_takes_the_place_of_rows_only_where_it_is_shorter():
    rows = [{"name": f"n{n}", "size": n} for n in range(60)]
    assert crush_json(rows).splitlines()[1] == '"n0" | 0'
    nested = crush_json({"rows": rows, "total": 60})
    assert nested.startswith("rows: [60 rows; columns: name | size")
    assert nested.endswith("\ntotal: 60")
    assert crush_json(json.dumps(rows)) == crush_json(rows)
    some = crush_json([{**row, "note": "odd"} if row["size"] == 7 else row for row in rows]).splitlines()
    assert "columns: name | size | note; each cell is JSON, an empty one is absent]" in some[0]
    assert some[7:9] == ['"n6" | 6 | ', '"n7" | 7 | "odd"']
    assert crush_json([{f"k{n}-{m}": 1 for m in range(5)} for n in range(60)]) is None
    for plain in ("x" * 900, 10**700, "[" + "x" * 900, [1] * 900, [{}] * 300, [{"a": 1}], {"a": "x" * 900}, 5, rows[:2],
                  [{"a": "x" * 600}, {"b": 1}], [{"a": "x" * 600}, 1]):  # fmt: skip
        assert crush_json(plain) is None


def test_a_letter_that_is_too_long_for_a_link_names_its_artifact():
    long = {"type": "compose:email", "label": "Write", "body": "x" * 2_000}
    assert read_actionable([long])[0].line == "[compose] Write: too long for a link"
    assert read_actionable([{**long, "artifactId": "a-1"}])[0].line.endswith("; see the artifact a-1")


def test_one_choice_is_asked_as_buttons():
    form = {"questions": [{"id": "c", "label": "Which?", "type": {"type": "buttongroup", "options": ["x", "y"]}}]}
    played = play({"message": "Choose", "responseForm": form}, done(), answers=("2",))
    assert played.questions == ["Choose\nWhich?\n[1] x  [2] y"]
    assert '{"c": "y"}' in played.last


def test_a_file_that_two_agents_name_is_read_once():
    subs = "".join(f"- {{name: {name}, file: other.agent.yaml}}\n" for name in ("one", "two"))
    lead = f"name: lead\nprompt: p\nsub_agents:\n{subs}"
    played = play(ask("two"), done(), done(), agent=lead, sources={"other.agent.yaml": "name: other\nprompt: q\n"})
    loads = [each for each in played.done.happened if type(each).__name__ == "LoadSource"]
    assert len(loads) == 1


def test_a_value_that_is_missing_is_told_with_its_kind():
    assert (
        "messageIndex must be a whole number, is a list"
        in read_response('{"nextStep": {"type": "Retry", "messageIndex": []}}').step.fault
    )
    assert "is an object" in read_response('{"nextStep": {"type": "Retry", "messageIndex": {}}}').step.fault


def test_loops_over_what_a_result_gave_do_not_blow_up():
    agent = AGENT + "payload: {items: [1, 2]}\n"
    played = play(for_each(), done(), agent=agent, tool=lambda _: ToolAnswer({"deep": [[[1]]]}))
    assert '{"deep": [[[1]]]}' in played.last


def test_what_is_too_much_is_not_merged_and_told():
    merged = PayloadMerge({"notes": "short"}, (), together=False)
    merged.merge(1, (Write(("notes",), "x" * 2_000_001), Write(("deep",) * 101, 1)))
    assert merged.payload == {"notes": "short"}
    assert [told.split(":")[0] for told in merged.warnings] == [
        "nothing was written to 'notes'",
        f"nothing was written to '{'deep.' * 16}'",
    ]
    assert "2,000,000 characters" in merged.warnings[0]
    assert "too deep" in merged.warnings[1]
