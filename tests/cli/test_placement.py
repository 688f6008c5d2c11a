"""Options placed before a subcommand are used or refused, never ignored."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import typer

from stackmem.cli.app import app
from tests.run.plugins.installed import Installed
from tests.stage import Stage, command, pop

GROUPS = {
    name: group for name, group in typer.main.get_command(app).commands.items() if getattr(group, "commands", None)
}


def own_options(command: Any) -> list[Any]:
    return [param for param in command.params if param.param_type_name == "option" and param.name != "help"]


def spellings(param: Any) -> list[list[str]]:
    """Yield each way to type an option with a value."""
    if param.is_flag:
        return [[flag] for flag in (*param.opts, *param.secondary_opts)]
    value = "1"
    return [
        words
        for flag in param.opts
        for words in ([flag, value], [f"{flag}={value}"] if flag.startswith("--") else [f"{flag}{value}"])
    ]


def placements(name: str) -> Iterator[tuple[list[str], list[Any]]]:
    """Yield calls with options before the subcommand, and those options."""
    group = GROUPS[name]
    own = own_options(group)
    for word, below in group.commands.items():
        theirs = [param for param in own_options(below) if not any(set(param.opts) & set(one.opts) for one in own)]
        for param in (*own, *theirs):
            for words in spellings(param):
                yield [name, *words, word], [param]
        for several in combinations(own, 2):
            typed = [spellings(param)[0] for param in several]
            yield [name, *typed[0], *typed[1], word], list(several)
        for param in own:
            if any(set(param.opts) & set(one.opts) for one in below.params):
                words = spellings(param)[0]
                yield [name, *words, word, *words], [param]


def test_there_are_a_hundred_placements_and_more():
    assert sum(len(list(placements(name))) for name in GROUPS) >= 100
    assert any(own_options(group) for group in GROUPS.values())


@pytest.mark.parametrize("name", GROUPS)
def test_an_option_before_a_subcommand_is_refused_by_its_name(stage: Stage, name: str):
    for words, options in placements(name):
        ran = stage.call(*words)
        assert ran.returncode == 2, words
        assert "Traceback" not in ran.stderr
        for option in options:
            assert any(flag in ran.stderr for flag in (*option.opts, *option.secondary_opts)), (words, ran.stderr)


def test_the_group_of_a_command_has_options_only_if_it_works_without_a_subcommand():
    for name, group in GROUPS.items():
        assert group.invoke_without_command or not own_options(group), name


def test_no_option_is_read_from_a_variable_by_typer():
    """Settings read their variables themselves, in the group and in its subcommands."""

    def walk(command: Any) -> Iterator[Any]:
        yield from command.params
        for below in getattr(command, "commands", {}).values():
            yield from walk(below)

    assert [param.name for param in walk(typer.main.get_command(app)) if param.envvar] == []


def test_o_names_the_folder_for_runs_unless_the_command_writes_an_output():
    """In a bench, whose output contains the runs of its trials, it is that folder."""
    outputs = {
        "view", "export", "trace pack", "tasks import", "bench", "report", "evidence", "worlds make", "package",
    }  # fmt: skip

    def walk(command: Any, *words: str) -> Iterator[tuple[str, list[list[str]]]]:
        yield " ".join(words), [sorted(param.opts) for param in command.params]
        for word, below in getattr(command, "commands", {}).items():
            yield from walk(below, *words, word)

    for words, flags in walk(typer.main.get_command(app)):
        short = [names for names in flags if "-o" in names]
        if words in outputs:
            assert short in ([["--out", "-o"]], [["--output", "-o"]]), words
        else:
            assert short == [names for names in flags if "--runs-dir" in names], words


def test_runs_are_not_removed_from_another_folder_than_the_one_that_was_typed(stage: Stage, tmp_path: Path):
    """Regression test: ``--runs-dir`` was dropped and the runs in the default folder were removed."""
    run = stage.solve(stage.task(command("true"), pop())).run
    other = tmp_path / "other"
    other.mkdir()
    for words in (["--runs-dir", other], ["--filter", "outcome=unsolved"], ["--limit", "1"], ["--sort", "cost_usd"]):
        ran = stage.call("runs", *words, "prune", "--older-than", "0d")
        assert (ran.returncode, ran.stdout) == (2, "")
    assert (stage.runs / run).is_dir()
    said = stage.call("runs", "--runs-dir", other, "prune", "--json", "--older-than", "0d")
    assert said.stderr == ("stackmem: --runs-dir must come after 'prune'; type: stackmem runs prune --runs-dir ...\n")
    assert json.loads(said.stdout)["outcome"] == "error"
    said = stage.call("runs", "--filter", "outcome=unsolved", "prune").stderr
    assert said == ("stackmem: stackmem runs prune does not take --filter; see stackmem runs prune --help\n")
    after = stage.call("runs", "prune", "--runs-dir", other, "--older-than", "0d")
    assert (after.returncode, (stage.runs / run).is_dir()) == (0, True)


def test_an_agent_is_not_started_behind_a_gateway_with_other_terms(stage: Stage, tmp_path: Path):
    """Regression test: the limit, the upstream and the runs folder were dropped, and the agent ran."""
    started = tmp_path / "started"
    agent = ["run", "--", sys.executable, "-c", f"open({str(started)!r}, 'w')"]
    ran = stage.call("gateway", "--max-usd", 1, "--upstream", "http://127.0.0.1:9", "-o", tmp_path / "kept", *agent)
    assert ran.returncode == 2
    assert ran.stderr == (
        "stackmem: --upstream, --max-usd and --runs-dir must come after 'run'; "
        "type: stackmem gateway run --upstream ... --max-usd ... --runs-dir ...\n"
    )
    assert not started.exists()
    assert stage.left_behind() == []


def test_a_setting_from_a_variable_reaches_the_subcommand(stage: Stage, tmp_path: Path):
    run = stage.solve(stage.task(command("true"), pop())).run
    other = tmp_path / "other"
    other.mkdir()
    kept = stage.call("runs", "prune", "--older-than", "0d", env={"STACKMEM_RUNS_DIR": str(other)})
    assert (kept.returncode, (stage.runs / run).is_dir()) == (0, True)
    gone = stage.call("runs", "prune", "--older-than", "0d", env={"STACKMEM_RUNS_DIR": str(stage.runs)})
    assert (gone.returncode, (stage.runs / run).exists()) == (0, False)


PLUGIN = """
import stackmem, typer

