"""Programs that misbehave are stopped, and the report names the line."""

import json
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from stackmem.core.program_facts import Said
from tests.languages.python.programs import killed, program, run
from tests.stage import Stage, events

BODY = "import stackmem\n\n@stackmem.step\ndef main():\n"
PLACE = "import os, sys\n    place = os.path.dirname(sys.modules['__main__'].__file__)\n    "


def halted(stage: Stage, body: str, *more: str, ending: str = "halted") -> str:
    """Run a step with this body, which must halt. Returns the report."""
    result, _ = run(stage, BODY + body, *more)
    assert result["outcome"] == ending, result
    assert stage.call("replay", stage.only_run()).returncode == 0
    return str(result["result"])


@pytest.mark.parametrize(
    ("body", "report"),
    [
        ("    raise ValueError('no')\n", "ValueError: no\n  main.step.py:5 in main\n    raise ValueError('no')"),
        ("    return {1, 2}\n", "main returned a value that is not a JSON value: set is not a JSON value"),
        ("    return float('nan')\n", "main returned a value that is not a JSON value"),
        ("    raise SystemExit(3)\n", "SystemExit: 3\n  main.step.py:5"),
        ("    import os\n    os._exit(3)\n", "main.step.py:0: the program's process ended after this line: exit 3"),
        ("    stackmem.shell(3)\n", "shell: Expected `str`, got `int` - at `$.command`\n  main.step.py:5"),
        ("    stackmem.shell('true', timeout=-1)\n", "bad_arguments: the time limit must be above 0"),
        ("    stackmem.recall('x')\n", "refused"),
        ("    stackmem.call_tool('none')\n", "unknown_tool"),
        ("    stackmem.ask(lambda: 0)\n", "the arguments of ask are not JSON values"),
        ("    stackmem.write_file('x', 'a' * 9_000_000)\n", "too_large"),
        ("    main()\n", "50 frames of the program are open"),
    ],
)  # fmt: skip
def test_a_fault_names_its_line(stage: Stage, body: str, report: str) -> None:
    assert report.replace("main.step.py:0", "main.step.py:") in halted(stage, body).replace(
        "main.step.py:4:", "main.step.py::"
    )


@pytest.mark.parametrize(
    ("body", "instead"),
    [
        ("    getattr(__import__('builtins'), 'open')('main.step.txt', 'w')\n", "use stackmem.write_file"),
        ("    import pathlib\n    pathlib.Path('data.txt').read_text()\n", "use stackmem.read_file"),
        ("    import importlib\n    importlib.import_module('subprocess').run(['true'])\n", "use stackmem.shell"),
        ("    import importlib\n    getattr(importlib.import_module('os'), 'fork')()\n", "use stackmem.shell"),
        ("    import importlib\n    importlib.import_module('socket').socket()\n", "use stackmem.shell"),
        ("    import importlib as i\n    i.import_module('threading').Thread(target=print).start()\n", "ask_all"),
        ("    import importlib\n    importlib.import_module('os').listdir('.')\n", "use stackmem.list_files"),
        ("    import importlib\n    importlib.import_module('os').mkdir('x')\n", "use stackmem.shell"),
    ],
)  # fmt: skip
def test_what_cannot_be_repeated_is_refused(stage: Stage, body: str, instead: str) -> None:
    report = halted(stage, body)
    assert "NotAllowed" in report
    assert instead in report
    assert "main.step.py:" in report


@pytest.mark.parametrize(
    "text",
    ["not json", "[1]", '{"call": 3}', '{"call": "ask"}', '{"call": "ask", "arguments": NaN}', "[" * 100_000, "\\xff",
     '{"call": "notes", "arguments": {}, "file": "main.step.py", "line": 1, "function": "f", "notes": '
     '[{"note": "leave"}]}',
     '{"call": "notes", "arguments": {}, "file": "main.step.py", "line": 1, "function": "f", "notes": '
     '[{"note": "leave", "name": "x", "result": "", "failed": false}]}',
     '{"call": "diverged"}', '{"call": "returned", "arguments": {}, "file": "", "line": 7, "function": ""}'],
)  # fmt: skip
def test_a_malformed_request_halts_the_program(stage: Stage, text: str) -> None:
    body = f"    {PLACE}__builtins__['open'](place + '/ask-1.json', 'w').write({text!r})\n    while True: pass\n"
    report = halted(stage, body, "--command-seconds", "3")
    assert "main.step.py" in report, report


