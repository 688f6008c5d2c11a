"""The answer to a command says if the command relies on what ends with it."""

import pytest

from stackmem.workspace.shown import lasting_hint

BACKGROUND, NOT_KEPT = "background processes end", "last only for their command"


@pytest.mark.parametrize(
    "command",
    [
        "python3 -m http.server &",
        "nohup ./serve >log 2>&1 & sleep 1; echo up",
        "(sleep 9 &)",
        "a & b",
        "sleep 5 & disown",
    ],
)
def test_a_process_left_in_the_background_is_mentioned(command: str):
    assert BACKGROUND in lasting_hint(command)


@pytest.mark.parametrize(
    "command",
    [
        "make && make test", "make 2>&1", "make &> log", "make |& tee log", "echo 'a & b'", 'curl "http://h/?a=1&b=2"',
        "ls # a & b", "a & b & wait", r"echo a \& b", "", "&&", "'", "cat <&3",
    ],
)  # fmt: skip
def test_other_ampersands_are_not(command: str):
    assert BACKGROUND not in lasting_hint(command)


@pytest.mark.parametrize(
    "command", ["cd src", "export A=1", "cd src && export A=b;", ". venv/bin/activate", "source x\ncd y"]
)
def test_a_command_that_only_sets_the_shell_up_is_told_that_nothing_is_kept(command: str):
    assert NOT_KEPT in lasting_hint(command)


@pytest.mark.parametrize("command", ["cd src && ls", "export A=1; make", "cdparanoia", "./cd", "exports", "", " ; "])
def test_a_command_that_does_something_is_not(command: str):
    assert lasting_hint(command) == ""
