"""A stranger's tool function may raise, print, fork, and return anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from stackmem.core.errors import UsageError
from stackmem.core.program_facts import ToolAnswered
from stackmem.settings.tools.own_tools import TOOLS, OwnTool, from_function, register
from tests.stage import ROOT


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
def test_a_result_that_is_not_json_is_refused(value: Any) -> None:
    def gives() -> Any:
        return value

    answer = answer_of(gives)
    assert (answer.value, answer.failed) == (None, "error")


def test_half_a_character_in_a_result_is_replaced_so_that_it_can_be_kept() -> None:
    def gives() -> Any:
        return {"a\ud800": ["\udc00"]}

    assert answer_of(gives).value == {"a�": ["�"]}


def test_a_tools_prints_do_not_reach_stdout(capfd: pytest.CaptureFixture[str]) -> None:
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
    with pytest.raises(UsageError, match="already exists"):
        register(tools)
    assert "a_b" not in TOOLS


def test_a_description_that_floods_is_cut_with_a_mark() -> None:
    spec = OwnTool("flood", "x " * 100_000 + "\ud800", lambda _: None, lambda: {"title": "\ud800"}).spec
    assert len(spec.description) <= 8_000
    assert spec.description.endswith("[…]")
    assert json.loads(spec.schema) == {"title": "�", "type": "object"}


def test_a_call_that_takes_too_long_timed_out_and_its_python_code_ends() -> None:
    ended = threading.Event()

    def forever() -> None:
        try:
            while True:
                time.sleep(0.001)
        finally:
            ended.set()

    slow = from_function(forever, name=None, description=None, parallel=False, idempotent=False, seconds=0.1)
    assert slow.answer({}) == ToolAnswered(
        None, "timeout", "no answer within 0.1 s; what it does after that is not waited for"
    )
    assert slow.text({})[0].startswith("forever failed (timeout): no answer within 0.1 s")
    assert ended.wait(100)


def test_calls_one_after_another_come_to_one_thread_also_after_one_was_too_late() -> None:
    def where(wait: float = 0) -> int:
        time.sleep(wait)
        return threading.get_ident()

    one = from_function(where, name=None, description=None, parallel=False, idempotent=False, seconds=1.0)
    first = one.answer({}).value
    assert first == one.answer({}).value != threading.get_ident()
    assert one.answer({"wait": 2.0}).failed == "timeout"
    later = one.answer({}).value
    assert later == one.answer({}).value != first
    here = from_function(where, name=None, description=None, parallel=False, idempotent=False, seconds=None)
    assert here.answer({}).value == threading.get_ident()


STUCK = """
import os, sys, threading, time
from stackmem.settings.tools.own_tools import from_function

def stuck():
    while True:
        try:
            threading.Lock().__enter__() or os.read(os.pipe()[0], 1)
        except BaseException:
            pass

one = from_function(stuck, name=None, description=None, parallel=False, idempotent=False, seconds=0.2)
print(one.answer({}).failed, flush=True)
"""


def test_a_function_that_cannot_be_ended_does_not_keep_the_process_from_ending() -> None:
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "timeout\n", "")


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_time_limit_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(UsageError, match="seconds"):
        from_function(nested, name="x", description=None, parallel=False, idempotent=False, seconds=seconds)


def test_a_forked_process_calls_tools_in_threads_of_its_own() -> None:
    def process() -> int:
        return os.getpid()

    one = from_function(process, name=None, description=None, parallel=False, idempotent=False, seconds=20)
    assert one.answer({}).value == os.getpid()
    child = os.fork()
    if not child:
        os._exit(0 if one.answer({}).value == os.getpid() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_what_a_function_itself_finds_invalid_is_its_failure_and_no_bad_argument() -> None:
    def strict(text: str) -> int:
        return TypeAdapter(int).validate_python(text)

    one = from_function(strict, name=None, description=None, parallel=False, idempotent=False)
    assert one.answer({"text": "7"}).value == 7
    assert one.answer({"text": "seven"}).failed == "error"
    assert one.answer({"text": []}).failed == "bad_arguments"


def test_what_is_no_plain_function_is_called_with_fitted_arguments_too() -> None:
    class Adding:
        def to(self, number: int) -> int:
            return number + 1

    def added(one: int, other: int, **more: int) -> list[int]:
        return [one, other, *more.values()]

    for function, given, value in (
        (Adding().to, {"number": "1"}, 2),
        (partial(added, other=5), {"one": "2", "third": 3}, [2, 5, 3]),
        (lambda any_: any_, {"any_": "x"}, "x"),
    ):
        one = from_function(function, name="one", description="", parallel=False, idempotent=False)
        assert one.answer(given) == ToolAnswered(value)


# In separate processes: if another test's tool overruns its time, stdout is not restored either.
ROUTED = """
import sys
from stackmem.settings.tools.own_tools import from_function

