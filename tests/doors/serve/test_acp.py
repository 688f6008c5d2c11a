"""An editor over pipes: the protocol's official Python client, and lines that no client would send."""

import asyncio
import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from acp import RequestError, spawn_agent_process
from acp.connection import StreamDirection, StreamEvent
from acp.schema import (
    AllowedOutcome,
    AudioContentBlock,
    DeniedOutcome,
    ImageContentBlock,
    RequestPermissionResponse,
    ResourceContentBlock,
    TextContentBlock,
)

from stackmem import open_run, replay
from stackmem.core.conversation.hook_facts import HookRan
from stackmem.core.facts import CallRejected, ContextCompacted, RunEnded, ToolReturned
from stackmem.core.person_facts import (
    PersonAccepted,
    PersonAttached,
    PersonDecided,
    PersonPlanned,
    PersonSaid,
    PersonSteppedIn,
    PersonStopped,
)
from stackmem.doors.acp.messages import BadLine, is_ignored, read_message
from stackmem.run.run_folder import is_run
from tests.doors.serve.acp_schema import Wire
from tests.providers.image_rules import png
from tests.stage import Stage, call, command, pop, push


def says(text: str) -> dict:
    return {"text": text}


class Client:
    """An editor: stores its messages and picks these options in turn; without options left it does not answer."""

    def __init__(self, *choices: str) -> None:
        self.choices = list(choices)
        self.told: list[dict] = []
        self.asked: list[dict] = []

    def on_connect(self, agent) -> None:
        self.agent = agent

    async def session_update(self, session_id, update, **more) -> None:
        self.told.append(update.model_dump(mode="json", by_alias=True, exclude_none=True))

    async def request_permission(self, session_id, tool_call, options, **more) -> RequestPermissionResponse:
        self.asked.append(tool_call.model_dump(mode="json", by_alias=True, exclude_none=True))
        if not self.choices:
            await asyncio.Event().wait()
        chosen = self.choices.pop(0)
        if chosen == "cancelled":
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))

    def words(self, kind: str = "agent_message_chunk") -> str:
        return "".join(each["content"]["text"] for each in self.told if each["sessionUpdate"] == kind)

    def calls(self) -> dict[str, list[str]]:
        """Map the tool of each call to its final status, in order."""
        titles, found = {}, {}
        for each in self.told:
            if "toolCallId" in each:
                titles.setdefault(each["toolCallId"], each.get("title", "").split(" ")[0])
                found.setdefault(titles[each["toolCallId"]], []).append(each["status"])
        return found

    def plans(self) -> list[list[str]]:
        return [[entry["status"] for entry in each["entries"]] for each in self.told if each["sessionUpdate"] == "plan"]


def arguments(stage: Stage, *replies, more=()) -> list[str]:
    model = ["--model", stage.script(*replies), "--network", "none"]
    return ["-m", "stackmem", "acp", *model, *more]


def mine(stage: Stage) -> Path:
    folder = stage.root / "mine"
    folder.mkdir(exist_ok=True)
    (folder / "a.txt").write_text("one\n", encoding="utf-8")
    return folder


@asynccontextmanager
async def editor(stage: Stage, client: Client, line: list[str]):
    wire = Wire()

    def watch(event: StreamEvent) -> None:
        (wire.ask if event.direction is StreamDirection.OUTGOING else wire.check)(event.message)

    async with spawn_agent_process(
        client, sys.executable, *line, env=stage.environ(), cwd=stage.root, observers=[watch]
    ) as (agent, process):
        begun = await agent.initialize(protocol_version=2)
        assert begun.protocol_version == 1
        yield agent, process
    assert wire.faults == []


def text(words: str) -> list:
    return [TextContentBlock(type="text", text=words)]


def only_run(stage: Stage) -> Path:
    (run,) = (path for path in stage.runs.iterdir() if is_run(path))
    return run


def words_of(stage: Stage) -> str:
    """Return everything the user said while the agent worked."""
    return " ".join(event.text for event in facts(stage, PersonSteppedIn))


