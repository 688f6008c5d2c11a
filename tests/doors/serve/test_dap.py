"""Debugging from an editor: a client over the protocol, and the adapter's reaction to wrong messages."""

import io
import json
import os
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from stackmem.doors.debugger.dap import DebugSession
from stackmem.doors.debugger.dap_launch import debug_launched
from stackmem.doors.debugger.dap_messages import BadMessage, read_message, write_message
from tests.languages.playbook.stage import one

from .dap_client import Client

TEXT = one("- 01:EXE", "- 02:QUE F", "- 03:YLD call", "- 04:RET", more="## F($x)\n### Steps\n- 01:EXE\n- 02:RET")
REPLIES = (
    '`Var[$a, {"b": [1, 2]}]`\n`Step["P:01"]` `Step["P:02"]` `$r = F(5)` `Say("hello")`\n`Step["P:03"]` yld call',
    '`Step["F:01"]` `Var[$y, 7]` `Step["F:02"]` `Return[$y]`',
    '`Step["P:04"]` `Return[$r]`',
)
P2, P3, P4, F1, F2 = 5, 6, 7, 10, 11


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "here").mkdir()
    program = tmp_path / "here" / "main.pb"
    program.write_text(TEXT, "utf-8")
    script = tmp_path / "script.yaml"
    script.write_text(json.dumps({"replies": [{"text": text} for text in REPLIES]}), "utf-8")
    return {
        "program": str(program), "model": f"script:{script}", "runsDir": str(tmp_path / "runs"),
        "sandboxDir": str(tmp_path / "work"),
    }  # fmt: skip


