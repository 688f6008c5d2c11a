"""A usage error prints one sentence with the fix, exits with 2, and leaves no files behind."""

import json
import os
from pathlib import Path

import pytest

from stackmem import UsageError
from tests.stage import Stage, pop
from tests.workspace.people import NOBODY, Person, as_user


def refused(stage: Stage, *arguments: object, code: int = 2, **more) -> str:
    """Return the one sentence of the error, after checking both output formats and that no file was written."""
    plain = stage.call(*arguments, **more)
    assert (plain.returncode, plain.stdout) == (code, "")
    assert plain.stderr.startswith("stackmem: "), plain.stderr
    said = plain.stderr.removeprefix("stackmem: ").rstrip("\n")
    assert "Traceback" not in said
    assert stage.left_behind() == []
    return said


def refused_as_json(stage: Stage, *arguments: object, code: int = 2, **more) -> str:
    ran = stage.call(*arguments, "--json", **more)
    assert ran.returncode == code
    answer = json.loads(ran.stdout)
    assert list(answer) == ["outcome", "error"]
    assert answer["outcome"] == "error"
    assert ran.stderr.rstrip("\n") == f"stackmem: {answer['error']}"
    assert stage.left_behind() == []
    return answer["error"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["solve"], "missing argument 'TASK|DIR'"),
        (["solve", "small", "--nope"], "no such option: --nope"),
        (["solve", "small", "more"], "got unexpected extra argument"),
        (["solve", "small", "--model"], "option '--model' requires an argument"),
        (["replay"], "missing argument 'RUN'"),
        (["nothing"], "no such command 'nothing'"),
        (["tasks", "nothing"], "no such command 'nothing'"),
        (["--nope"], "no such option: --nope"),
        (["slove"], "no such command 'slove'; did you mean 'solve';"),
        (["tasks", "lst"], "no such command 'lst'; did you mean 'list';"),
        (["solve", "small", "--modl", "demo"], "no such option: --modl; did you mean --model;"),
        (["solve", "small", "--modle", "demo"], "no such option: --modle; did you mean --model;"),
        (["runs", "prune", "--keep-lst", "3"], "no such option: --keep-lst; did you mean --keep-last;"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_call_is_one_sentence_that_names_the_help(stage: Stage, arguments, says):
    said = refused(stage, *arguments)
    assert said.startswith(says)
    assert said.endswith("--help")
    assert "\n" not in said


def test_a_wrong_call_is_an_object_on_stdout_too(stage: Stage):
    assert refused_as_json(stage, "solve", "small", "--nope").startswith("no such option: --nope")


def test_without_a_command_the_help_is_shown(stage: Stage):
    ran = stage.call()
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "Exit codes: 0 solved or finished" in ran.stderr


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--model", "gpt"], "no model 'gpt'"),
        (["--model", "script:nowhere.yaml"], "nowhere.yaml"),
        (["--model", "script:"], "script: needs a file"),
        (["--strategy", "piles"], "piles"),
        (["--strategy", "stackheap:colour=red"], "colour"),
        (["--strategy", "stackheap:index=sideways"], "sideways"),
        (["--isolation", "magic"], "magic"),
        (["--network", "some"], "some"),
        (["--max-steps", "0"], "--max-steps is '0'"),
        (["--max-steps", "many"], "--max-steps is 'many'"),
        (["--max-usd", "-1"], "--max-usd"),
        (["--max-tokens", "1e99"], "--max-tokens"),
        (["--max-seconds", "nan"], "--max-seconds"),
        (["--command-seconds", "0"], "--command-seconds"),
        (["--window-tokens", "10"], "10"),
        (["--fsync", "always"], "always"),
        (["--prompt", "nowhere.md"], "nowhere.md"),
        (["--profile", "nowhere.toml"], "nowhere.toml"),
        (["--base-url", "http://127.0.0.1:1"], "base URL"),
        (["-t", "Do it."], "omit -t"),
        (["--model", "anthropic/claude-sonnet-5-5"], "ANTHROPIC_API_KEY is not set"),
        (["--model", "openai/gpt-5"], "OPENAI_API_KEY is not set"),
        (["--model", "anthropic/unheard-of", "--max-usd", "3"], "the price of the model is unknown"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_flag_is_named(stage: Stage, flags, says):
    """Runs in this process because starting the program takes a second; tests above cover how it exits."""
    given = {name.lstrip("-").replace("-", "_"): value for name, value in zip(flags[::2], flags[1::2], strict=True)}
    key = {"ANTHROPIC_API_KEY": "sk-ant-somebodys-own-key"} if "--max-usd" in flags and "--model" in flags else {}
    with pytest.raises(UsageError) as raised:
        stage.solve(stage.task(pop()), given.pop("t", None), environ={**os.environ, **key}, **given)
    said = str(raised.value)
    assert stage.left_behind() == []
    assert says in said
    assert any(way in said for way in (";", "known", "takes"))  # the fix


def test_a_missing_task_is_reported_with_the_known_ones(stage: Stage):
    said = refused_as_json(stage, "solve", "calculater")
    assert "no task or folder 'calculater'" in said
    assert "did you mean 'calculator'" in said


@pytest.mark.parametrize("named", ["", "~nobody-of-that-name/x", "a" * 5000, "/dev/null", "a/b/c", "\u202etxt\x1b[2J"])
def test_a_task_named_strangely_is_refused_like_any_other(stage: Stage, named):
    said = refused(stage, "solve", named, "-t", "Do it.")
    assert not set(said) & set("\x1b\u202e")


@pytest.mark.parametrize(
    ("toml", "says"),
    [("= broken", "task.toml"), ("\x00\xff", "task.toml"),
     ('schema_version = "1.4"\n[task]\nname = 7\n', "name")],
)  # fmt: skip
def test_a_broken_task_is_named_with_its_file(stage: Stage, toml, says):
    task = stage.task(pop())
    (task / "task.toml").write_text(toml, encoding="utf-8")
    assert says in refused(stage, "solve", task, "--model", "demo")


def test_a_task_without_a_demo_says_so(stage: Stage):
    assert "no demo.yaml" in refused(stage, "solve", stage.task(), "--model", "demo")
    assert "no demo.yaml" in refused_as_json(stage, "solve", stage.root / "small", "--model", "demo")


def test_a_malformed_demo_is_named_with_line_and_column(stage: Stage):
    task = stage.task(pop())
    (task / "demo.yaml").write_text("replies:\n  - {call: pop_frame, argz: {}}\n", encoding="utf-8")
    said = refused(stage, "solve", task, "--model", "demo")
    assert f"{task}/demo.yaml:2:" in said
    assert "argz" in said


def test_a_folder_needs_a_text(stage: Stage):
    assert "-t TEXT" in refused(stage, "solve", ".")
    assert "-t TEXT" in refused(stage, "solve", ".", "-t", " ")


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"Use {{magic}} words.", "{{magic}}"), (b"\xff\xfe", "cannot be read"), (None, "cannot be read")],
)
def test_a_prompt_that_cannot_be_used_is_named(stage: Stage, content, says):
    prompt = stage.root / "prompt.md"
    if content is None:
        prompt.mkdir()
    else:
        prompt.write_bytes(content)
    said = refused(stage, "solve", stage.task(pop()), "--model", "demo", "--prompt", prompt)
    assert str(prompt) in said
    assert says in said or says.strip("{}") in said


