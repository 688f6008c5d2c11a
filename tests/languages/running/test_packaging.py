"""A packaged program is complete, other tools can read it, and it runs as the package says."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from stackmem.workspace.project.skills import find_skills
from tests.stage import ROOT, Stage

HOSTILE = "\"; touch pwned; $(touch pwned) `touch pwned` ' ${{ secrets.KEY }}\nEND\nsecond"
GREET = f"""# Greets: {HOSTILE.splitlines()[0]}
inputs:
  - {{name: who, description: {json.dumps(HOSTILE)}, required: true}}
  - {{name: times, description: How often., default: 2}}
  - {{name: how, description: The greeting., default: "it's `fine`"}}
main:
  - {{name: Say, tool: log, message: "{{{{how}}}} {{{{who}}}} {{{{times + 1}}}}"}}
"""
EXAMPLES = sorted(path.parent.relative_to(ROOT / "examples").as_posix() for path in ROOT.glob("examples/*/*/main.*"))


def packaged(stage: Stage, source: Path, *flags: object) -> Path:
    ran = stage.run("package", str(source), *map(str, flags))
    assert ran.returncode == 0, ran.stderr
    return Path(ran.stdout.strip())


def refused(stage: Stage, source: Path, *flags: object) -> str:
    before = sorted(stage.root.rglob("*"))
    ran = stage.run("package", str(source), *map(str, flags))
    assert (ran.returncode, "Traceback" in ran.stderr) == (2, False)
    assert sorted(stage.root.rglob("*")) == before
    return ran.stderr


@pytest.fixture
def greet(stage: Stage) -> Path:
    folder = stage.root / "Greet it!"
    folder.mkdir()
    (folder / "main.apl").write_text(GREET)
    (folder / ".hidden").write_text("left out")
    return folder


def commands(text: str) -> list[str]:
    return re.findall(r"```sh\n(.+?)\n```", text, re.DOTALL)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_becomes_a_valid_skill(stage: Stage, name: str) -> None:
    skills = stage.elsewhere / ".claude" / "skills"
    made = packaged(stage, ROOT / "examples" / name, "-o", skills / name.rpartition("/")[2])
    found = find_skills(stage.elsewhere, {})
    (note,) = found.notes
    assert note.startswith("the project brings skills")
    assert [skill.name for skill in found.skills] == [made.name]
    _, head, _ = (made / "SKILL.md").read_text().split("---\n", 2)
    described = YAML(typ="safe").load(head)
    assert set(described) == {"name", "description"}
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", described["name"])
    assert described["name"] == made.name
    assert 0 < len(described["description"]) <= 1_024


def test_the_command_of_a_skill_runs_as_printed(stage: Stage) -> None:
    example = ROOT / "examples" / "sexp" / "count-words"
    made = packaged(stage, example, "-o", stage.root / "skill")
    (command,) = commands((made / "SKILL.md").read_text())
    assert command == "stackmem run SKILL/count-words --quiet --input most:=JSON"
    words = command.replace("SKILL", str(made)).replace("JSON", "10").split()[1:]
    ran = stage.run(*words, "--model", f"script:{example}/script.yaml")
    assert (ran.returncode, ran.stdout.strip().splitlines()[-1]) == (0, "3"), ran.stderr


def test_a_hostile_text_of_a_program_stays_a_text(stage: Stage, greet: Path) -> None:
    made = packaged(stage, greet, "-o", stage.root / "skill")
    text = (made / "SKILL.md").read_text()
    _, head, _ = text.split("---\n", 2)
    assert YAML(typ="safe").load(head)["description"] == f"Greets: {HOSTILE.splitlines()[0]}"
    (command,) = commands(text)
    assert command == "stackmem run SKILL/greet-it --quiet --input who:=JSON"
    assert not (made / "greet-it" / ".hidden").exists()


def run_action(stage: Stage, made: Path, **given: str) -> tuple[subprocess.CompletedProcess[str], str]:
    """Run the action's step as a runner does, and return the text that it gives to later steps."""
    action = YAML(typ="safe").load(made / "action.yml")
    (step,) = action["runs"]["steps"]
    assert "${{" not in step["run"]
    values = {name: str(each.get("default", "")) for name, each in action["inputs"].items()} | given
    env = {
        name: re.sub(r"^\$\{\{ inputs\.([\w-]+) \}\}$", lambda found: values[found[1]], text)
        for name, text in step["env"].items()
    }
    bin_dir, output = stage.root / "bin", stage.root / "output"
    bin_dir.mkdir(exist_ok=True)
    (bin_dir / "stackmem").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m stackmem "$@"\n')
    (bin_dir / "stackmem").chmod(0o755)
    output.write_text("")
    places = {"RUNNER_TEMP": stage.root, "GITHUB_OUTPUT": output, "GITHUB_ACTION_PATH": made}
    ran = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
        env=stage.environ({**env, **{k: str(v) for k, v in places.items()}, "PATH": f"{bin_dir}:{os.environ['PATH']}"}),
        cwd=stage.elsewhere, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    if not output.read_text():
        return ran, ""
    first, *lines = output.read_text().splitlines()
    assert first.startswith("result<<")
    assert lines.pop() == first.removeprefix("result<<")
    return ran, "\n".join(lines)


