"""Loop agent cases: decisions, payloads, references, conditions, forms, and the lifetime of results."""

import json
import re
from functools import cache
from pathlib import Path

import pytest

from stackmem.core.program_facts import StepFailed
from stackmem.languages.language import read_with
from stackmem.languages.loop_agent import payload as payloads
from stackmem.languages.loop_agent.compaction import boundary, prune, take_rung
from stackmem.languages.loop_agent.conditions.evaluator import syntax_fault, verdict
from stackmem.languages.loop_agent.conversation import AgentConversation
from stackmem.languages.loop_agent.forms import question_text, read_answer, read_form
from stackmem.languages.loop_agent.lint import lint
from stackmem.languages.loop_agent.paths import parse_rule, path_text
from stackmem.languages.loop_agent.references import ReferenceNames, resolve
from stackmem.languages.loop_agent.reply_json import Misfit
from stackmem.languages.loop_agent.response import read_response
from stackmem.languages.loop_agent.tree import Expiry
from stackmem.languages.operations import Source, ToolAnswer
from tests.compliance.case_files import read_cases
from tests.languages.loop_agent.stage import OWN, play

HERE = Path(__file__).parent / "loop_agent"
PAYLOAD = {
    "a": 1, "t": "Hello", "y": True, "l": [], "z": None, "el": [], "eo": {}, "et": "", "zero": 0, "n": [1, 2, 3],
    "o": {"k": [{"v": "x"}]},
}  # fmt: skip
SEEN = {"payload": PAYLOAD, "results": [1, 2], "errors": [], "item": {"id": 7}}
ITEM = {"name": "Ann", "age": 3, "tags": ["a", "b"], "mail": {"to": "x@y.z"}, "none": None}


@cache
def cases(name):
    loaded = read_cases(HERE / f"{name}.yaml")
    return [pytest.param(case, id=case["says"]) for case in loaded]


def test_there_are_enough_cases_and_no_two_say_the_same():
    names = ("conditions", "references", "decisions", "payload", "forms", "life", "runs", "lint")
    found = [(name, case.id) for name in names for case in cases(name)]
    assert len(found) >= 350
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("case", cases("conditions"))
def test_a_condition(case):
    found = verdict(case["if"], SEEN)
    if "fault" in case:
        assert case["fault"] in found.fault
    else:
        assert (found.holds, found.fault) == (case["holds"], "")
        assert syntax_fault(case["if"]) == ""


@pytest.mark.parametrize("case", cases("references"))
def test_a_reference(case):
    payload = {"jobId": "J1", "list": [10, 20], "sly": "{{item.name}}"}
    names = ReferenceNames({"item": ITEM, "index": 4, "payload": payload, "data": {"tone": "dry"}}, ("item", "index"))
    warnings = []
    found = resolve(case["refer"], names, warnings)
    assert (found, type(found)) == (case["gives"], type(case["gives"]))
    assert len(warnings) == case.get("warns", 0)


@pytest.mark.parametrize("case", cases("decisions"))
def test_a_decision(case):
    reply = case["reply"]
    found = read_response(reply if isinstance(reply, str) else json.dumps(reply))
    assert type(found.step).__name__ == case["step"], found
    for name, value in case.get("has", {}).items():
        assert getattr(found.step, name) == value
    if "fault" in case:
        assert case["fault"] in found.step.fault
    assert len(found.warnings) == len(case.get("warns", []))
    for part, told in zip(case.get("warns", []), found.warnings, strict=True):
        assert part in told
    if "commands" in case:
        assert [command.line for command in (*found.actionable, *found.automatic)] == case["commands"]


@pytest.mark.parametrize("case", cases("payload"))
def test_a_payload_change(case):
    before = json.dumps(case["payload"])
    rules = tuple(parse_rule(text) for text in case.get("allowed", []))
    assert payloads.fault_of(case["request"]) == ""
    change = payloads.apply_change(case["payload"], case["request"], rules)
    assert json.dumps(change.result) == json.dumps(case["gives"])
    assert json.dumps(case["payload"]) == before
    if "counts" in case:
        made = [edit.operation for edit in change.edits]
        assert [made.count(word) for word in ("add", "update", "delete")] == case["counts"]
    if "diff" in case:
        signs = {"add": "+", "update": "~", "delete": "-"}
        assert [f"{signs[edit.operation]} {path_text(edit.path)}" for edit in change.edits] == case["diff"]
    told = {"warns": change.warnings, "blocked": change.blocked, "flags": change.flags}
    for name, found in told.items():
        if name in case:
            assert bool(found) == bool(case[name])
            assert [part for part in case[name] if not any(part in each for each in found)] == []