async def until(holds: Callable[[], object]) -> None:
    while not holds():
        await asyncio.sleep(0.02)


def facts(stage: Stage, *kinds: type) -> list:
    return [record.event for record in open_run(only_run(stage)).records() if isinstance(record.event, kinds)]


def test_a_conversation_with_permissions_a_question_a_cancel_and_the_end(stage: Stage):
    client = Client("allow_once", "reject_once", "allow_always")
    folder = mine(stage)
    line = arguments(
        stage,
        call("edit_file", path="a.txt", old_string="one", new_string="two"),
        call("write_file", path="b.txt", content="b\n"),
        says("Which way?"),
        push(), command("echo in"), pop("Inner."), command("sleep 60"),
        says("After all."),
    )  # fmt: skip

    async def play() -> None:
        async with editor(stage, client, line) as (agent, process):
            begun = await agent.new_session(cwd=str(folder))
            session = begun.session_id
            assert client.told == []  # nothing before the session's own response
            await agent.set_session_mode(session_id=session, mode_id="commands")
            link = ResourceContentBlock(type="resource_link", name="a.txt", uri=(folder / "a.txt").as_uri())
            first = await agent.prompt(session_id=session, prompt=[*text("Mend "), link])
            assert (first.stop_reason, client.words()) == ("end_turn", "Which way?")
            turn = asyncio.create_task(agent.prompt(session_id=session, prompt=text("That way.")))
            while "in_progress" not in client.calls().get("run_command", [])[2:]:
                await asyncio.sleep(0.01)
            await agent.cancel(session_id=session)
            assert (await turn).stop_reason == "cancelled"
            await agent.prompt(session_id=session, prompt=text("Go on."))
            await agent.prompt(session_id=session, prompt=text("/apply"))
            audio = AudioContentBlock(type="audio", data="", mime_type="audio/wav")
            with pytest.raises(RequestError, match="not audio"):
                await agent.prompt(session_id=session, prompt=[audio])
            image = ImageContentBlock(type="image", data="?", mime_type="image/png")
            with pytest.raises(RequestError, match="not base64"):
                await agent.prompt(session_id=session, prompt=[image])
            process.stdin.close()
            assert await process.wait() == 0

    asyncio.run(asyncio.wait_for(play(), 100))
    assert [each["title"] for each in client.asked] == ["edit_file a.txt", "write_file b.txt", "run_command echo in"]
    (diff,) = client.asked[0]["content"]
    assert diff == {"type": "diff", "path": str(folder / "a.txt"), "oldText": "one\n", "newText": "two\n"}
    assert client.asked[0]["locations"] == [{"path": str(folder / "a.txt")}]
    assert client.calls()["edit_file"] == ["pending", "in_progress", "completed"]
    assert client.calls()["write_file"] == ["pending", "failed"]
    assert client.calls()["run_command"][:3] == ["pending", "in_progress", "completed"]
    assert client.calls()["run_command"][-1] == "failed"
    assert client.plans()[:2] == [["in_progress"], ["completed"]]
    assert (folder / "a.txt").read_text() == "two\n"
    assert [event.text for event in facts(stage, PersonSaid)] == ["Mend `a.txt`", "Go on."]
    assert [event.allow for event in facts(stage, PersonDecided)] == [True, False, True]
    assert len(facts(stage, PersonStopped)) == 1
    assert replay(only_run(stage)).prompts
    assert client.words().endswith("1 file")


def test_an_image_of_the_editor_is_attached_to_the_request(stage: Stage):
    client = Client()
    line = [*arguments(stage, says("It is gray.")), "--vision", "on"]

    async def play() -> None:
        async with editor(stage, client, line) as (agent, process):
            begun = await agent.new_session(cwd=str(mine(stage)))
            image = ImageContentBlock(type="image", data=b64encode(png(80, 60)).decode(), mime_type="image/png")
            answer = await agent.prompt(session_id=begun.session_id, prompt=[*text("What is "), image])
            assert (answer.stop_reason, client.words()) == ("end_turn", "It is gray.")
            process.stdin.close()
            assert await process.wait() == 0

    asyncio.run(asyncio.wait_for(play(), 100))
    assert [event.text for event in facts(stage, PersonSaid)] == ["What is [Image 1]"]
    (attached,) = facts(stage, PersonAttached)
    assert (attached.name, len(attached.images), attached.failed) == ("Image 1", 1, False)


