"""No secret of the caller's environment reaches the model, the trace, the result or the screen."""

import os
import zlib
from pathlib import Path

import pytest

from stackmem import RunResult, open_strategy, replay
from stackmem.core.facts import ChecksReturned, ModelFailed, RunStarted, ToolReturned, VerifyReturned
from stackmem.run.assemble import scrubber_of
from tests.build import shown_text
from tests.stage import SOLVED, Stage, call, command, events, fails, kept_texts, pop, push, shown

KEY = 'hunter"22\\with a quote'
ENVIRON = {"SHOP_API_KEY": KEY}
MARK = "[secret SHOP_API_KEY]"
TOKEN = "ghp_" + "a1" * 18


def solved(stage: Stage, task, **settings) -> tuple[RunResult, str]:
    """Return the result, and everything that the model received."""
    prompts: list[str] = []
    strategy = settings.get("strategy", "stackheap")

    def observe(event, state) -> None:
        if state.stack:
            prompts.append(shown_text(open_strategy(strategy).render(state)))

    result = stage.solve(task, environ={**os.environ, **ENVIRON}, observe=observe, **settings)
    return result, "\n".join(prompts)


def nowhere(stage: Stage, result: RunResult, prompts: str) -> None:
    spelled = {KEY, KEY.replace("\\", "\\\\").replace('"', '\\"'), KEY.partition('"')[0]}
    for kept in (kept_texts(stage.only_run()).decode(), prompts, str(shown(result))):
        assert not [spelling for spelling in spelled if spelling in kept]
    replay(result.run_dir)


def test_a_secret_in_the_task_is_named_but_not_sent(stage: Stage):
    result, prompts = solved(stage, stage.task(pop(), text=f"Log in with {KEY} and look.\n"))
    assert f"Log in with {MARK} and look." in prompts
    assert events(result.run_dir, RunStarted)[0].task == f"Log in with {MARK} and look."
    nowhere(stage, result, prompts)


def test_a_secret_in_the_users_prompt_is_not_sent(stage: Stage):
    prompt = stage.root / "prompt.md"
    prompt.write_text(f"You are an agent. {KEY}", encoding="utf-8")
    result, prompts = solved(stage, stage.task(pop()), prompt=str(prompt))
    assert f"You are an agent. {MARK}" in prompts
    nowhere(stage, result, prompts)


def test_no_tool_reveals_a_secret_in_a_workspace_file(stage: Stage):
    task = stage.task(
        call("read_file", path="config.ini"),
        command("cat config.ini; cat config.ini >&2; exit 1"),
        push(verify="cat config.ini"),
        pop(),
        pop(),
        files={"config.ini": f"key = {KEY}\n"},
    )
    result, prompts = solved(stage, task)
    assert [MARK in event.text for event in events(result.run_dir, ToolReturned)] == [True, True]
    assert [MARK in event.text for event in events(result.run_dir, VerifyReturned)] == [True]
    nowhere(stage, result, prompts)


@pytest.mark.parametrize("isolation", ["auto", "none"])
def test_a_command_is_given_no_secret_at_all(stage: Stage, isolation):
    task = stage.task(
        command("env; cat /proc/self/environ | tr '\\0' '\\n'; cat /proc/1/environ 2>&1 | tr '\\0' '\\n'"), pop()
    )
    ran = stage.run("solve", task, "--model", "demo", "--json", "--isolation", isolation, env=ENVIRON)
    assert ran.returncode == 0, ran.stderr
    kept = kept_texts(stage.only_run()).decode()
    assert "PATH=" in kept
    assert "SHOP_API_KEY" not in kept
    assert KEY.partition('"')[0] not in kept + ran.stdout + ran.stderr


def test_a_secret_that_the_checks_print_is_not_kept(stage: Stage):
    task = stage.task(pop(), test="cat key.txt\ncat key.txt >&2\n" + SOLVED, files={"key.txt": KEY})
    result, prompts = solved(stage, task)
    assert result.outcome == "solved"
    assert events(result.run_dir, ChecksReturned)[0].text.count(MARK) == 2
    nowhere(stage, result, prompts)


def test_a_secret_in_the_checks_own_error_is_not_kept(stage: Stage):
    task = stage.task(pop(), test=f"printf '%s' '{KEY}' > \"$VERIFIER_DIR/reward.txt\"\n")
    result, prompts = solved(stage, task)
    assert result.outcome == "unsolved"
    assert result.check_error.startswith("reward.txt is not a number")
    nowhere(stage, result, prompts)