outer = typer.Typer(invoke_without_command=True)
inner = typer.Typer(invoke_without_command=True)
shared = typer.Typer()
outer.add_typer(inner, name="inner")
outer.add_typer(shared, name="shared")

@outer.callback()
def at_outer(level: int = 0): pass

@inner.callback()
def at_inner(level: int = 0): pass

@inner.command()
def leaf(level: int = 0): print("leaf", level)

@shared.callback()
def at_shared(level: int = 0): print("shared", level)

@shared.command()
def twig(): print("twig")

plugin = stackmem.Plugin(commands={"outer": outer})
"""


def test_groups_of_plugins_follow_the_same_rule_at_every_depth(tmp_path: Path, home: Path):
    plugin = Installed(tmp_path)
    plugin.put("acme_outer", PLUGIN)
    assert plugin.run("outer", "inner", "leaf", "--level", "2").stdout == "leaf 2\n"
    assert "stackmem outer inner --level ..." in plugin.run("outer", "--level", "2", "inner", "leaf").stderr
    assert "stackmem outer inner leaf --level ..." in plugin.run("outer", "inner", "--level", "2", "leaf").stderr
    # A group that does nothing without a subcommand has options only for its subcommands, and receives them.
    assert plugin.run("outer", "shared", "--level", "2", "twig").stdout == "shared 2\ntwig\n"