def test_a_permission_rule_asks_in_every_mode_and_denies_without_a_question(stage: Stage):
    rules = Path(os.environ["XDG_CONFIG_HOME"], "stackmem", "permissions.toml")
    rules.parent.mkdir(parents=True, exist_ok=True)
    rules.write_text('[ask]\nrun_command = "echo b*"\n[deny]\nrun_command = "echo c*"\n', encoding="utf-8")
    client = Client("allow_once")
    line = arguments(stage, command("echo a"), command("echo b"), command("echo c"), says("Done."))

    async def play() -> None:
        async with editor(stage, client, line) as (agent, process):
            session = (await agent.new_session(cwd=str(mine(stage)))).session_id
            await agent.set_session_mode(session_id=session, mode_id="never")
            await agent.prompt(session_id=session, prompt=text("Go on."))
            await agent.prompt(session_id=session, prompt=text("/permissions"))
            process.stdin.close()
            assert await process.wait() == 0

    asyncio.run(asyncio.wait_for(play(), 100))
    assert [each["title"] for each in client.asked] == ["run_command echo b"]
    assert client.calls()["run_command"][-1] == "failed"
    assert len(facts(stage, ToolReturned)) == 2
    assert 'deny  run_command  "echo c*"' in client.words()
    assert replay(only_run(stage)).prompts


def test_a_hook_refuses_a_call_in_an_editor_too(stage: Stage):
    hooks = Path(os.environ["XDG_CONFIG_HOME"], "stackmem", "hooks.toml")
    hooks.parent.mkdir(parents=True, exist_ok=True)
    hooks.write_text('[[before_tool]]\ncommand = "grep -q echo && { echo no >&2; exit 2; }"\n', encoding="utf-8")
    client = Client("allow_once")
    line = arguments(stage, command("echo a"), says("Done."))

    async def play() -> None:
        async with editor(stage, client, line) as (agent, process):
            session = (await agent.new_session(cwd=str(mine(stage)))).session_id
            await agent.prompt(session_id=session, prompt=text("Go on."))
            await agent.prompt(session_id=session, prompt=text("/hooks"))
            process.stdin.close()
            assert await process.wait() == 0

    asyncio.run(asyncio.wait_for(play(), 100))
    assert client.asked == []
    assert client.calls()["run_command"][-1] == "failed"
    assert [event.outcome for event in facts(stage, HookRan)] == ["refused"]
    assert "before_tool" in client.words()
    assert replay(only_run(stage)).prompts


def test_a_command_from_a_file_is_offered_and_sent_as_its_text(stage: Stage):
    place = Path(os.environ["XDG_CONFIG_HOME"], "stackmem", "commands")
    place.mkdir(parents=True, exist_ok=True)
    (place / "deploy.md").write_text("---\ndescription: Ship it\n---\nDeploy to $1.", encoding="utf-8")
    folder, client = mine(stage), Client()
    (folder / ".claude" / "commands").mkdir(parents=True)
    (folder / ".claude" / "commands" / "theirs.md").write_text("Do it.", encoding="utf-8")
    line = arguments(stage, says("Done."))

    async def play() -> None:
        async with editor(stage, client, line) as (agent, process):
            session = (await agent.new_session(cwd=str(folder))).session_id
            with pytest.raises(RequestError, match="not trusted"):
                await agent.prompt(session_id=session, prompt=text("/theirs"))
            await agent.prompt(session_id=session, prompt=text("/deploy prod"))
            process.stdin.close()
            assert await process.wait() == 0

    asyncio.run(asyncio.wait_for(play(), 100))
    assert [event.text for event in facts(stage, PersonSaid)] == ["Deploy to prod."]


