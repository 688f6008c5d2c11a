"""``--help``: commands in groups, and an example of each that can be typed."""

import shlex

import pytest
import typer

from stackmem.cli.catalog import COMMANDS, EXAMPLES, GROUPS
from stackmem.cli.main import app
from tests.house.test_docs import commands
from tests.stage import Stage

ROOT = typer.main.get_command(app)


def parsed(words: list[str]) -> str:
    """The command that the words call, read as by a call of it; what cannot be read is refused."""
    context, command, rest = None, ROOT, words
    while rest[:1] and rest[0] in getattr(command, "commands", {}):
        context = typer.Context(command, parent=context)
        command, rest = command.commands[rest[0]], rest[1:]
    command.make_context(words[0], rest, parent=context)
    return command.name or ""


def test_the_help_shows_every_command_once_in_its_group(stage: Stage):
    shown = stage.call("--help").stdout
    places = [shown.index(f"\n{group}:\n") for group in GROUPS]
    assert places == sorted(places)
    for (_, names), start, end in zip(GROUPS.items(), places, [*places[1:], len(shown)], strict=True):
        lines = [line.split()[0] for line in shown[start:end].splitlines() if line[:2] == "  " and line[2:3].strip()]
        assert [word for word in lines if word in COMMANDS] == list(names)


def test_every_command_has_an_example_and_no_other():
    assert set(EXAMPLES) == {words for words in commands() if words}


@pytest.mark.parametrize("words", EXAMPLES)
def test_an_example_can_be_typed(words: str):
    typed = shlex.split(EXAMPLES[words])
    assert typed[: 1 + len(words.split())] == ["stackmem", *words.split()]
    assert parsed(typed[1:])


@pytest.mark.parametrize("words", [["solve", "--modle"], ["trace", "show"], ["runs", "prune", "--nope"]])
def test_what_cannot_be_typed_is_seen(words: list[str]):
    with pytest.raises(typer.TyperException):
        parsed(words)


@pytest.mark.parametrize("words", ["apply", "trace", "trace show"])
def test_the_help_of_a_command_ends_with_its_example(stage: Stage, words: str):
    assert stage.call(*words.split(), "--help").stdout.endswith(f"Example: {EXAMPLES[words]}\n")


def test_the_manual_page_names_every_command_with_its_example_and_nothing_that_roff_would_act_on(stage: Stage):
    page = stage.call("man").stdout
    lines = page.splitlines()
    assert {line.split()[0] for line in lines if line[:1] in (".", "'")} == {".TH", ".SH", ".SS", ".TP", ".B", ".br"}
    assert [line.removeprefix(".B ") for line in lines if line.startswith(".B ")] == ["stackmem", *COMMANDS]
    plain = page.replace(r"\-", "-").replace(r"\(aq", "'").replace(r"\(ti", "~")
    assert "\\" not in plain
    for name, says in COMMANDS.items():
        assert f".B {name}\n{says}\n.br\n{EXAMPLES[name]}\n" in plain
