"""Several sessions, forks, options, files, servers and commands of an editor, through the official Python client."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from acp import RequestError
from acp.schema import (
    BlobResourceContents,
    ClientCapabilities,
    EmbeddedResourceContentBlock,
    FileSystemCapabilities,
    McpServerStdio,
    ReadTextFileResponse,
    ResourceContentBlock,
    TextResourceContents,
)

from stackmem import open_run, replay
from stackmem.core.facts import ToolReturned
from stackmem.core.person_facts import PersonAttached, PersonRan, PersonSaid
from stackmem.review.replays.model import replay_model
from stackmem.run.run_folder import is_run
from tests.stage import Stage, call, command

from .test_acp import Client, arguments, editor, facts, mine, only_run, says, text

SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("numbers")


@server.tool()
def add(a: int, b: int) -> int:
    '''Add two numbers.'''
    return a + b


server.run("stdio")
"""


class FileClient(Client):
    """An editor with unsaved text."""

    def __init__(self, *choices: str) -> None:
        super().__init__(*choices)
        self.unsaved: dict[str, str] = {}
        self.read: list[str] = []

    async def read_text_file(self, path, session_id, **more) -> ReadTextFileResponse:
        self.read.append(path)
        if path not in self.unsaved:
            raise RequestError(-32002, "no such file")
        return ReadTextFileResponse(content=self.unsaved[path])


def play(stage: Stage, client: Client, line: list[str], conversation) -> None:
    async def through() -> None:
        async with editor(stage, client, line) as (agent, process):
            await conversation(agent)
            process.stdin.close()
            assert await process.wait() == 0

    asyncio.run(asyncio.wait_for(through(), 100))


def runs(stage: Stage) -> list[Path]:
    return sorted(path for path in stage.runs.iterdir() if is_run(path))


def requests_of(run: Path) -> list[str]:
    return [each.event.text for each in open_run(run).records() if isinstance(each.event, PersonSaid)]


def test_two_sessions_work_in_parallel_and_each_is_cancelled_and_closed_alone(stage: Stage):
    folder, client = mine(stage), Client("allow_once")
    line = arguments(stage, command("touch begun; sleep 600"), says("Done."))

    async def conversation(agent) -> None:
        first = (await agent.new_session(cwd=str(folder))).session_id
        second = (await agent.new_session(cwd=str(folder))).session_id
        third = (await agent.new_session(cwd=str(folder))).session_id
        await agent.set_session_mode(session_id=third, mode_id="all")
        turns = [
            asyncio.create_task(agent.prompt(session_id=each, prompt=text(f"Wait {each[:4]}.")))
            for each in (first, second, third)
        ]
        while len(client.asked) != 1 or len(list(stage.work.glob("*/*/begun"))) != 3:
            await asyncio.sleep(0.02)
        await agent.cancel(session_id=second)
        assert (await turns[1]).stop_reason == "cancelled"
        assert not turns[0].done()
        assert not turns[2].done()
        for session, turn in ((first, turns[0]), (third, turns[2])):
            await agent.cancel(session_id=session)
            assert (await turn).stop_reason == "cancelled"
        await agent.close_session(session_id=third)
        with pytest.raises(RequestError, match="no session"):
            await agent.prompt(session_id=third, prompt=text("?"))
        await agent.load_session(cwd=str(folder), session_id=third)
        with pytest.raises(RequestError, match="cwd must be"):
            await agent.new_session(cwd="missing")
        assert len((await agent.list_sessions(cwd=str(folder))).sessions) == 3

    play(stage, client, line, conversation)
    assert len(runs(stage)) == 3
    assert all(replay(run).prompts for run in runs(stage))


def test_a_fork_begins_with_the_conversation_so_far_and_leaves_the_other_as_it_is(stage: Stage):
    folder, client = mine(stage), Client()
    line = arguments(stage, says("One."), says("Two."), says("Three."))

    async def conversation(agent) -> None:
        first = (await agent.new_session(cwd=str(folder))).session_id
        with pytest.raises(RequestError, match="no session"):
            await agent.fork_session(cwd=str(folder), session_id=first)
        await agent.prompt(session_id=first, prompt=text("a"))
        second = (await agent.fork_session(cwd=str(folder), session_id=first)).session_id
        await agent.prompt(session_id=second, prompt=text("b in the fork"))
        await agent.prompt(session_id=first, prompt=text("b"))
        await agent.prompt(session_id=second, prompt=text("c in the fork"))

    play(stage, client, line, conversation)
    assert [requests_of(run) for run in runs(stage)] == [["a", "b"], ["a", "b in the fork", "c in the fork"]]
    assert all(replay(run).prompts for run in runs(stage))