def test_plan_is_a_mode_and_an_accepted_plan_is_carried_out_in_one_turn(stage: Stage):
    client = Client("allow_once")
    write = call("write_file", path="b.txt", content="x")
    line = arguments(stage, write, says("1. Write b.txt\n2. Say so"), write, says("Wrote it."), says("Said it."))

    async def play() -> None:
        async with editor(stage, client, line) as (agent, process):
            begun = await agent.new_session(cwd=str(mine(stage)))
            assert "plan" in [mode.id for mode in begun.modes.available_modes]
            await agent.set_session_mode(session_id=begun.session_id, mode_id="plan")
            await agent.prompt(session_id=begun.session_id, prompt=text("Plan it."))
            await agent.prompt(session_id=begun.session_id, prompt=text("/accept"))
            await agent.prompt(session_id=begun.session_id, prompt=text("/accept"))
            process.stdin.close()
            assert await process.wait() == 0

    asyncio.run(asyncio.wait_for(play(), 100))
    assert [event.on for event in facts(stage, PersonPlanned)] == [True]
    assert len(facts(stage, PersonAccepted)) == 1
    assert [event.code for event in facts(stage, CallRejected)] == ["plan_mode"]
    assert len(facts(stage, ToolReturned)) == 1
    assert client.words().endswith("the next answer is a plan")
    assert replay(only_run(stage)).prompts == 5


def test_compact_summarizes_between_two_turns(stage: Stage):
    client = Client("allow_once")
    look = call("list_files", path=".")
    line = arguments(
        stage, look, look, says("Looked."), says("THE SUMMARY"), says("Bye."), more=("--strategy", "summary")
    )

    async def play() -> None:
        async with editor(stage, client, line) as (agent, process):
            begun = await agent.new_session(cwd=str(mine(stage)))
            for words in ("Look.", "/compact", "Leave."):
                await agent.prompt(session_id=begun.session_id, prompt=text(words))
            process.stdin.close()
            assert await process.wait() == 0

    asyncio.run(asyncio.wait_for(play(), 100))
    assert [event.text for event in facts(stage, ContextCompacted)] == ["THE SUMMARY"]
    assert replay(only_run(stage)).prompts == 5


def test_a_session_is_loaded_after_a_kill_and_continues(stage: Stage):
    folder, first, second = mine(stage), Client(), Client()
    line = arguments(stage, says("One file."), command("sleep 60"), says("There."))
    kept = {}

    async def break_off() -> None:
        async with editor(stage, first, line) as (agent, process):
            kept["id"] = (await agent.new_session(cwd=str(folder))).session_id
            await agent.prompt(session_id=kept["id"], prompt=text("What is here?"))
            turn = asyncio.create_task(agent.prompt(session_id=kept["id"], prompt=text("And now?")))
            while "in_progress" not in str(first.told):
                await asyncio.sleep(0.01)
            process.kill()
            await process.wait()
            with pytest.raises(ConnectionError):
                await turn

    async def take_up() -> None:
        async with editor(stage, second, line) as (agent, _):
            with pytest.raises(RequestError, match="no session"):
                await agent.load_session(cwd=str(folder), session_id="../mine")
            with pytest.raises(RequestError, match="no session"):
                await agent.prompt(session_id=kept["id"], prompt=text("hm"))
            await agent.load_session(cwd=str(folder), session_id=kept["id"])
            assert second.words("user_message_chunk") == "What is here?And now?"
            assert second.words() == "One file."
            # The work that the kill interrupted is repeated, starting from the original files.
            turn = asyncio.create_task(agent.prompt(session_id=kept["id"], prompt=text("Go on.")))
            await until(lambda: "Go on." in words_of(stage))
            await agent.cancel(session_id=kept["id"])
            assert (await turn).stop_reason == "cancelled"
            listed = (await agent.list_sessions(cwd=str(folder))).sessions
            assert [(each.session_id, each.title) for each in listed] == [(kept["id"], "What is here?")]
            await agent.prompt(session_id=kept["id"], prompt=text("/undo"))
            assert "undone: And now?" in second.words()
            again = asyncio.create_task(agent.prompt(session_id=kept["id"], prompt=text("Once more?")))
            await until(lambda: second.told[-1].get("status") == "in_progress")
            ids = [each["toolCallId"] for each in second.told if each["sessionUpdate"] == "tool_call"]
            assert len(set(ids)) == 2  # one before the undo, and another one
            await agent.cancel(session_id=kept["id"])
            assert (await again).stop_reason == "cancelled"

    asyncio.run(asyncio.wait_for(break_off(), 100))
    asyncio.run(asyncio.wait_for(take_up(), 100))


