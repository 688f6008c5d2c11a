"""``--help`` groups commands and options, and its examples can be typed as they are."""

import re
import shlex

import pytest
import typer

from stackmem.cli.app import app
from stackmem.cli.catalog import COMMANDS, EXAMPLES, GROUPS
from stackmem.cli.help_layout import OPTION_GROUPS
from stackmem.cli.root_help import root_help
from tests.house.test_docs import commands
from tests.stage import Stage

ROOT = typer.main.get_command(app)


def parsed(words: list[str]) -> str:
    """Parse the words as a call and return the command; raises if they cannot be parsed."""
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
    for (_, names), start, end in zip(GROUPS.items(), places, [*places[1:], shown.index("Exit codes")], strict=True):
        lines = [line.split()[0] for line in shown[start:end].splitlines() if line[:2] == "  " and line[2:3].strip()]
        assert [word for word in lines if word in COMMANDS] == list(names)


@pytest.mark.parametrize("columns", ["20", "61", "80", "200"])
def test_the_help_without_typer_is_the_same_as_with_it(columns: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", columns)
    assert root_help() == ROOT.get_help(typer.Context(ROOT, info_name="stackmem"))


def test_every_command_has_examples():
    assert set(EXAMPLES) == {words for words in commands() if words}
    assert {words for words, examples in EXAMPLES.items() if len(set(examples)) != 2} == {"keys distrust"}


@pytest.mark.parametrize(("words", "example"), [(words, one) for words, both in EXAMPLES.items() for one in both])
def test_an_example_can_be_typed(words: str, example: str):
    typed = shlex.split(example.partition(" > ")[0])
    assert typed[: 1 + len(words.split())] == ["stackmem", *words.split()]
    assert parsed(typed[1:])


@pytest.mark.parametrize("words", [["solve", "--modle"], ["trace", "show"], ["runs", "prune", "--nope"]])
def test_examples_that_cannot_be_typed_are_detected(words: list[str]):
    with pytest.raises(typer.TyperException):
        parsed(words)


@pytest.mark.parametrize("words", ["apply", "trace", "trace show", "solve"])
def test_the_help_of_a_command_shows_its_examples_before_its_options(stage: Stage, words: str):
    shown = stage.call(*words.split(), "--help").stdout
    examples = "".join(f"  {example}\n" for example in EXAMPLES[words])
    assert f"\nExamples:\n{examples}" in shown.partition("\nOptions:\n")[0]


def test_a_long_help_shows_every_option_once_and_the_rare_ones_in_groups(stage: Stage):
    shown = stage.call("solve", "--help").stdout
    assert sorted(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", shown, re.M)) == sorted(
        flag for flag in commands()["solve"] | {"--help"} if not flag.startswith("--no-")
    )
    places = [shown.find(f"\n{heading}:\n") for heading in ("Options", *OPTION_GROUPS)]
    found = [place for place in places if place >= 0]
    assert found == sorted(found)
    assert len(found) == 5
    assert "--fsync" not in shown[found[0] : found[1]]


def test_a_grouped_option_exists_and_is_in_one_group():
    grouped = [name for names in OPTION_GROUPS.values() for name in names]
    assert len(grouped) == len(set(grouped))
    assert set(grouped) <= {param.name for command in ROOT.commands.values() for param in command.params}


def test_a_short_help_is_not_grouped(stage: Stage):
    shown = stage.call("replay", "--help").stdout
    assert "\nSandbox and output:\n" not in shown
    assert "--runs-dir" in shown


def test_the_manual_page_names_every_command_with_its_example_and_nothing_that_roff_would_act_on(stage: Stage):
    page = stage.call("man").stdout
    lines = page.splitlines()
    assert {line.split()[0] for line in lines if line[:1] in (".", "'")} == {".TH", ".SH", ".SS", ".TP", ".B", ".br"}
    assert [line.removeprefix(".B ") for line in lines if line.startswith(".B ")] == ["stackmem", *COMMANDS]
    plain = page.replace(r"\-", "-").replace(r"\(aq", "'").replace(r"\(ti", "~")
    assert "\\" not in plain
    for name, says in COMMANDS.items():
        examples = "".join(f".br\n{example}\n" for example in EXAMPLES[name])
        assert f".B {name}\n{says}\n{examples}" in plain
