"""Random values without cycles are written and read back equal in each language."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from stackmem.core.requests import InvokeTool
from stackmem.languages.apl.language import LANGUAGE as APL
from stackmem.languages.language import Launch
from stackmem.languages.loop_agent.payload import apply_change
from stackmem.languages.loop_agent.reply_json import read_object
from stackmem.languages.operations import ToolAnswer
from stackmem.languages.playbook.reply import read_reply
from stackmem.languages.playbook.reply_items import SetVar
from stackmem.languages.playbook.session_log import value_text
from stackmem.languages.python import messages
from stackmem.languages.python.inside.api import EffectFailed
from stackmem.languages.python.inside.runner import EffectChannel
from stackmem.languages.sexp.errors import Budget
from stackmem.languages.sexp.reader import read
from stackmem.languages.sexp.tree import datum
from stackmem.languages.sexp.values import as_json, from_python, to_source
from tests.compliance.apl_stage import PACKAGED
from tests.conftest import CAMPAIGN
from tests.languages.in_memory import run_in_memory

pytestmark = pytest.mark.timeout(36_000 if CAMPAIGN else 600)
SAMPLES = 100_000 if CAMPAIGN else 250
PIECES = (
    "", "a", "two words", "naïve", "\n", "\t", '"', "'", "\\", "`", "$x", "{{ x }}", "{% if %}", "null", "true",
    "nil", "no", "0", "-1", "1e5", "~", "#<cycle>", "…", "...", "[1]", "{}", "a: b", "- a", "# a", ";", "(", ")", ",",
    "\u2028", "\U0001f600", "yld call", "]`", "```json", "item.a", "payload", "a.b[0]",
)  # fmt: skip


def value_of(draw: random.Random, depth: int) -> Any:
    """Return a JSON value whose texts mean something in one of the languages."""
    kind = draw.randrange(9 if depth else 6)
    if kind < 3:
        return "".join(draw.choice(PIECES) for _ in range(draw.randrange(4)))
    if kind == 3:
        return draw.choice([0, 1, -1, 7, 2**53, -(10**12)])
    if kind == 4:
        return draw.choice([0.5, -2.25, 1e-9, 1e300])
    if kind == 5:
        return draw.choice([None, True, False])
    inner = [value_of(draw, depth - 1) for _ in range(draw.randrange(4))]
    if kind < 8:
        return inner
    return {f"k{number}{draw.choice(PIECES)}": item for number, item in enumerate(inner)}


def values() -> list[Any]:
    return [value_of(random.Random(seed), 4) for seed in range(SAMPLES)]


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal and of the same types at every level."""
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def nil(value: Any) -> Any:
    """Return the value as S-expressions have it: null is the empty list."""
    if isinstance(value, dict):
        return {key: nil(item) for key, item in value.items()}
    return [nil(item) for item in value] if isinstance(value, list) else [] if value is None else value


def pairs(value: Any) -> Any:
    """Return the value as the source of a S-expression has it, in which a mapping is a list of pairs."""
    if isinstance(value, dict):
        return [[key, pairs(item)] for key, item in value.items()]
    return [pairs(item) for item in value] if isinstance(value, list) else [] if value is None else value


def names_as_text(value: Any) -> Any:
    if isinstance(value, list):
        return [names_as_text(item) for item in value]
    return str.__str__(value) if isinstance(value, str) else [] if value is None else value


def test_sexp_source_reads_back() -> None:
    for value in values():
        (node,) = read(to_source(from_python(value)))
        assert same(names_as_text(datum(node)), pairs(value)), value


def test_sexp_values_leave_as_json() -> None:
    for value in values():
        expected = nil(value)
        assert same(as_json(from_python(value), Budget()), None if expected == [] else expected), value


def test_a_playbook_reads_the_values_that_it_shows() -> None:
    for value in values():
        reply = read_reply(f"`Var[$x, {value_text(value, 10**6)}]`")
        (item,) = [each for each in reply.items if isinstance(each, SetVar)]
        assert same(item.value, value), value


def test_a_loop_agent_stores_the_values_of_a_reply() -> None:
    for value in values():
        found = read_object(json.dumps({"v": value}, ensure_ascii=False))
        assert found.value is not None, found.fault
        change = apply_change({"old": 1}, {"newElements": found.value})
        assert same(change.result, {"old": 1, "v": value}), value
        replaced = apply_change({"v": [1, {"a": 2}]}, {"replaceElements": found.value})
        assert same(replaced.result, {"v": value}), value


LIBRARY = {"stackmem:apl/APL_STL.yml": PACKAGED}
PROGRAM = """
inputs: [{name: v, description: A value.}]
setup:
  - {name: Copy, tool: set_vars, vars: {copy: "{{ v }}", inner: {list: ["{{ v }}"]}}}
  - {name: Write, tool: write_file, path: v.json, content: "{{ v | tojson }}"}
  - {name: Read, tool: read_file, path: v.json, as_type: json, register: back}
"""


def test_apl_copies_writes_and_reads_a_value() -> None:
    for value in values():
        files: dict[str, str] = {}

        def perform(asked: Any, files: dict[str, str] = files) -> ToolAnswer:
            assert isinstance(asked, InvokeTool)
            path = str(asked.arguments["path"])
            if asked.tool == "write_file":
                files[path] = str(asked.arguments["content"])
            return ToolAnswer(files[path] if asked.tool == "read_file" else None)

        done = run_in_memory(APL.start(Launch("/w/main.apl", PROGRAM, {"v": value})), perform, LIBRARY)
        assert done.halted is None, done.halted and done.halted.report
        result: Any = done.value
        assert same(result["copy"], value), value
        assert same(result["inner"], {"list": [value]}), value
        assert same(result["back"], value), value


def test_a_python_program_sends_and_receives_a_value(tmp_path: Path) -> None:
    order = {"file": "/w/main.step.py", "home": "/w", "line": 1, "watched": False}
    for value in values():
        channel = EffectChannel(str(tmp_path), order, EffectFailed)
        channel.enter("main", "", 1)
        (tmp_path / "answer-0.json").write_text(json.dumps({"value": value, "clock": 1.0}), encoding="utf-8")
        assert same(channel.request("run_program", path="a.apl", inputs={"v": value}), value), value
        message = messages.read_message(json.loads((tmp_path / "ask-0.json").read_text("utf-8")), "main")
        asked = messages.read_arguments(message)
        assert isinstance(asked, messages.CalleeRequest)
        assert same(asked.inputs, {"v": value}), value