def test_mode_model_and_strategy_are_options_of_a_session(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    folder, client = mine(stage), Client("allow_once")
    line = arguments(stage, command("true"), says("One."), says("Two."))

    def current(options) -> dict[str, str]:
        return {each.id: each.current_value for each in options}

    async def conversation(agent) -> None:
        begun = await agent.new_session(cwd=str(folder))
        model = current(begun.config_options)["model"]
        assert current(begun.config_options) == {"mode": "never", "model": model, "strategy": "adaptive"}
        (models,) = (each.options for each in begun.config_options if each.id == "model")
        assert [each.value for each in models][:2] == [model, "claude-sonnet-5-5"]

        async def choose(option: str, value: str):
            return await agent.set_config_option(config_id=option, session_id=begun.session_id, value=value)

        await choose("mode", "commands")
        assert current((await choose("strategy", "full")).config_options)["strategy"] == "full"
        await agent.prompt(session_id=begun.session_id, prompt=text("a"))
        await choose("model", "claude-sonnet-5-5")
        await choose("model", model)
        changed = current((await choose("strategy", "stackheap")).config_options)
        assert changed == {"mode": "commands", "model": model, "strategy": "stackheap"}
        await agent.prompt(session_id=begun.session_id, prompt=text("b"))
        for option, value, problem in (
            ("model", "gpt-none", "not a value of model"),
            ("size", "small", "no option"),
            ("mode", "some", "not a value"),
        ):
            with pytest.raises(RequestError, match=problem):
                await choose(option, value)

    play(stage, client, line, conversation)
    assert [each["title"] for each in client.asked] == ["run_command true"]
    states = [open_run(run).state for run in runs(stage)]
    assert [state.begun.strategy for state in states] == ["full", "stackheap"]
    assert requests_of(runs(stage)[1]) == ["a", "b"]


def test_embedded_mentioned_and_unsaved_files_are_attached_and_replayed(stage: Stage):
    folder, client = mine(stage), FileClient()
    (folder / "b.txt").write_text("saved\n", encoding="utf-8")
    client.unsaved = {str(folder / "b.txt"): "not yet saved\n", str(folder / "a.txt"): "one\n"}
    line = arguments(stage, says("Read."))

    def embedded(uri: str, content: str) -> EmbeddedResourceContentBlock:
        return EmbeddedResourceContentBlock(type="resource", resource=TextResourceContents(uri=uri, text=content))

    async def conversation(agent) -> None:
        files = ClientCapabilities(fs=FileSystemCapabilities(read_text_file=True))
        await agent.initialize(protocol_version=1, client_capabilities=files)
        session = (await agent.new_session(cwd=str(folder))).session_id
        blob = BlobResourceContents(uri="file:///else/where.bin", blob="/wA=")
        prompt = [
            *text("See @a.txt and "),
            embedded((folder / "new.txt").as_uri(), "from the editor"),
            ResourceContentBlock(type="resource_link", name="b.txt", uri=(folder / "b.txt").as_uri()),
            EmbeddedResourceContentBlock(type="resource", resource=blob),
        ]
        await agent.prompt(session_id=session, prompt=prompt)

    play(stage, client, line, conversation)
    assert requests_of(only_run(stage)) == ["See @a.txt and `new.txt``b.txt``file:///else/where.bin`"]
    attached = {each.path: (each.content, each.failed, each.given) for each in facts(stage, PersonAttached)}
    assert attached["new.txt"] == ("from the editor", False, True)
    assert attached["b.txt (not saved)"] == ("not yet saved\n", False, True)
    assert attached["a.txt"][0].endswith("one\n")
    assert attached["file:///else/where.bin"][1]
    assert "not attached: file:///else/where.bin" in client.words()
    assert sorted(client.read) == [str(folder / "a.txt"), str(folder / "b.txt")]
    assert replay(only_run(stage)).prompts
    again = replay_model(open_run(only_run(stage)), os.environ, 1)
    assert again.equal, again.difference


def test_a_command_of_the_user_runs_in_the_sandbox_and_is_shown(stage: Stage):
    folder, client = mine(stage), Client()
    line = arguments(stage, says("Seen."))

    async def conversation(agent) -> None:
        session = (await agent.new_session(cwd=str(folder))).session_id
        await agent.prompt(session_id=session, prompt=text("!echo '```' from-the-user > c.txt; cat c.txt a.txt"))
        assert "````text\n``` from-the-user\none\n[exit 0]\n````" in client.words()
        await agent.prompt(session_id=session, prompt=text("And?"))
        for line, told in (("/rename day", "renamed"), ("/rewind", "1. And?"), ("/undo", "undone: And?")):
            await agent.prompt(session_id=session, prompt=text(line))
            assert told in client.words()
        await agent.prompt(session_id=session, prompt=text("/redo"))
        assert client.words().endswith("as it was before /undo")
        await agent.prompt(session_id=session, prompt=text("/redo"))
        assert client.words().endswith("no /undo since the last request")

    play(stage, client, line, conversation)
    assert not (folder / "c.txt").exists()
    (ran,) = (each.event for each in open_run(runs(stage)[0]).records() if isinstance(each.event, PersonRan))
    assert ran.exit_code == 0
    assert all(replay(run) for run in runs(stage))


def test_the_servers_of_the_editor_are_used_after_a_permission(stage: Stage):
    folder, client = mine(stage), Client("allow_once")
    (stage.root / "server.py").write_text(SERVER, encoding="utf-8")
    line = arguments(stage, call("my_numbers__add", a=2, b=3), says("Five."))

    async def conversation(agent) -> None:
        broken = McpServerStdio(name="broken", command=str(stage.root / "missing"), args=[], env=[])
        server = McpServerStdio(name="my numbers", command=sys.executable, args=[str(stage.root / "server.py")], env=[])
        with pytest.raises(RequestError, match="does not answer"):
            await agent.new_session(cwd=str(folder), mcp_servers=[broken])
        session = (await agent.new_session(cwd=str(folder), mcp_servers=[server])).session_id
        await agent.prompt(session_id=session, prompt=text("Add."))
        await agent.load_session(cwd=str(folder), session_id=session, mcp_servers=[server])

    play(stage, client, line, conversation)
    assert [each["title"] for each in client.asked] == ["my_numbers__add"]
    assert [each.text for each in facts(stage, ToolReturned)] == ["5"]
    assert replay(only_run(stage)).prompts