def test_output_that_floods_is_bounded(stage: Stage) -> None:
    body = "    import os\n    for _ in range(3000): os.write(1, b'x' * 100_000)\n"
    assert "ended after this line" in halted(stage, body)


def test_closed_streams_and_a_changed_runner_do_no_harm(stage: Stage) -> None:
    body = (
        "    import os, sys\n    for each in (0, 1, 2): os.close(each)\n    sys.stdout = None\n"
        "    try:\n        raise KeyboardInterrupt\n    except BaseException: pass\n"
        "    return stackmem.shell('echo fine').stdout\n"
    )
    result, _ = run(stage, BODY + body)
    assert (result["outcome"], result["value"]) == ("finished", "fine\n")


def test_installed_packages_may_look_at_their_files(stage: Stage) -> None:
    body = (
        "    import importlib.metadata, sqlite3\n    getattr(sqlite3, 'connect')(':memory:')\n"
        "    return importlib.metadata.version('pytest')\n"
    )
    result, _ = run(stage, BODY + body)
    assert result["outcome"] == "finished", result
    assert result["value"][0].isdigit()


def test_a_program_that_does_not_end_is_stopped(stage: Stage) -> None:
    report = halted(stage, "    stackmem.shell('true')\n    while True: pass\n", "--command-seconds", "2")
    assert report.startswith("main.step.py:5: the program's process ended after this line: timed out after 2 s")


def test_memory_is_bounded(stage: Stage) -> None:
    report = halted(stage, "    kept = [bytearray(1 << 28) for _ in range(40)]\n    return len(kept)\n")
    assert "main.step.py:" in report


def test_printed_text_reaches_the_user_in_order(stage: Stage) -> None:
    body = "    print('one')\n    stackmem.shell('true')\n    print(2, end='')\n    print(3)\n    raise KeyError\n"
    halted(stage, body)
    assert [event.text for event in events(stage.only_run(), Said)] == ["one", "23"]


def test_a_program_that_does_something_else_halts_with_its_line(stage: Stage) -> None:
    """The program imports a module that it has changed."""
    text = (
        f"{BODY}    import helper\n    stackmem.write_file('helper.py', 'TEXT = 2')\n"
        "    stackmem.shell(f'echo {helper.TEXT}')\n    return stackmem.ask('x')\n"
    )
    path = program(stage, text)
    (path.parent / "helper.py").write_text("TEXT = 1\n", "utf-8")
    folder = killed(stage, path, 16, {})
    for _ in range(2):  # a halted run does the same again
        result = json.loads(stage.call("resume", folder, "--json").stdout)
        assert result["outcome"] == "halted", result
        report = result["result"]
        assert report.startswith("main.step.py:7: the program ran again and did not do the same. Request 2 was")
        assert 'recorded: line 7: shell {command: "echo 1"' in report
        assert 'now:      line 7: shell {command: "echo 2"' in report
        assert stage.call("replay", folder).returncode == 0


def test_a_process_without_a_sandbox_ends_when_stackmem_is_killed(stage: Stage) -> None:
    """No namespace ends it there, and it would wait for an answer forever."""
    path = program(stage, BODY + "    stackmem.wait(100)\n")
    line = stage.arguments("run", path, "--model", f"script:{stage.root / 'play.yaml'}", "--isolation", "none")
    with subprocess.Popen(line, cwd=stage.elsewhere, env=stage.environ()) as ran:
        until = time.monotonic() + 60
        while not working_in(stage.work) and time.monotonic() < until:
            time.sleep(0.01)
        ran.kill()
    until = time.monotonic() + 60
    while working_in(stage.work) and time.monotonic() < until:
        time.sleep(0.05)
    assert working_in(stage.work) == []


def working_in(folder: Path) -> list[str]:
    """Return the processes whose current folder is below a folder."""
    numbers = []
    for each in Path("/proc").iterdir():
        with suppress(OSError):
            if each.name.isdecimal() and (each / "cwd").resolve().is_relative_to(folder):
                numbers.append(each.name)
    return numbers
