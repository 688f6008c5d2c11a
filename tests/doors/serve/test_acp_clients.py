"""Another editor, the protocol's TypeScript library; and an agent that is killed after any of its messages."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stackmem import replay
from stackmem.run.run_folder import is_run
from tests.conftest import CAMPAIGN
from tests.doors.serve.acp_schema import Wire
from tests.doors.serve.test_acp import arguments, mine, only_run, says
from tests.node import node
from tests.stage import Stage, call, command, pop, push

CLIENT = Path(__file__).with_name("acp_client.mjs")


def test_the_client_in_typescript_plays_permissions_a_cancel_and_a_load(stage: Stage):
    folder = mine(stage)
    line = [sys.executable, *arguments(
        stage,
        call("edit_file", path="a.txt", old_string="one", new_string="two"),
        call("write_file", path="b.txt", content="b\n"),
        says("Changed."),
        command("sleep 60"),
        says("Yes."),
    )]  # fmt: skip

    def played(*what: str) -> dict:
        done = subprocess.run(
            [node(), CLIENT, *what, *line], env=stage.environ(), cwd=stage.elsewhere, capture_output=True, text=True,
            timeout=100, check=True,
        )  # fmt: skip
        return json.loads(done.stdout)

    first = played("first", str(folder), "")
    assert (first["protocolVersion"], first["modes"], first["exit"]) == (1, 5, 0)
    assert first["stops"] == ["end_turn", "cancelled"]
    assert first["asked"] == ["edit_file a.txt", "write_file b.txt", "run_command sleep 60"]
    assert "".join(each["content"]["text"] for each in first["told"] if each["sessionUpdate"] == "agent_message_chunk")
    again = played("again", str(folder), first["sessionId"])
    assert (again["sessions"], again["stops"], again["exit"]) == ([first["sessionId"]], ["end_turn"], 0)
    said = [each["content"]["text"] for each in again["told"] if each["sessionUpdate"] == "user_message_chunk"]
    assert said == ["Change a.txt.", "Wait."]
    assert again["told"][-2]["content"]["text"] == "Yes."
    assert replay(only_run(stage)).prompts


class Editor:
    """An editor that allows everything, and reads one message at a time."""

    def __init__(self, stage: Stage, line: list[str]) -> None:
        self.process = subprocess.Popen(
            line, env=stage.environ(), cwd=stage.elsewhere, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.wire = Wire()
        self.left: int | None = None
        self._number = 0

    def ask(self, method: str, **params: object) -> dict:
        """Return the answer to a request; answers messages that arrive first.

        Raises:
            EOFError: The agent was killed after ``left`` messages, or before it could answer.
        """
        self._number += 1
        number = self._number
        self._write({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        while True:
            message = self._read()
            if message.get("method") == "session/request_permission":
                outcome = {"outcome": "selected", "optionId": "allow_once"}
                self._write({"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": outcome}})
            elif "method" not in message and message["id"] == number:
                assert "error" not in message, message
                return message["result"]

    def close(self) -> int:
        assert self.wire.faults == []
        with self.process:
            self.process.stdin.close()
            return self.process.wait(60)

    def _write(self, message: dict) -> None:
        self.wire.ask(message)
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise EOFError from error

    def _read(self) -> dict:
        if self.left == 0:
            self.process.kill()
            raise EOFError
        line = self.process.stdout.readline()
        if not line:
            raise EOFError
        self.left = None if self.left is None else self.left - 1
        message = json.loads(line)
        self.wire.check(message)
        return message


REQUESTS = ("Change a.txt.", "And then?")


def converse(editor: Editor, folder: Path, known: list[str]) -> None:
    """Hold a conversation until the kill; stores the session's id in ``known`` as soon as it exists."""
    editor.ask("initialize", protocolVersion=1)
    known.append(editor.ask("session/new", cwd=str(folder), mcpServers=[])["sessionId"])
    editor.ask("session/set_mode", sessionId=known[0], modeId="all")
    for words in REQUESTS:
        editor.ask("session/prompt", sessionId=known[0], prompt=[{"type": "text", "text": words}])


REPLIES = (
    call("edit_file", path="a.txt", old_string="one", new_string="two"), push(), command("cat a.txt"),
    pop("It says two."), says("Changed."), call("read_file", path="a.txt"), says("Nothing."), says("More."),
    says("End."),
)  # fmt: skip
MESSAGES = 33
"""Number of messages that the agent sends in the conversation."""


@pytest.mark.parametrize("after", range(MESSAGES) if CAMPAIGN else (5, 26))
def test_killed_after_any_message_nothing_is_lost(stage: Stage, after: int):
    folder, known = mine(stage), []
    line = [sys.executable, *arguments(stage, *REPLIES)]
    editor = Editor(stage, line)
    editor.left = after
    with pytest.raises(EOFError):
        converse(editor, folder, known)
    with editor.process:
        editor.process.kill()
    if not any(is_run(path) for path in stage.runs.glob("*")):
        return  # it was killed before the first fact
    second = Editor(stage, line)
    second.ask("initialize", protocolVersion=1)
    listed = second.ask("session/list", cwd=str(folder))["sessions"]
    assert [each["sessionId"] for each in listed] == known
    second.ask("session/load", sessionId=known[0], cwd=str(folder), mcpServers=[])
    for _ in REQUESTS:
        done = second.ask("session/prompt", sessionId=known[0], prompt=[{"type": "text", "text": "Go on."}])
        assert done["stopReason"] == "end_turn"
    assert second.close() == 0
    assert replay(only_run(stage)).prompts


def test_every_message_fits_the_published_schema(stage: Stage):
    line = [sys.executable, *arguments(stage, *REPLIES)]
    editor = Editor(stage, line)
    converse(editor, mine(stage), [])
    assert editor.close() == 0
    assert len(editor.wire.sent) == MESSAGES


def test_a_message_that_does_not_fit_is_a_fault():
    wire = Wire()
    wire.check({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "1", "update": {}}})
    assert len(wire.faults) == 1
