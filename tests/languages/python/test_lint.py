"""The linter names what a program must not do, before a run starts."""

import pytest

from stackmem.core.requests import LoadSource
from stackmem.languages.language import read_with
from stackmem.languages.operations import Source
from stackmem.languages.python.language import lint, stop_lines
from tests.languages.python.programs import run
from tests.stage import Stage

STEP = "import stackmem\n@stackmem.step\ndef main():\n"


def findings(text: str) -> list[tuple[str, str, int]]:
    def load(asked: LoadSource) -> Source:
        raise AssertionError(asked)

    return [(each.severity, each.code, each.line) for each in read_with(lint("main.step.py", text), load)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{STEP}    return 1\n", []),
        (f"{STEP}    return stackmem.shell('x').stdout\n", []),
        ("from stackmem import step, ask as question\n@step\ndef main():\n    return question('x')\n", []),
        ("import stackmem as s\n@s.step\ndef main():\n    return s.ask('x')\n", []),
        ("x = (\n", [("error", "python/syntax-error", 1)]),
        ("def f(a, a): pass\n", [("error", "python/syntax-error", 1)]),
        ("x = 1\n", [("error", "python/no-step", 1)]),
        (f"{STEP}    return stackmem.aks('x')\n", [("error", "python/unknown-name", 4)]),
        (f"{STEP}    return 1\nstackmem.ask('x')\n", [("error", "python/effect-outside-step", 5)]),
        (f"{STEP}    open('x')\n", [("error", "python/not-repeatable", 4)]),
        (f"{STEP}    import subprocess as p\n    p.run(['x'])\n", [("error", "python/not-repeatable", 5)]),
        (f"from subprocess import run\n{STEP}    run(['x'])\n", [("error", "python/not-repeatable", 5)]),
        (f"import os\n{STEP}    os.system('x')\n    os.path.join('a')\n", [("error", "python/not-repeatable", 5)]),
        (f"import threading\n{STEP}    threading.Thread()\n", [("error", "python/not-repeatable", 5)]),
        (f"import socket\n{STEP}    socket.create_connection(('a', 1))\n", [("error", "python/not-repeatable", 5)]),
        (f"import asyncio\n{STEP}    asyncio.run(None)\n", [("error", "python/not-repeatable", 5)]),
        (f"import time\n{STEP}    time.sleep(1)\n    time.time()\n",
         [("warning", "python/not-recorded", 5), ("note", "python/controlled-clock", 6)]),
        (f"from datetime import datetime\n{STEP}    datetime.now()\n", [("note", "python/controlled-clock", 5)]),
        (f"{STEP}    return id(1)\n", [("warning", "python/not-recorded", 4)]),
        (f"def open(x): return x\n{STEP}    return open('x')\n", []),
        ("import stackmem\n@stackmem.step\nasync def main(): pass\n", [("error", "python/async-step", 3)]),
        ("import stackmem\n@stackmem.step\ndef main():\n    yield 1\n", [("error", "python/generator-step", 3)]),
        ("import stackmem\n@stackmem.step\ndef main(*a): pass\n", [("error", "python/bad-signature", 3)]),
        ("import stackmem\n@stackmem.step\ndef main(a: bytes): pass\n", [("error", "python/bad-annotation", 3)]),
        ("import stackmem\n@stackmem.step\ndef main(a: dict[int, str]): pass\n",
         [("error", "python/bad-annotation", 3)]),
    ],
)  # fmt: skip
def test_the_findings_on_a_program(text: str, found: list) -> None:
    assert findings(text) == found


def test_an_error_stops_a_run_before_its_first_effect(stage: Stage) -> None:
    result, _ = run(stage, f"{STEP}    stackmem.write_file('x', 'y')\n    open('x').read()\n")
    assert (result["outcome"], result["changed"]) == ("halted", [])
    assert (
        "main.step.py:5:5: open cannot be repeated when the run is resumed; use stackmem.read_file" in result["result"]
    )


def test_inputs_are_checked_before_the_start(stage: Stage) -> None:
    text = "import stackmem\n@stackmem.step\ndef main(n: int, names: list[str] = []):\n    return [n, names]\n"
    result, _ = run(stage, text, "--input", "n:=1", "--input", 'names:=["a"]')
    assert result["value"] == [1, ["a"]]
    for given, says in (
        ((), "main needs the input n"),
        (("--input", "n=1"), "the input n of main.step.py does not fit"),
        (("--input", "n:=1", "--input", "m:=2"), "main.step.py has no input 'm'; known: n, names"),
    ):
        result, _ = run(stage, text, *given)
        assert says in str(result), result


def test_a_debugger_can_stop_at_statements() -> None:
    assert sorted(stop_lines("a", f"{STEP}    x = 1\n    return (x +\n        1)\n")) == [1, 4, 5]
    assert list(stop_lines("a", "x = (")) == []