def test_a_secret_in_what_a_provider_says_is_not_kept(stage: Stage):
    task = stage.task({**pop(), "expect": {"contains": KEY}})
    result, _ = solved(stage, task)
    assert result.ending == "model_error"
    assert events(result.run_dir, ModelFailed)[0].kind == "script"
    assert 'hunter"22' not in result.failure


@pytest.mark.parametrize(
    "reply",
    [
        call("heap_alloc", name="key", content=f"It is {KEY}."),
        {"text": f"I saw {KEY}."},
        call("push_frame", name="x", nested={"deep": [KEY]}),
        call(KEY),
        fails("truncated", call="write_file", args={"path": "x", "content": KEY}),
    ],
    ids=["content", "text", "nested", "tool", "malformed"],
)
def test_a_reply_that_holds_a_secret_is_kept_as_it_is_and_flagged(stage: Stage, reply):
    result, _ = solved(stage, stage.task(command("true"), reply, pop()))
    assert result.steps_with_secrets == (2,)


def test_a_key_known_by_its_shape_is_flagged_and_scrubbed_though_nobody_set_it(stage: Stage):
    shape = "ghp_" + "a1B2" * 9
    task = stage.task(command(f"echo {shape}"), {"text": "Nothing here."}, pop())
    result, _ = solved(stage, task)
    assert result.steps_with_secrets == (1,)
    assert events(result.run_dir, ToolReturned)[0].text.startswith("[secret GITHUB_TOKEN]")


@pytest.mark.parametrize("name", ["STACKMEM_GATEWAY_TOKEN", "STACKMEM_MCP_TOKEN", "API_TOKEN"])
def test_the_token_of_a_server_is_a_secret(name: str):
    scrub = scrubber_of({name: "correct-horse-battery", "STACKMEM_MAX_TOKENS": "12345678"}).scrub
    assert "correct-horse" not in scrub("token correct-horse-battery")
    assert scrub("12345678") == "12345678"


def test_the_names_of_our_own_settings_are_no_secrets(stage: Stage):
    task = stage.task(pop(), text="Spend at most 12345678 tokens.\n")
    result = stage.solve(task, environ={**os.environ, "STACKMEM_MAX_TOKENS": "12345678"})
    assert events(result.run_dir, RunStarted)[0].task == "Spend at most 12345678 tokens."


def stored(run: Path) -> bytes:
    """Return every object of a run's history, uncompressed."""
    return b"".join(zlib.decompress(path.read_bytes()) for path in (run / "history.git" / "objects").glob("??/*"))


def test_a_file_that_holds_a_secret_is_named_and_neither_stored_nor_in_the_patch(stage: Stage):
    task = stage.task(
        command("echo more >> config.ini; cp config.ini copy.ini; ln -s '" + TOKEN + "' link; echo plain > plain"),
        pop(),
        files={"config.ini": f"key = {KEY}\n", "tool.sh": "echo " + TOKEN, "other": "kept"},
    )
    result, _ = solved(stage, task)
    run = stage.only_run()
    kept = stored(run) + (run / "changes.patch").read_bytes()
    assert b"kept" in kept
    assert b"plain" in kept
    for secret in (KEY, TOKEN):
        assert secret.encode() not in kept
    assert result.changed == ("plain",)
    assert {path.partition(" ")[0] for path in result.not_kept} == {"config.ini", "copy.ini", "link", "tool.sh"}
    assert "config.ini (holds a secret)" in result.not_kept


def test_a_file_that_came_to_hold_a_secret_keeps_its_earlier_version_in_the_history(stage: Stage):
    task = stage.task(
        command(f"echo {TOKEN} >> notes"), command("echo harmless > notes"), pop(), files={"notes": "at first\n"}
    )
    result, _ = solved(stage, task)
    run = stage.only_run()
    trees = [event.tree for event in events(run, ToolReturned)]
    assert trees[0] == events(run, RunStarted)[0].tree
    assert trees[1] != trees[0]
    assert result.not_kept == ()
    assert "-at first\n+harmless" in (run / "changes.patch").read_text("utf-8")
    assert TOKEN.encode() not in stored(run)
