"""The examples run offline and replay, and the page shows what they print."""

import os
import re
import shlex
from pathlib import Path

import pytest

from stackmem.core.errors import ProgramError, UsageError, WorkspaceError
from stackmem.languages.language import read_with
from stackmem.languages.operations import Source
from stackmem.languages.playbook.language import LANGUAGE
from stackmem.languages.running.run import compile_program
from stackmem.run.replays.replay import replay_run
from tests.house.sources import ROOT
from tests.in_process import command_line

from .stage import one, run

PAGE = (ROOT / "docs" / "programs" / "playbooks.md").read_text("utf-8")
EXAMPLES = ROOT / "examples" / "playbooks"
SHOWN = re.findall(r"```console\n\$ (.*?)\n(.*?)```", PAGE, re.S)


def places(root: Path) -> dict[str, str]:
    return {"runs_dir": str(root / "runs"), "sandbox_dir": str(root / "work")}


@pytest.mark.parametrize(("command", "printed"), [pytest.param(*each, id=each[0].split()[2]) for each in SHOWN])
def test_a_command_of_the_page_prints_what_it_says_and_replays(tmp_path: Path, command: str, printed: str):
    words = shlex.split(command)
    assert words[0] == "stackmem"
    settings = {f"STACKMEM_{name.upper()}": value for name, value in places(tmp_path).items()}
    ran = command_line(words[1:], os.environ | settings, ROOT)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == printed
    (folder,) = (tmp_path / "runs").iterdir()
    assert replay_run(folder) is not None


def test_every_example_is_on_the_page_and_lints_clean():
    names = sorted(each.name for each in EXAMPLES.iterdir())
    assert sorted(words.split()[2].rpartition("/")[2] for words, _ in SHOWN) == names
    for name in names:
        text = (EXAMPLES / name / "main.pb").read_text("utf-8")
        found = read_with(LANGUAGE.lint("main.pb", text), lambda _: Source(""))
        assert [each.severity for each in found] == ["note"] * (name == "plain")


def test_the_program_on_the_page_is_the_example():
    assert (EXAMPLES / "greeting" / "main.pb").read_text("utf-8") in PAGE


def test_a_thousand_steps_keep_the_prompt_bounded_and_the_figures_on_the_page_are_measured():
    text = one(*(f"- {n:04}:EXE count to {n}" for n in range(1, 1001)))
    for value in ("{0}", '"{1}"'):
        told = [value.format(n, "v" * (n % 700)) for n in range(1, 1000)]
        name = "x" if value == "{0}" else "x{0}"
        walk = [
            f'recap – at {n}\n`Step["P:{n:04}:EXE"]` `Var[${name.format(n)}, {each}]`\nyld call'
            for n, each in enumerate(told, 1)
        ]
        played = run(text, *walk, '`Step["P:1000"]` `Return[1]`')
        tails = [len(played.tail(index)) for index in range(1_000)]
        assert len({(each.system, each.messages[0].parts[0].text) for each in played.asked}) == 1
        assert all([point.message for point in each.breakpoints] == [-1, 0] for each in played.asked)
        assert f"| {tails[0]:,} | {tails[9]:,} | {tails[99]:,} | {tails[999]:,} |" in PAGE
        head = len(played.whole(0)) - tails[0]
        assert f"| {head:,} | {head:,} | {head:,} | {head:,} |" in PAGE
    assert f"is {max(tails):,} characters" in PAGE
    assert '"older_not_shown"' in played.tail(999)
    assert '"chars": 699' in played.tail(700)


def test_a_plain_program_is_compiled_once(tmp_path: Path):
    program = tmp_path / "here" / "main.pb"
    program.parent.mkdir()
    program.write_text((EXAMPLES / "plain" / "main.pb").read_text("utf-8"), "utf-8")
    flags = {**places(tmp_path), "model": f"script:{EXAMPLES / 'plain' / 'compile.yaml'}"}

    def made(named: str):
        return compile_program(named, flags, os.environ, program.parent)

    first, second = made("main.pb"), made("main.pb")
    assert (first.replies, second.replies, first.text == second.text) == (1, 0, True)
    assert first.parts == ("Plan (steps)",)
    assert first.written == program.with_name("main.pbasm")
    assert made("main.pbasm").written is None
    (program.parent / "bad.pb").write_text("# A\n## P\n### Steps\n- 01:FOO\n", "utf-8")
    with pytest.raises(ProgramError, match="FOO is not a code"):
        made("bad.pb")
    (program.parent / "x.apl").write_text("main: [{name: a, tool: shell, command: ls}]", "utf-8")
    with pytest.raises(UsageError, match="is not a playbook"):
        made("x.apl")
    program.write_text("# A\n## P\n### Steps\n- Do this\n", "utf-8")
    (program.parent / "main.pbasm").unlink()
    (tmp_path / "bad.yaml").write_text("replies: [{text: a}, {text: b}, {text: c}]\n", "utf-8")
    flags["model"] = f"script:{tmp_path / 'bad.yaml'}"
    with pytest.raises(ProgramError, match="were not coded programs"):
        made("main.pb")
    flags["model"] = f"script:{EXAMPLES / 'plain' / 'compile.yaml'}"
    program.write_text((EXAMPLES / "plain" / "main.pb").read_text("utf-8"), "utf-8")
    (program.parent / "main.pbasm").mkdir()
    with pytest.raises(WorkspaceError, match="cannot be written"):
        made("main.pb")