routed, before = [], sys.stdout
one = from_function(lambda: routed.append(id(sys.stdout)), name="one", description="", parallel=False, idempotent=False)
assert [one.answer({}).failed for _ in range(3)] == [""] * 3
assert sys.stdout is before
assert len(set(routed)) == 1
"""


def test_a_stdout_replaced_while_tools_run_stays_open() -> None:
    """Python's print holds no reference to stdout, so a tool that ends in another thread must not close it."""
    done = subprocess.run([sys.executable, "-c", ROUTED], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")


LATE = """
import io, os, sys, threading
from stackmem.settings.tools.own_tools import from_function

threads, (goes_on, let_go) = [], os.pipe()

def waits():
    threads.append(threading.current_thread())
    os.read(goes_on, 1)

def prints():
    sys.stdout.write("a tool's\\n")

before = sys.stdout
slow = from_function(waits, name=None, description=None, parallel=False, idempotent=False, seconds=2)
fast = from_function(prints, name=None, description=None, parallel=False, idempotent=False)
while not threads:  # on a busy machine its time may be over before it begins
    assert slow.answer({}).failed == "timeout"
routed = sys.stdout
assert routed is not before  # the thread still runs, and may print
sys.stdout = put = io.StringIO()
assert fast.answer({}).failed == ""
os.close(let_go)
threads[0].join(60)
sys.stdout.write("a person's\\n")
assert put.getvalue() == "a person's\\n"
sys.stdout = routed
assert fast.answer({}).failed == ""
assert sys.stdout is before
"""


def test_a_tool_that_ends_long_after_its_time_leaves_alone_the_stdout_that_was_put_in_place_since() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "a tool's\n" * 2)


LATE_AT_ONCE = """
import sys, time
from stackmem.settings.tools.own_tools import from_function

def works():
    for _ in range(300):
        pass

before, ended = sys.stdout, time.monotonic() + 60
hurried = [
    from_function(works, name=None, description=None, parallel=False, idempotent=False, seconds=0.00001 * number)
    for number in range(1, 30)
]
late, rounds = 0, 0  # how many are late depends on the machine: go on until enough are
while late <= 20 or rounds < 20:
    late += sum(one.answer({}).failed == "timeout" for one in hurried)
    rounds += 1
    assert time.monotonic() < ended, (late, rounds)
calm = from_function(works, name=None, description=None, parallel=False, idempotent=False)
while sys.stdout is not before and time.monotonic() < ended:
    assert calm.answer({}).failed == ""
assert sys.stdout is before
"""


def test_tools_that_are_ended_as_they_begin_leave_stdout_as_it_was() -> None:
    done = subprocess.run([sys.executable, "-c", LATE_AT_ONCE], capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


IMPORTS = """
import sys, time
from stackmem.settings.tools.own_tools import from_function

def uses_it():
    import takes_a_second
    return takes_a_second.VALUE

one = from_function(uses_it, name=None, description=None, parallel=False, idempotent=False, seconds=0.3)
ended = time.monotonic() + 60
assert one.answer({}).failed == "timeout"
while (answer := one.answer({})).failed == "timeout" and time.monotonic() < ended:
    pass
print(answer.value)
"""


def test_a_module_that_is_imported_for_longer_than_a_call_may_take_is_there_for_later_calls(tmp_path: Path) -> None:
    (tmp_path / "takes_a_second.py").write_text("import time\nfor _ in range(100):\n    time.sleep(0.01)\nVALUE = 7\n")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(tmp_path)))}
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, timeout=200, env=environ)
    assert (done.returncode, done.stdout, done.stderr) == (0, "7\n", "")
