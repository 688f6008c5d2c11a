"""The effect of single replies on the next prompt, for every kind of form, command, loop and change."""

import json
from typing import Any

import pytest

from stackmem.languages.operations import ToolAnswer

from .stage import AGENT, actions, change, done, for_each, play, step, while_


def told(reply: Any, **more: Any) -> str:
    """Return the complete prompt after a reply."""
    return play(reply, done(), **more).last


def form(*questions: dict, **more: Any) -> dict:
    asked = [{"id": f"q{number}", "label": f"L{number}", **each} for number, each in enumerate(questions, 1)]
    return {"message": "Please.", "responseForm": {"questions": asked, **more}}


def of(kind: str, **more: Any) -> dict:
    return {"type": {"type": kind, **more}}


OPTIONS = [{"value": "a", "label": "Apple"}, {"value": "b", "label": "Pear"}, "c"]


@pytest.mark.parametrize(
    ("question", "wrong", "right", "value"),
    [
        (of("text", maxLength=3), ("four",), "abc", "abc"),
        (of("textarea"), (), " two\nlines ", " two\nlines "),
        (of("email", placeholder="a@b.org"), ("nobody", "a@b"), " a@b.org ", "a@b.org"),
        (of("number", min=1, max=9), ("0", "ten", "1_0", "inf"), "2.5", 2.5),
        (of("currency", prefix="$", suffix=" USD"), ("$x",), "$1,000 USD", 1_000),
        (of("slider", min=0, max=10, step=5), ("3",), "5", 5),
        (of("date"), ("2026-13-01", "2025-02-29", "tomorrow"), "2024-02-29", "2024-02-29"),
        (of("time"), ("24:00",), "23:59", "23:59"),
        (of("datetime"), ("2026-01-01",), "2026-01-01T10:00", "2026-01-01T10:00"),
        (
            of("daterange"),
            ("2026-01-01", "2026-02-01 to 2026-01-01"),
            "2026-01-01 to 2026-02-01",
            {"start": "2026-01-01", "end": "2026-02-01"},
        ),
        (of("radio", options=OPTIONS), ("d", '["a", "b"]', "[a"), "pear", "b"),
        (of("buttongroup", options=OPTIONS), ("0", "9"), "3", "c"),
        (of("dropdown", options=OPTIONS, multiple=True), ("a, d",), "1, Pear, a", ["a", "b"]),
        (of("checkbox", options=OPTIONS), ('["d"]',), '["c"]', ["c"]),
    ],
)
def test_a_question_is_asked_until_its_answer_fits(question, wrong, right, value):
    played = play(form({**question, "required": True, "helpText": "Think."}), done(), answers=("", *wrong, right))
    assert json.dumps({"q1": value}, ensure_ascii=False) in played.last
    assert len(played.questions) == len(wrong) + 2
    assert "L1 *" in played.questions[0]
    assert "That does not do: an answer is needed." in played.questions[1]


def test_buttons_are_shown_side_by_side_and_a_default_is_said():
    played = play(form({**of("radio", options=OPTIONS), "defaultValue": "a"}), done(), answers=("",))
    assert '[1] Apple  [2] Pear  [3] c\n(a number or a value; empty: "a")' in played.questions[0]  # fmt: skip
    titled = play(form(of("radio", options=OPTIONS), title="T", description="D"), done(), answers=("",))
    assert titled.questions == ["Please.\nT\nD\nL1\n  1. Apple\n  2. Pear\n  3. c\n(a number or a value; may be empty)"]
    assert '{"q1": null}' in titled.last