@pytest.fixture
def adapter():
    process = subprocess.Popen(
        [sys.executable, "-m", "stackmem", "debug"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    yield process
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()


def attend(script):
    """Run the adapter in this thread and a scripted client in another; return the exit code."""
    (client_reads, adapter_writes), (adapter_reads, client_writes) = os.pipe(), os.pipe()
    faults = []

    def talk():
        with closing(os.fdopen(client_reads, "rb")) as reads, closing(os.fdopen(client_writes, "wb")) as writes:
            try:
                script(Client(writes, reads))
            except BaseException as fault:  # noqa: BLE001 - the test fails with it in its own thread
                faults.append(fault)

    thread = threading.Thread(target=talk)
    thread.start()
    with closing(os.fdopen(adapter_reads, "rb")) as reads, closing(os.fdopen(adapter_writes, "wb", 0)) as writes:
        session = DebugSession(reads, writes)
        code = session.serve(lambda arguments, own: debug_launched(arguments, own, os.environ, Path.cwd()))
        thread.join()
    if faults:
        raise faults[0]
    return code


def test_an_editor_sets_breakpoints_steps_and_looks(adapter, files):
    client = Client(adapter.stdin, adapter.stdout)
    assert client.request("initialize", adapterID="stackmem")["supportsConfigurationDoneRequest"]
    client.event("initialized")
    client.request("launch", **files)
    told = client.request("setBreakpoints", source={"path": files["program"]}, breakpoints=[{"line": P2}, {"line": F2}])
    assert [each["verified"] for each in told["breakpoints"]] == [True, True]
    client.request("setExceptionBreakpoints", filters=[])
    client.request("configurationDone")

    assert client.event("stopped")["reason"] == "breakpoint"
    (frame,) = client.request("stackTrace", threadId=1)["stackFrames"]
    assert (frame["name"], frame["line"], frame["source"]["path"]) == ("P", P2, files["program"])
    assert client.request("threads")["threads"] == [{"id": 1, "name": "A"}]
    scopes = client.request("scopes", frameId=1)["scopes"]
    assert [scope["name"] for scope in scopes] == ["Variables", "Registers", "Heap", "Frames"]
    shown = [client.request("variables", variablesReference=each["variablesReference"])["variables"] for each in scopes]
    (variable,), registers, heap, frames = shown
    assert [each["name"] for each in registers] == ["R0 intent", "R1 return_spec", "R3 constraint"]
    assert (registers[0]["value"], heap) == ('"P()"', [])
    assert [each["name"] for each in frames] == ["1 P", "0 root"]
    assert (variable["name"], variable["value"]) == ("$a", '{"b": [1, 2]}')
    (inner,) = client.request("variables", variablesReference=variable["variablesReference"])["variables"]
    items = client.request("variables", variablesReference=inner["variablesReference"])["variables"]
    assert [(each["name"], each["value"]) for each in items] == [("0", "1"), ("1", "2")]
    assert client.request("evaluate", expression="$a")["result"] == '{"b": [1, 2]}'
    assert (
        client.response("evaluate", expression="$nope")["message"]
        == "Expression evaluation failed: $nope is not defined"
    )
    assert not client.response("variables", variablesReference=99)["success"]

    client.request("next", threadId=1)
    assert client.event("stopped")["text"].startswith("03:YLD")
    client.request("stepIn", threadId=1)
    assert client.event("stopped")["reason"] == "entry"
    client.request("stepIn", threadId=1)
    client.event("stopped")
    stack = client.request("stackTrace", threadId=1)["stackFrames"]
    assert [(each["name"], each["line"]) for each in stack] == [("F", F1), ("P", P3)]
    client.request("setBreakpoints", source={"path": files["program"]}, breakpoints=[])
    client.request("stepOut", threadId=1)
    assert client.event("stopped")["reason"] == "step"
    assert client.request("stackTrace", threadId=1)["stackFrames"][0]["line"] == P4
    client.request("continue", threadId=1)
    assert client.event("output") == {"category": "stdout", "output": "hello\n"}
    assert client.event("exited") == {"exitCode": 0}
    client.event("terminated")
    client.request("disconnect")
    assert adapter.wait(timeout=100) == 0
    assert adapter.stdout.read() == b""


def test_an_editor_stops_at_the_entry_and_ends_the_program(files):
    def script(client):
        client.request("initialize")
        assert client.response("launch")["message"].startswith("launch needs `program`")
        assert not client.response("continue")["success"]
        assert client.response("stackTrace")["message"].startswith("the program is running")
        assert client.response("fly")["message"] == "fly is not supported"
        client.request("launch", **files, stopOnEntry=True)
        client.request("configurationDone")
        assert client.event("stopped")["reason"] == "entry"
        client.request("terminate")
        assert "the debugger ended the program" in client.event("output")["output"]
        assert client.event("exited") == {"exitCode": 1}

    assert attend(script) == 1


def test_a_wrong_launch_configuration_is_reported(files):
    def script(client):
        client.request("launch", **files, theme="red")
        client.request("configurationDone")
        assert "unknown key 'theme' in launch" in client.event("output")["output"]
        assert client.event("exited") == {"exitCode": 2}

    assert attend(script) == 2


def test_an_editor_that_goes_away_ends_the_adapter():
    assert attend(lambda client: client) == 0


def test_breakpoints_that_can_never_be_reached_are_not_verified(files):
    def script(client):
        wanted = [
            {"line": P2, "condition": "$a.b[0] == 2"}, {"line": P3, "condition": "$a.b[0] == 1"}, {"line": 1},
            {"line": P4, "condition": "("}, {"line": "x"},
        ]  # fmt: skip
        client.request("launch", **files)
        told = client.request("setBreakpoints", source={"path": files["program"]}, breakpoints=wanted)["breakpoints"]
        assert [each["verified"] for each in told] == [True, True, False, False, False]
        assert told[2]["message"] == "line 1 has no reachable step; the next one is 4"
        elsewhere = client.request("setBreakpoints", source={"path": "/x/notes.txt"}, breakpoints=[{"line": 1}])
        assert elsewhere["breakpoints"][0]["message"] == "notes.txt is not part of a program in a known language"
        client.request("configurationDone")
        assert client.event("stopped")["text"].startswith("03:YLD")
        client.request("continue")
        assert client.event("exited") == {"exitCode": 0}

    assert attend(script) == 0


def test_a_recorded_run_is_walked_backwards(files):
    def live(client):
        client.request("launch", **files)
        client.request("configurationDone")
        assert client.response("stepBack")["message"].startswith("the program is running")
        assert client.event("exited") == {"exitCode": 0}

    def recorded(client):
        assert "supportsStepBack" not in client.request("initialize")
        client.request("launch", run="last", runsDir=files["runsDir"])
        assert client.event("capabilities") == {"capabilities": {"supportsStepBack": True}}
        client.request("setBreakpoints", source={"path": files["program"]}, breakpoints=[{"line": F2}])
        client.request("configurationDone")
        assert client.event("stopped")["reason"] == "breakpoint"
        assert shown(client) == (["F", "P"], F2, "7")
        client.request("continue")
        assert client.event("stopped")["reason"] == "end"
        client.request("reverseContinue")
        assert client.event("stopped")["reason"] == "breakpoint"
        assert shown(client) == (["F", "P"], F2, "7")
        client.request("stepBack")
        assert client.event("stopped")["reason"] == "step"
        assert client.request("stackTrace")["stackFrames"][0]["line"] == F1
        assert client.response("evaluate", expression="$y")["success"] is False
        client.request("reverseContinue")
        assert client.event("stopped")["reason"] == "entry"
        client.request("disconnect")

    def shown(client):
        frames = client.request("stackTrace")["stackFrames"]
        value = client.request("evaluate", expression="$y", frameId=1)["result"]
        return [each["name"] for each in frames], frames[0]["line"], value

    assert attend(live) == 0
    assert attend(recorded) == 0
    Path(files["program"]).write_text("# Another\n", "utf-8")

    def changed(client):
        client.request("launch", run="last", runsDir=files["runsDir"], stopOnEntry=True)
        client.request("configurationDone")
        shown = client.event("output")["output"]
        assert shown.endswith("has changed since; line numbers refer to the recorded program\n")
        assert client.event("stopped")["reason"] == "entry"
        client.request("terminate")
        assert client.event("exited") == {"exitCode": 0}

    assert attend(changed) == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"run": "none"}, "contains no runs yet"),
        ({"run": "last", "program": "x"}, "launch needs `program`"),
        ({"run": "last", "say": []}, "the key 'say' cannot be combined with run"),
    ],
)
def test_a_run_that_cannot_be_walked_is_reported(tmp_path, arguments, told):
    def script(client):
        answer = client.response("launch", {**arguments, "runsDir": str(tmp_path)})
        client.request("configurationDone")
        assert told in (client.event("output")["output"] if answer["success"] else answer["message"])

    assert attend(script) in (0, 2)