def test_a_permission_without_an_answer_is_cancelled_and_a_closed_editor_leaves_no_process(stage: Stage):
    client = Client()
    line = arguments(stage, command("echo"), says("Next."), command("touch begun; sleep 60"), more=["--approve", "all"])

    async def play() -> None:
        async with editor(stage, client, line) as (agent, process):
            session = (await agent.new_session(cwd=str(mine(stage)))).session_id
            turn = asyncio.create_task(agent.prompt(session_id=session, prompt=text("Do.")))
            while not client.asked:
                await asyncio.sleep(0.01)
            await agent.cancel(session_id=session)
            assert (await turn).stop_reason == "cancelled"
            await agent.set_session_mode(session_id=session, mode_id="never")
            await agent.prompt(session_id=session, prompt=text("Again."))
            asyncio.create_task(agent.prompt(session_id=session, prompt=text("More.")))  # noqa: RUF006
            await until(lambda: list(stage.work.glob("*/*/begun")))  # updates may arrive before or after
            await until(lambda: client.calls()["run_command"][-1] == "in_progress")
            process.stdin.close()
            assert await process.wait() == 0

    asyncio.run(asyncio.wait_for(play(), 100))
    assert facts(stage, RunEnded)[-1].ending == "left"
    assert facts(stage, ToolReturned)[-1].text.endswith(
        "[interrupted by the user; everything it started was killed, and files may be half written]"
    )
    assert replay(only_run(stage)).prompts


def test_garbage_is_answered_and_ends_nothing(stage: Stage):
    process = subprocess.Popen(
        [sys.executable, *arguments(stage, says("Hi."))], env=stage.environ(), cwd=stage.root,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    asked = {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {"protocolVersion": 1}}
    unknown = {"jsonrpc": "2.0", "id": 8, "method": "no/such", "params": [1]}
    lines = [b"garbage", b"[1,2]", b'{"id": [1], "result": 1}', b"\xff", b"x" * 3_000_000, b""]
    lines += [json.dumps(each).encode() for each in (unknown, asked)]
    out, _ = process.communicate(b"\n".join(lines) + b"\n", timeout=100)
    answers = [json.loads(line) for line in out.splitlines()]
    by_id = {each["id"]: each for each in answers if each["id"] is not None}
    assert [each["error"]["code"] for each in answers if each["id"] is None] == [-32700, -32600, -32600, -32700, -32700]
    assert by_id[8]["error"]["code"] == -32601
    assert by_id[7]["result"]["protocolVersion"] == 1
    assert process.returncode == 0


@pytest.mark.parametrize(
    "line",
    [b'{"method": 5}', b'{"id": true}', b'{"id": 1.5, "result": 0}', b'{"id": 1, "error": "no"}', b"[" * 200_000],
)
def test_invalid_messages_are_refused(line):
    with pytest.raises(BadLine) as refused:
        read_message(line)
    assert refused.value.answer["error"]["code"] in (-32700, -32600)


@pytest.mark.parametrize(
    ("message", "ignored"),
    [
        ({"jsonrpc": "2.0", "method": "$/progress", "params": None}, True),
        ({"jsonrpc": "2.0", "method": "_vendor/ping", "params": {}}, True),
        ({"jsonrpc": "2.0", "method": "session/cancel", "params": None}, True),
        ({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": 1}}, True),
        ({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "a"}}, False),
        ({"jsonrpc": "2.0", "id": 1, "method": "foo/bar"}, False),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, False),
    ],
)
def test_unknown_notifications_are_ignored_and_requests_are_answered(message, ignored):
    assert is_ignored(message) == ignored
