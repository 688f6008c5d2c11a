"""Tests for ``stackmem --in-container``, with an engine that records its arguments."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stackmem import UsageError
from stackmem.cli.container import container_command
from tests.stage import ROOT, Stage, pop

OTHER_SYSTEM = ROOT / "tests" / "cli" / "other_system.py"
KEYS = {"ANTHROPIC_API_KEY": "key-value-1", "STACKMEM_MODEL": "demo"}


@pytest.fixture
def engine(stage: Stage) -> Path:
    place = stage.root / "engines"
    place.mkdir()
    (place / "docker").write_text(
        f'#!/bin/sh\nprintf "%s\\0" "$@" >"{stage.root}/argv"\nprintf "%s" "$ANTHROPIC_API_KEY" >"{stage.root}/key"\n'
        "cat\nexit 7\n"
    )
    (place / "docker").chmod(0o755)
    return place


def test_the_engine_gets_the_folder_the_arguments_and_names_of_keys(stage: Stage, engine: Path):
    hostile = ["solve", ".", "-t", "$(touch no); 'x' \"y\"\nz"]
    ran = subprocess.run(
        stage.arguments("--in-container", *hostile), cwd=stage.elsewhere, input="typed", capture_output=True, text=True,
        env=stage.environ({"PATH": f"{engine}:/usr/bin:/bin", "STACKMEM_ENGINE": "docker", **KEYS}), check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (7, "typed"), ran.stderr
    argv = (stage.root / "argv").read_text().split("\0")[:-1]
    assert argv[-len(hostile) :] == hostile
    assert argv[-len(hostile) - 1] == "stackmem"
    assert argv[:4] == ["run", "--rm", "--interactive", "--pull=never"]
    assert f"type=bind,source={stage.elsewhere.resolve()},target=/work" in argv
    passed = [argv[place + 1] for place, word in enumerate(argv) if word == "--env"]
    assert {"ANTHROPIC_API_KEY", "STACKMEM_MODEL"} <= set(passed)
    assert not {"STACKMEM_RUNS_DIR", "STACKMEM_SANDBOX_DIR"} & set(passed)
    assert "key-value-1" not in "".join(argv)
    assert (stage.root / "key").read_text() == "key-value-1"


def test_a_terminal_is_attached_and_podman_keeps_the_user(tmp_path: Path):
    (tmp_path / "podman").write_text("#!/bin/sh\n")
    (tmp_path / "podman").chmod(0o755)
    engine, argv = container_command(["chat"], {"PATH": str(tmp_path)}, tmp_path, terminal=True)
    assert engine == str(tmp_path / "podman")
    assert "--tty" in argv
    assert any(word.startswith("--userns=keep-id") for word in argv)


def test_without_an_engine_or_with_a_path_that_cannot_be_mounted_one_sentence_says_so(tmp_path: Path):
    with pytest.raises(UsageError, match="podman and docker are not installed"):
        container_command(["chat"], {"PATH": str(tmp_path)}, tmp_path, terminal=False)
    (tmp_path / "docker").write_text("#!/bin/sh\n")
    (tmp_path / "docker").chmod(0o755)
    with pytest.raises(UsageError, match="cannot be mounted"):
        container_command(["chat"], {"PATH": str(tmp_path)}, tmp_path / "a,b", terminal=False)
    with pytest.raises(UsageError, match="the engine nerdctl is not installed"):
        container_command([], {"PATH": str(tmp_path), "STACKMEM_ENGINE": "nerdctl"}, tmp_path, terminal=False)


def test_a_missing_engine_is_a_usage_error_of_the_command(stage: Stage):
    ran = stage.call("--in-container", "runs", env={"PATH": str(stage.root)})
    assert (ran.returncode, "are not installed" in ran.stderr) == (2, True)


def test_the_development_container_uses_the_file_of_the_image():
    described = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8"))
    file = (ROOT / ".devcontainer" / described["build"]["dockerfile"]).resolve()
    assert file == ROOT / "Containerfile"
    assert f"--uid 1000 {described['remoteUser']}" in file.read_text("utf-8")


def on_another_system(stage: Stage, *arguments: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, str(OTHER_SYSTEM), "stackmem", *map(str, arguments)]
    given = {"cwd": stage.elsewhere, "env": stage.environ(), "stdin": subprocess.DEVNULL}
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=100, **given)  # type: ignore[call-overload]


def test_commands_without_a_sandbox_work_on_another_system(stage: Stage):
    stage.solve(stage.task(pop("Done.")))
    for arguments in (
        ["--help"], ["solve", "--help"], ["chat", "--help"], ["ui", "--help"], ["gateway", "--help"],
        ["report", "--help"], ["import", "--help"], ["runs"], ["strategies"], ["replay", "last"],
        ["trace", "show", "last"], ["diff", "last", "last"], ["view", "last", "-o", stage.root / "page.html"],
        ["models", "--local"], ["tasks", "list"], ["docs"], ["man"], ["config"],
        ["bench", "ledger", "--strategies", "full", "--models", "sim/bounded-reader", "--isolation", "memory",
         "--quiet", "-o", stage.root / "bench"],
        ["report", stage.root / "bench"], ["export", "last", "--format", "chrome", "--out", stage.root / "run.json"],
    ):  # fmt: skip
        ran = on_another_system(stage, *arguments)
        assert (ran.returncode, "Traceback" in ran.stderr) == (0, False), (arguments, ran.stderr)
    assert (stage.root / "page.html").stat().st_size > 10_000


@pytest.mark.parametrize("command", ["solve", "chat", "resume", "acp", "run", "tasks check", "tasks build"])
def test_a_command_with_a_sandbox_says_in_one_sentence_what_to_do(stage: Stage, command: str):
    ran = on_another_system(stage, *command.split(), "x")
    assert ran.returncode == 2
    assert ran.stderr.startswith(f"stackmem: stackmem {command} needs Linux")
    assert f"stackmem --in-container {command}" in ran.stderr
    assert "replay, view, ui" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    "arguments",
    [["doctor"], ["bench", "calculator", "-o", "bench", "--models", "demo", "--strategies", "full"]],
)
def test_a_command_that_works_in_part_says_which_part(stage: Stage, arguments: list[str]):
    ran = on_another_system(stage, *arguments)
    assert ran.returncode == 2
    assert ran.stderr.startswith("stackmem: the sandbox needs Linux; ")
    assert "--in-container" in ran.stderr
    assert "--isolation memory" in ran.stderr


@pytest.mark.parametrize("part", ["run/prompts", "golden", "memory"])
def test_the_portable_part_of_the_suite_passes_on_another_system(tmp_path: Path, part: str):
    line = [sys.executable, str(OTHER_SYSTEM), "pytest", f"--basetemp={tmp_path / 'tests'}", f"tests/{part}"]
    ran = subprocess.run(line, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-3_000:]
    assert " passed" in ran.stdout