@pytest.mark.parametrize(
    ("questions", "fault"),
    [
        ([5], "questions[0] must be an object"),
        ([], "must hold 1 to 100 questions"),
        ([of("text"), {**of("text"), "id": "q1"}], "two have the same id"),
        ([{"type": 5}], "questions[0].type must be an object with a type"),
        ([{"type": "moon"}], "questions[0].type.type must be one of text"),
        ([{**of("text"), "widthHint": "huge"}], "widthHint must be one of"),
        ([of("number", min=2, max=1)], "min is above max"),
        ([of("slider", step=0)], "step must be above 0"),
        ([of("number", min="1")], "questions[0].type.min must be"),
        ([of("text", maxLength=-1)], "maxLength must be a whole number from 0"),
        ([{**of("number"), "defaultValue": "x"}], "defaultValue does not fit"),
        ([of("radio")], "options must hold at least one option"),
        ([of("radio", options=[{"label": "x"}])], "options[0].value is missing"),
    ],
)
def test_a_form_that_cannot_be_asked_is_refused_with_its_place(questions, fault):
    asked = [{"id": f"q{n}", "label": "L", **each} if isinstance(each, dict) else each for n, each in
             enumerate(questions, 1)]  # fmt: skip
    assert fault in told({"message": "m", "responseForm": {"questions": asked}})


