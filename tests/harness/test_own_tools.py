"""What a stranger's function may do: raise, print, fork, and return whatever it likes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stackmem.core.program_events import ToolAnswered
from stackmem.errors import UsageError
from stackmem.harness.own_tools import TOOLS, OwnTool, from_function, register


@pytest.fixture(autouse=True)
def own() -> Iterator[None]:
    kept = dict(TOOLS)
    yield
    TOOLS.clear()
    TOOLS.update(kept)


def answer_of(function: Callable[..., Any], **given: Any) -> ToolAnswered:
    return from_function(function, name=None, description=None, parallel=False, idempotent=False).answer(given)


class MuteError(Exception):
    def __str__(self) -> str:
        raise ValueError("I say nothing")


def exits() -> None:
    raise SystemExit(0)


def closes() -> None:
    raise GeneratorExit


def mutters() -> None:
    raise MuteError


def half() -> None:
    raise ValueError("\udc80 is half a character")


@pytest.mark.parametrize("function", [exits, closes, mutters, half])
def test_whatever_a_tool_raises_is_its_failure_and_can_be_kept(function: Callable[..., Any]) -> None:
    answer = answer_of(function)
    assert answer.failed == "error"
    assert answer.detail.encode()


def nested(deep: int) -> Any:
    return nested(deep - 1) if deep > 1 and deep % 100 == 0 else [nested(deep - 1)] if deep else 1


@pytest.mark.parametrize(
    "value", [object(), float("nan"), float("inf"), {1, 2}, nested(400), b"\xff", MuteError(), {"a": object()}]
)
def test_what_is_no_json_is_no_result(value: Any) -> None:
    def gives() -> Any:
        return value

    answer = answer_of(gives)
    assert (answer.value, answer.failed) == (None, "error")


def test_half_a_character_in_a_result_is_replaced_so_that_it_can_be_kept() -> None:
    def gives() -> Any:
        return {"a\ud800": ["\udc00"]}

    assert answer_of(gives).value == {"a�": ["�"]}


def test_what_a_tool_prints_is_not_on_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    def prints() -> int:
        sys.stdout.write("look at me\n")
        return 1

    assert answer_of(prints).value == 1
    sys.stdout.write("mine\n")
    out, err = capfd.readouterr()
    assert (out, err) == ("mine\n", "look at me\n")


def test_a_tool_that_forks_leaves_no_second_run() -> None:
    def forks() -> int:
        return os.fork()

    child = answer_of(forks).value
    assert os.waitpid(child, 0)[1] == 0


def test_two_tools_of_one_name_are_refused_together() -> None:
    tools = [OwnTool(name, "", lambda _: None, dict) for name in ("a_b", "a_b")]
    with pytest.raises(UsageError, match="there already"):
        register(tools)
    assert "a_b" not in TOOLS


def test_a_description_that_floods_is_cut_with_a_mark() -> None:
    spec = OwnTool("flood", "x " * 100_000 + "\ud800", lambda _: None, lambda: {"title": "\ud800"}).spec
    assert len(spec.description) <= 8_000
    assert spec.description.endswith("[…]")
    assert json.loads(spec.schema) == {"title": "�"}