def test_an_action_runs_the_program_with_hostile_values(stage: Stage, greet: Path) -> None:
    made = packaged(stage, greet, "--as", "action", "-o", stage.root / "action")
    ran, result = run_action(stage, made, who=HOSTILE, times="4")
    assert ran.returncode == 0, ran.stderr
    assert f"it's `fine` {HOSTILE} 5" in result
    assert not list(stage.root.rglob("pwned"))
    ran, _ = run_action(stage, made, who="Ada", times="four")
    assert (ran.returncode, "the input times must be JSON" in ran.stderr) == (1, True)
    ran, result = run_action(stage, made)
    assert (ran.returncode, "who" in result) == (1, True), result


def test_a_client_calls_the_packaged_tool(stage: Stage, greet: Path) -> None:
    from mcp import Client, StdioServerParameters

    made = packaged(stage, greet, "--as", "mcp", "-o", stage.root / "tool")
    ((name, server),) = json.loads((made / "mcp.json").read_text())["mcpServers"].items()
    command = stage.arguments(*server["args"])
    given = StdioServerParameters(
        command=command[0], args=list(command[1:]), env=stage.environ(), cwd=str(stage.elsewhere)
    )

    async def work() -> Any:
        async with Client(given) as client:
            (tool,) = (await client.list_tools()).tools
            return tool.name, await client.call_tool(tool.name, {"who": "Ada"})

    tool, answer = asyncio.run(work())
    assert (name, server["command"], tool) == ("greet-it", "stackmem", "greet-it")
    assert "it's `fine` Ada 3" in answer.content[0].text


def test_a_package_that_cannot_be_made_leaves_nothing(stage: Stage, greet: Path) -> None:
    target = stage.root / "made"
    assert "is unknown; choose one of skill, action, mcp" in refused(stage, greet, "--as", "exe", "-o", target)
    (greet / "link").symlink_to("/etc/passwd")
    assert "is a link; replace it" in refused(stage, greet, "-o", target)
    (greet / "link").unlink()
    with (greet / "large").open("wb") as file:
        file.truncate(1 << 40)
    assert "large cannot be packaged (it is larger than" in refused(stage, greet, "-o", target)
    (greet / "large").unlink()
    for number in range(3):
        (greet / f"large{number}").write_bytes(b"\0" * (4 << 20))
    assert "more than 1,000 files or 10,485,760 bytes" in refused(stage, greet, "-o", target)
    target.mkdir()
    assert "exists; choose a new folder" in refused(stage, greet, "-o", target)
    program = stage.root / "alone.sexp"
    program.write_text('(load "beside.sexp")\n(help 1)')
    (stage.root / "beside.sexp").write_text("(define (help x) x)")
    assert "put them into its folder and package the folder" in refused(stage, program, "-o", "alone")
    (stage.root / "strange.sexp").write_text("(list stackmem-model)")
    assert "'stackmem-model' cannot be an input" in refused(
        stage, stage.root / "strange.sexp", "--as", "action", "-o", "x"
    )