WRONG = (
    {"command": "setBreakpoints", "arguments": {"source": 1}},
    {"command": "setBreakpoints", "arguments": {"source": {"path": "a\0b"}}},
    {"command": "setBreakpoints", "arguments": {"source": {"path": "a.pb"}, "breakpoints": [1]}},
    {"command": "scopes", "arguments": {"frameId": 99}},
    {"command": "scopes", "arguments": {"frameId": [1]}},
    {"command": "variables", "arguments": {"variablesReference": {}}},
    {"command": "variables", "arguments": {"variablesReference": -1}},
    {"command": "evaluate", "arguments": {"expression": 5}},
    {"command": "evaluate", "arguments": {"expression": "1 +"}},
    {"command": "stackTrace", "arguments": {"levels": "many"}},
    {"command": "next", "arguments": [1]},
    {"command": "launch", "arguments": {"program": "again.pb"}},
)


def test_wrong_requests_are_answered_and_the_adapter_lives_on(files):
    def script(client):
        client.request("launch", **files, stopOnEntry=True)
        client.request("configurationDone")
        client.event("stopped")
        for wrong in WRONG:
            assert client.response(wrong["command"], wrong["arguments"])["message"], wrong
        for raw in (b"Content-Length: 1\r\n\r\n{", b"Content-Length: 2\r\n\r\n[]", b"nonsense\r\n\r\n",
                    b"Content-Length: 2\r\n\r\n{}"):  # fmt: skip
            client.send_raw(raw)
            assert client.event("output")["output"].startswith("stackmem: ")
        assert client.request("threads")["threads"][0]["id"] == 1
        client.request("disconnect")

    assert attend(script) == 1


@pytest.mark.parametrize(
    ("header", "body", "spaces"),
    [
        (b"Content-Length: x", b"", 0),
        (b"hello", b"", 0),
        (b"Content-Length: 2", b"[]", 0),
        (b"Content-Length: 1", b"{", 0),
        (b"Content-Length: 10485761", b"", 10485761),
    ],
    ids=["length", "header", "list", "json", "long"],
)
def test_an_invalid_message_is_refused_and_the_next_one_is_read(header, body, spaces):
    stream = io.BytesIO(header + b"\r\n\r\n" + body + b" " * spaces + b"Content-Length: 2\r\n\r\n{}")
    with pytest.raises(BadMessage):
        read_message(stream)
    assert read_message(stream) == {}


def test_messages_go_there_and_back_and_a_cut_one_is_the_end():
    stream = io.BytesIO()
    write_message(stream, {"a": "é"})
    raw = stream.getvalue()
    assert read_message(io.BytesIO(raw)) == {"a": "é"}
    assert read_message(io.BytesIO(raw[:-1])) is None
    assert read_message(io.BytesIO(b"")) is None


def test_the_adapter_ends_with_the_stream():
    assert DebugSession(io.BytesIO(b"nonsense\n"), io.BytesIO()).serve(lambda *_: 9) == 0


def test_the_adapter_ends_while_an_editor_keeps_the_stream_open(files):
    """Without a goodbye the adapter waits no longer than documented, and exits with the program's own code."""
    code = (
        "import stackmem.doors.debugger.dap as dap; dap.LINGER_SECONDS = 0; from stackmem.cli.main import main; main()"
    )
    ran = [sys.executable, "-c", code, "debug"]
    with subprocess.Popen(ran, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        client = Client(process.stdin, process.stdout)
        client.request("launch", **files)
        client.send("configurationDone", {})
        assert process.wait(timeout=100) == 0, process.stderr.read()