@pytest.mark.parametrize("flag", ["--runs-dir", "--sandbox-dir"])
def test_a_file_in_a_directorys_place_is_refused_with_the_flag(stage: Stage, flag):
    (stage.root / "file").touch()
    assert flag in refused(stage, "solve", stage.task(pop()), "--model", "demo", flag, stage.root / "file")
    assert flag in refused(stage, "solve", stage.root / "small", "--model", "demo", flag, stage.root / "file" / "below")


@pytest.mark.parametrize("flag", ["runs_dir", "sandbox_dir"])
def test_a_directory_that_is_closed_to_the_user_is_refused_with_the_flag(
    flag, place: Path, person: Person, stage: Stage, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(place)  # the user may not be able to read the checkout
    closed = place / "closed"
    closed.mkdir()
    closed.chmod(0o555)
    place.chmod(0o777)

    def attempt() -> str:
        hers = Stage(place)
        with pytest.raises(UsageError) as raised:
            hers.solve(hers.task(pop()), environ={"HOME": str(place)}, **{flag: str(closed)})
        assert hers.left_behind() == []
        return str(raised.value)

    stage.solve(stage.task(pop()))  # imports modules that the user may not be able to read
    said = as_user(NOBODY, attempt) if person.uid == 0 else person.runs(attempt)  # root can read everything
    assert f"{closed} cannot be written to (Permission denied); use --{flag.replace('_', '-')}" in said
    assert list(closed.iterdir()) == []


def test_an_undecodable_name_is_refused_before_any_file_is_created(stage: Stage):
    folder = stage.root / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    script = stage.script(pop())
    said = refused(stage, "solve", folder, "-t", "Do it.", "--model", script)
    assert "not valid UTF-8" in said
    said = refused(stage, "solve", stage.elsewhere, "-t", os.fsdecode(b"\xff"), "--model", script)
    assert "not valid UTF-8" in said


@pytest.mark.parametrize("named", ["nothing", "", "a" * 5000, "~nobody-of-that-name", "../..", "/dev/null"])
@pytest.mark.parametrize("verb", ["replay", "apply"])
def test_a_missing_run_is_reported(stage: Stage, verb, named):
    assert "no run" in refused(stage, verb, named)


def test_a_setting_in_the_environment_is_named_by_its_variable(stage: Stage):
    said = refused(stage, "solve", stage.task(pop()), "--model", "demo", env={"STACKMEM_MAX_STEPS": "-3"})
    assert "STACKMEM_MAX_STEPS" in said


def test_a_project_file_that_loosens_the_isolation_is_refused_with_the_flag(stage: Stage):
    (stage.elsewhere / "stackmem.toml").write_text('isolation = "none"\n', encoding="utf-8")
    said = refused(stage, "solve", stage.task(pop()), "--model", "demo")
    assert "isolation" in said
    assert "--isolation" in said