@pytest.mark.parametrize("case", cases("forms"))
def test_an_answer_to_a_form(case):
    given = {"questions": [{"id": "q", "label": "Q", **case["question"]}]}
    if "misfit" in case:
        with pytest.raises(Misfit, match=rf"^responseForm\.questions\[0\]\.{re.escape(case['misfit'])}"):
            read_form(given)
        return
    form = read_form(given)
    found = read_answer(form.questions[0], case["answer"])
    assert "Q" in question_text(form.questions[0])
    if "fault" in case:
        assert case["fault"] in found.fault
    else:
        assert (found.value, found.fault) == (case["gives"], "")


@pytest.mark.parametrize("case", cases("life"))
def test_the_life_of_a_result(case):
    conversation = AgentConversation("task")
    for kind, chars, turn, *rest in case["entries"]:
        if kind == "note":
            conversation.tell("n" * chars, turn)
        else:
            conversation.result(kind, "r" * (chars - 5), turn, Expiry(**rest[0]) if rest else None)
    before = list(conversation.entries)
    if "boundary" in case:
        assert boundary(conversation.entries, case["turn"]) == case["boundary"]
    asked = []
    if "rung" in case:
        assert take_rung(conversation, case["turn"], case["rung"])
        assert not take_rung(conversation, case["turn"], case["rung"])
    else:
        asked = prune(conversation, case["turn"])
    states = [
        "asked" if index in asked else state(old, new)
        for index, (old, new) in enumerate(zip(before, conversation.entries, strict=True))
    ]
    assert states[1:] == case["shown"]
    found = [conversation.expand(number, case["turn"]) for number in case.get("expand", [])]
    assert found == case.get("expanded", [])
    if found and found[0]:
        assert conversation.entries[len(before)].text.endswith(before[1].text)
    if "told" in case:
        assert case["told"].lower() in conversation.entries[-1].text.lower()
        assert "Do not request this expansion again" in conversation.entries[-1].text


def state(old, new):
    if new.text == old.text:
        return "whole"
    if "[Removed:" in new.text:
        return "removed"
    if "[Trimmed:" in new.text:
        return "trimmed"
    head, _, mark = new.text.partition("\n\n")
    assert old.text.startswith(head)
    assert f"[Compacted: showing first {len(head)} of {len(old.text):,} characters." in mark
    assert new.original == old.text
    return f"first {len(head)}"


ACTIONS = [{"name": "Fetch", "tool": "fetch"}, {"name": "Check", "tool": "shell"}, {"name": "Broken", "tool": "flaky"}]


@pytest.mark.parametrize("case", cases("runs"))
def test_a_run(case):
    given = case.get("agent", {})
    actions = [*ACTIONS, *given.get("actions", [])]
    agent = {"name": "tester", "prompt": "Do it.", **given, "actions": actions}
    first, *rest = case["replies"]
    played = play(*[first] * case.get("repeat", 1), *rest, agent=json.dumps(agent), tool=act)
    if "halts" in case:
        kind, report = case["halts"]
        assert played.halted[0] == kind
        assert report in played.halted[1]
    else:
        assert played.done.halted is None
        assert "gives" not in case or played.value == case["gives"]
    if "failed" in case:
        facts = [each.reason for each in played.done.happened if isinstance(each, StepFailed)]
        assert len(facts) == len(case["failed"]), facts
        assert [part for part, fact in zip(case["failed"], facts, strict=True) if part not in fact] == []
    assert [part for part in case.get("told", []) if part not in played.last] == []
    if "sub" in case:
        assert [part for part in case["sub"] if part not in played.prompt(1)] == []
        assert [part for part in case.get("hidden", []) if part in played.prompt(1)] == []


def act(call):
    """Perform a call of the cases' tools."""
    if call.tool == "flaky":
        return ToolAnswer(None, "error", "it broke")
    if call.tool != "shell":
        return ToolAnswer(call.arguments)
    command = call.arguments["command"]
    code = int(command.removeprefix("exit ")) if command.startswith("exit ") else 0
    found = {"stdout": "" if code else command, "stderr": "failed" if code else "", "exit_code": code}
    return ToolAnswer(found, "exit" if code else "", "it failed" if code else "")


@pytest.mark.parametrize("case", cases("lint"))
def test_a_finding(case):
    prompt = case.get("prompt", "Do it.")
    for word, meant in case.get("with", {}).items():
        prompt = prompt.replace(word, meant)
    if prompt.startswith("{") and not case.get("bare"):
        prompt = f"```json\n{prompt}\n```"
    text = json.dumps({"name": "tester", "prompt": prompt, **case["agent"]})
    found = read_with(lint("/w/main.agent.yaml", text, OWN), no_file)
    assert [(each.severity, each.code) for each in found] == [(one, f"agent/{code}") for one, code, _ in case["finds"]]
    assert [part for (_, _, part), each in zip(case["finds"], found, strict=True) if part not in each.message] == []


def no_file(asked):
    return Source(asked.path, failed="No such file")