def test_what_is_no_form_and_no_list_of_commands_is_refused():
    assert "responseForm must be an object" in told({"responseForm": []})
    assert "actionableCommands must be a list" in told({"actionableCommands": {}})
    assert "automaticCommands[0] must be an object" in told({"automaticCommands": [5]})
    assert "actionableCommands[0].type must be one of open:resource" in told({"actionableCommands": [{}]})


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ({"type": "open:resource", "label": "L", "entityName": "Orders", "keys": {"id": 1}},
         '[view Record] L: Orders {"id": 1}'),
        ({"type": "open:resource", "label": "L", "resourceType": "report", "mode": "EDIT"}, "[edit Report] L"),
        ({"type": "open:url", "label": "L", "url": "https://a.org"}, "[open] L: https://a.org"),
        ({"type": "client:capture-data-snapshot", "label": "L"}, "[capture] L"),
        ({"type": "compose:email", "label": "L", "to": ["a@b.c", "d@e.f"], "subject": "x y"},
         "[compose] L: mailto:a@b.c,d@e.f?subject=x%20y"),
        ({"type": "compose:email", "label": "L", "body": "x" * 2_000, "artifactId": "7"},
         "[compose] L: too long for a link; see the artifact 7"),
        ({"type": "compose:email", "label": "L", "body": "x" * 2_000}, "[compose] L: too long for a link"),
    ],
)  # fmt: skip
def test_a_command_that_a_person_can_take_is_told_in_one_line(command, line):
    played = play({"message": "Look.", "actionableCommands": [command]}, done(), answers=("seen",))
    assert played.done.said[0] == line


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ({"type": "refresh:data", "scope": "cache", "cacheName": "ai"}, "[refresh] cache AI"),
        ({"type": "refresh:data", "entityNames": ["A", "B"]}, "[refresh] A, B"),
        ({"type": "refresh:data"}, "[refresh] everything"),
        ({"type": "notification", "message": "Well\ndone", "severity": "success", "duration": 5.0},
         "[success] Well done"),
    ],
)  # fmt: skip
def test_a_command_that_is_carried_out_is_told_in_one_line(command, line):
    assert play({"automaticCommands": [command]}, done()).done.said[0] == line


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ({"type": "open:url", "label": "L", "url": "javascript:x"}, "url must begin with http:// or https://"),
        ({"type": "compose:email", "label": "L", "to": [5]}, "to must be a text or a list of texts"),
        ({"type": "open:url", "url": "https://a.org"}, "label is missing"),
    ],
)
def test_a_command_that_does_not_fit_is_refused(command, fault):
    assert fault in told({"actionableCommands": [command]})


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        (for_each(indexVariable="ITEM"), "indexVariable must not be the item variable"),
        (for_each(itemVariable="payload"), "itemVariable must be a plain name other than payload"),
        (for_each(subAgent={"name": "a", "message": "m"}), "must have either action or subAgent"),
        (for_each(maxConcurrency=65), "maxConcurrency must be a whole number from 1 to 64"),
        (for_each(executionMode="both"), "executionMode must be one of sequential, parallel"),
        (for_each(action={"name": "x", "outputMapping": "a..b"}), "outputMapping: 'a..b' is not a path in the payload"),
        (for_each(action={"name": "x", "outputMapping": {"a..b": "c"}}), "'a..b' is not a path in a result"),
        (while_("true", itemVariable="Index"), "itemVariable must not be index"),
        (step("While"), "nextStep.while is missing"),
        (step("Actions", actions=[5]), "nextStep.actions[0] must be an object"),
        (step("Dance"), "nextStep.type 'dance' is not known"),
        (step("Retry", messageIndex="1"), "messageIndex must be a whole number"),
        (step("Chat"), "a Chat needs a message"),
        ({"nextStep": {"type": 5}}, "nextStep.type must be a text"),
        ({"nextStep": {"actions": [{"name": "a"}], "while": {}}}, "actions and while are all there"),
        ({"nextStep": {}}, "nextStep.type is missing"),
        ({"payloadChangeRequest": []}, "payloadChangeRequest must be an object"),
        ({"payloadChangeRequest": {"newElements": []}}, "payloadChangeRequest.newElements must be an object"),
        ({}, "it asks for nothing"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_of_it_is_done(reply, fault):
    played = play(reply, done())
    assert fault.lower() in played.last.lower()
    assert played.calls == []


def test_what_is_strange_and_does_no_harm_is_told():
    reply = actions("Poll") | {"sun": 1, "confidence": "high"}
    reply["nextStep"]["type"] = ""
    last = told(reply)
    assert "not known and passed over: sun" in last
    assert "confidence is not a number" in last
    assert "The expansion failed: unknown result #1." in told({"nextStep": {"messageIndex": 1}})
    assert "the form was dropped: it goes with a Chat" in told(form(of("text")) | actions("Poll"))
    assert "it is true or false and not one JSON object" in told("true")
    dropped = play({"taskComplete": True, "message": "m", "nextStep": {"type": 5}})
    assert dropped.done.said == ["m"]


def test_reasoning_alone_is_said_to_the_person():
    assert play({"reasoning": "So."}, done(), answers=("Well.",)).questions == ["So."]
    assert play({"reasoning": "So.", "nextStep": {"type": "chat"}}, done(), answers=("Well.",)).questions == ["So."]


def changed(payload: dict, allowed: str = "[]", /, **request: Any) -> tuple[Any, str]:
    """Return the payload after a change, and the notes that the model received."""
    agent = f"{AGENT}payload: {json.dumps(payload)}\nallowed_paths: {allowed}\n"
    played = play(change(**request), done(), agent=agent)
    return played.value, played.last


@pytest.mark.parametrize(
    ("payload", "request_", "after"),
    [
        ({"a": 1}, {"updateElements": {"a": {}}}, {"a": 1}),
        ({"a": {"b": 1}}, {"updateElements": {"a": {"b": 2, "c": 3}}}, {"a": {"b": 2, "c": 3}}),
        ({"a": [1, {"b": 2}]}, {"updateElements": {"a": [0, {"b": 3}, 4]}}, {"a": [0, {"b": 3}, 4]}),
        ({"a": [1, 2, 3]}, {"updateElements": {"a": [{}, "__DELETE__", 5]}}, {"a": [1, 5]}),
        ({"a": 1, "b": 2}, {"updateElements": {"a": "__DELETE__"}}, {"b": 2}),
        ({"a": [1]}, {"newElements": {"a": 2}}, {"a": [1, 2]}),
        ({"a": [1]}, {"newElements": {"a": [2, "__DELETE__"]}}, {"a": [1, 2]}),
        ({"a": {"b": 1}}, {"newElements": {"a": {"c": {"d": "__DELETE__", "e": [1, "__DELETE__"]}}}},
         {"a": {"b": 1, "c": {"e": [1]}}}),
        ({"a": {"b": [1, {"c": 2, "d": 3}]}},
         {"removeElements": {"a": {"b": ["__DELETE__", {"c": "__DELETE__"}]}}}, {"a": {"b": [{"d": 3}]}}),
        ({"a": 1}, {"replaceElements": {"a": {"b": 1}}, "updateElements": {"a": 5}}, {"a": {"b": 1}}),
        ({}, {"replaceElements": {"a": 1}}, {"a": 1}),
        ({"a": 1}, {"removeElements": {"a": "__DELETE__"}, "newElements": {"a": 2}}, {"a": 2}),
        ({"a": True}, {"updateElements": {"a": 1}}, {"a": 1}),
        ({"a": 1}, {"removeElements": {"a": None}, "_own": 1, "$x": 2, "reasoning": "r"}, {"a": 1}),
    ],
)  # fmt: skip
def test_a_change_of_the_payload(payload, request_, after):
    assert changed(payload, **request_)[0] == after


@pytest.mark.parametrize(
    ("payload", "request_", "note"),
    [
        ({"a": 1}, {"newElements": {"a": 2}}, "'a' was in newElements but already exists (treated as update)"),
        ({}, {"updateElements": {"a": 2}}, "'a' was in updateElements but does not exist (treated as addition)"),
        ({"a": 1}, {"a": 2}, "'a' stood outside of the known words (moved to updateElements)"),
        ({}, {"a": 2}, "'a' stood outside of the known words (moved to newElements)"),
        ({}, {"newElements": {"a": 1}, "a": 2}, "'a' is also among the known words; the explicit entry is used"),
        ({}, {"removeElements": {"a": "__DELETE__"}}, "'a' was to be removed and is not there"),
        ({"a": 1}, {"removeElements": {"a": 5}}, "'a' in removeElements was kept"),
        ({"a": "x" * 100}, {"updateElements": {"a": "x"}}, "'a' lost 99% of its 100 characters"),
        ({"a": [1]}, {"removeElements": {"a": "__DELETE__"}}, "'a' was removed and was not empty"),
        ({"a": True}, {"updateElements": {"a": "x"}}, "'a' was true or false and is a text"),
        ({"a": 1}, {"updateElements": {"a": [1]}}, "'a' was a number and is a list"),
        ({"a": {"b": 1}}, {"updateElements": {"a": 1}}, "'a' was an object and is a number"),
        ({}, {"newElements": {"a": {"b": [5, "and so on ..."]}}}, "'a' contains what looks like a placeholder"),
        ({"a": 1}, {"updateElements": {"a": "..."}}, "'a' contains what looks like a placeholder"),
    ],
)
def test_what_is_corrected_or_odd_in_a_change_is_told(payload, request_, note):
    assert note in changed(payload, **request_)[1]


@pytest.mark.parametrize(
    ("allowed", "request_", "after", "blocked"),
    [
        ("[a]", {"updateElements": {"a": 2, "b": {"c": 2}}}, {"a": 2, "b": {"c": 1}, "l": [1, 2]}, "update 'b.c'"),
        ('["b.*:add"]', {"newElements": {"b": {"d": 1}}, "removeElements": {"b": {"c": "__DELETE__"}}},
         {"a": 1, "b": {"c": 1, "d": 1}, "l": [1, 2]}, "Cannot delete 'b.c'"),
        ('["**.c"]', {"updateElements": {"a": 2, "b": {"c": 2}}}, {"a": 1, "b": {"c": 2}, "l": [1, 2]}, "update 'a'"),
        ('["l[*]:update,delete"]', {"newElements": {"l": [3]}, "removeElements": {"l": ["__DELETE__"]}},
         {"a": 1, "b": {"c": 1}, "l": [2]}, "Cannot add 'l[1]'"),
        ('["l:add"]', {"removeElements": {"l": ["__DELETE__"]}}, {"a": 1, "b": {"c": 1}, "l": [1, 2]},
         "Cannot delete 'l[0]'"),
        ('["a:update"]', {"replaceElements": {"a": 5}}, {"a": 1, "b": {"c": 1}, "l": [1, 2]}, "'a'"),
        ('["a:add"]', {"replaceElements": {"a": 5}}, {"a": 1, "b": {"c": 1}, "l": [1, 2]}, "Cannot delete 'a'"),
    ],
)  # fmt: skip
def test_what_may_not_be_changed_is_blocked_and_named(allowed, request_, after, blocked):
    found, note = changed({"a": 1, "b": {"c": 1}, "l": [1, 2]}, allowed, **request_)
    assert found == after
    assert blocked in note


def test_of_a_new_object_the_members_that_may_be_added_are():
    found, note = changed(
        {}, '["new.deep.a"]', newElements={"new": {"deep": {"a": 1, "b": 2}, "c": 3}, "other": {"x": 1}}
    )
    assert found == {"new": {"deep": {"a": 1}}}
    assert "'new.deep.b'" in note
    assert "'new.c'" in note
    assert "'other'" in note


@pytest.mark.parametrize(
    ("params", "given"),
    [
        ({"n": "item.a.b"}, {"n": [1]}),
        ({"n": "{{ ITEM.a }}"}, {"n": {"b": [1]}}),
        ({"n": ["x {{item.a}} {{item.t}} {{index}}"]}, {"n": ['x {"b": [1]} text 0']}),
        ({"n": "item"}, {"n": {"a": {"b": [1]}, "t": "text"}}),
        ({"n": "{{nobody}}"}, {"n": "nobody"}),
        ({"n": "no.such"}, {"n": "no.such"}),
        ({"n": "items[0].t"}, {"n": "items[0].t"}),
        ({"n": "payload.items[0].t"}, {"n": "text"}),
        ({"n": "Well, {{nobody}}!", "m": 5}, {"n": "Well, nobody!", "m": 5}),
        ({"n": "payload"}, {"n": "payload"}),
    ],
)
def test_references_in_a_loops_parameters(params, given):
    agent = AGENT + "payload: {items: [{a: {b: [1]}, t: text}]}\n"
    loop = for_each(action={"name": "fetch", "params": params})
    assert play(loop, done(), agent=agent).calls[0].arguments == given


@pytest.mark.parametrize(
    ("condition", "polls"),
    [
        ("attempt.attemptNumber < 3 && !payload.done", 2),
        ("results.filter(r => r > 0).length < 2", 2),
        ("!results.includes(1)", 1),
        ("results.indexOf(1) === -1 || results.lastIndexOf(1) < 1", 2),
        ("payload.name.toUpperCase().endsWith('XY') && results.length == 0", 1),
        ("results.toString() !== '1,1'", 2),
        ("typeof nobody === 'undefined' && results.map(r => r + 1).reduce((a, b) => a + b, 0) < 4", 2),
        ("'0x1' == 1 && '' == 0 && 'x' != 1 && results.length < 1", 1),
        ("results.some(r => r === 1) == false", 1),
        ("payload['name'][0] + 1 === 'x1' && -results.length > -2", 2),
        ("[1, NaN].includes(NaN) && ![NaN].includes(1) && results.length < 1", 1),
        ("[1].reduce((f, x) => f == [], y => y) === false && results.length < 1", 1),
        (f"'0x{'f' * 300}' == Infinity && results.length < 1", 1),
    ],
)
def test_conditions_of_a_while_loop(condition, polls):
    agent = AGENT + "payload: {name: xy, done: false}\n"
    played = play(while_(condition, maxIterations=9), done(), agent=agent, tool=lambda _: ToolAnswer(1))
    assert (len(played.calls), "could not be evaluated" in played.last) == (polls, False)


@pytest.mark.parametrize(
    ("condition", "fault"),
    [
        ("results.dance()", "dance is not a function"),
        ("results.map(1)", "map takes a function"),
        ("results.indexOf(1, 2)", "indexOf takes one argument"),
        ("payload.none.more", "cannot read 'more' of undefined"),
        ("(1)(2)", "only methods can be called"),
    ],
)
def test_a_condition_that_cannot_be_evaluated_is_told_why(condition, fault):
    assert fault in told(while_(condition))
