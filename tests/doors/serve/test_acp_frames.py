"""Parallel frames in an editor: a line each, permissions that name the frame, and questions to the user."""

import asyncio

import pytest

from stackmem import replay
from stackmem.run.run_folder import is_run
from tests.doors.serve.test_acp import Client, editor, mine, text
from tests.groups import group_script, together
from tests.stage import Stage, call, command, mounted, pop

pytest.importorskip("acp")


def arguments(stage: Stage, frames) -> list[str]:
    script = group_script(stage, [together("a", "b"), pop("All done.")], frames)
    return [
        "-m", "stackmem", "acp", "--model", script, "--network", "none", "--strategy", "stackheap",
        "--parallel-frames", "2",
    ]  # fmt: skip


def lines_of(client: Client) -> dict[str, list[dict]]:
    """Map each frame to the updates of its line."""
    found: dict[str, list[dict]] = {}
    for each in client.told:
        if "-frame-" in each.get("toolCallId", ""):
            found.setdefault(each["toolCallId"].rpartition("-frame-")[2], []).append(each)
    return found


def statuses(updates: list[dict]) -> list[str]:
    changes = [each["status"] for each in updates]
    return [status for status, before in zip(changes, ["", *changes], strict=False) if status != before]


@mounted
def test_each_frame_is_a_call_that_shows_its_steps_and_waits_for_permission(stage: Stage):
    client = Client("allow_once", "allow_once")
    frames = {name: [command(f"echo {name} >a.txt"), pop(f"Did {name}.")] for name in "ab"}

    async def play() -> None:
        async with editor(stage, client, arguments(stage, frames)) as (agent, process):
            session = (await agent.new_session(cwd=str(mine(stage)))).session_id
            await agent.set_session_mode(session_id=session, mode_id="commands")
            done = await agent.prompt(session_id=session, prompt=text("Do it."))
            assert done.stop_reason == "end_turn"
            process.stdin.close()
            await process.wait()

    asyncio.run(asyncio.wait_for(play(), 100))
    assert "All done." in client.words()
    assert sorted(each["title"] for each in client.asked) == [
        f"[{name}] run_command: echo {name} >a.txt" for name in "ab"
    ]
    first, second = (lines for _, lines in sorted(lines_of(client).items()))
    assert (first[0]["sessionUpdate"], first[0]["title"]) == ("tool_call", "[a] Do a.")
    assert statuses(first) == ["in_progress", "pending", "in_progress", "completed"]
    assert statuses(second) == ["in_progress", "pending", "in_progress", "completed", "failed"]
    assert first[-1]["title"].startswith("[a] merged, 2 steps, ")
    assert second[-1]["title"].startswith("[b] conflict, 2 steps, ")
    assert second[-1]["title"].endswith(": a.txt")
    for run in stage.runs.iterdir():
        if is_run(run):
            replay(run)


@mounted
def test_a_call_that_the_mode_allows_does_not_wait_and_a_question_is_answered_in_the_chat(stage: Stage):
    client = Client()
    frames = {
        "a": [call("ask_user", question="Which way?", options=["left", "right"]), pop("Did a.")],
        "b": [command("true"), pop("Did b.")],
    }

    async def play() -> None:
        async with editor(stage, client, arguments(stage, frames)) as (agent, process):
            session = (await agent.new_session(cwd=str(mine(stage)))).session_id
            asked = await agent.prompt(session_id=session, prompt=text("Do it."))
            assert asked.stop_reason == "end_turn"
            assert "[a] Which way?\n- left\n- right" in client.words()
            await agent.prompt(session_id=session, prompt=text("2"))
            process.stdin.close()
            await process.wait()

    asyncio.run(asyncio.wait_for(play(), 100))
    assert client.words().count("Which way?") == 1
    assert "All done." in client.words()
    assert client.asked == []
    first, second = (lines for _, lines in sorted(lines_of(client).items()))
    assert first[-1]["title"].startswith("[a] merged, 2 steps, ")
    assert "pending" not in statuses(second)
    answered, _ = sorted(stage.runs.glob("*.frame-*"))
    assert "right" in (answered / "trace.jsonl").read_text()
