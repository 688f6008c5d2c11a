"""Debugging: an editor's client over the protocol, and the dialogue at the terminal."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from stackmem.cli.screen.debug_terminal import TerminalDebugger, debug_at_terminal
from stackmem.languages.playbook.debugger import WATCHERS, DebugMoment, FrameView, Stepper
from stackmem.serve.dap import BadMessage, DebugSession, read_message, write_message

from .dap_client import Client
from .stage import one, run

TEXT = one("- 01:EXE", "- 02:QUE F", "- 03:YLD call", "- 04:RET", more="## F($x)\n### Steps\n- 01:EXE\n- 02:RET")
REPLIES = (
    '`Var[$a, {"b": [1, 2]}]`\n`Step["P:01"]` `Step["P:02"]` `$r = F(5)` `Say("hello")`\n`Step["P:03"]` yld call',
    '`Step["F:01"]` `Var[$y, 7]` `Step["F:02"]` `Return[$y]`',
    '`Step["P:04"]` `Return[$r]`',
)
P1, P2, P3, P4, F1, F2 = 4, 5, 6, 7, 10, 11


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
    (scope,) = client.request("scopes", frameId=1)["scopes"]
    (variable,) = client.request("variables", variablesReference=scope["variablesReference"])["variables"]
    assert (variable["name"], variable["value"]) == ("$a", '{"b": [1, 2]}')
    (inner,) = client.request("variables", variablesReference=variable["variablesReference"])["variables"]
    items = client.request("variables", variablesReference=inner["variablesReference"])["variables"]
    assert [(each["name"], each["value"]) for each in items] == [("0", "1"), ("1", "2")]
    assert client.request("evaluate", expression="$a")["result"] == '{"b": [1, 2]}'
    assert client.response("evaluate", expression="$nope")["message"] == "$nope has no value"
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


def test_an_editor_stops_at_the_entry_and_ends_the_program(adapter, files):
    client = Client(adapter.stdin, adapter.stdout)
    client.request("initialize")
    assert client.response("launch")["message"].startswith("launch needs `program`")
    assert not client.response("continue")["success"]
    assert client.response("stackTrace")["message"] == "the program is not stopped"
    assert client.response("fly")["message"] == "fly is not supported"
    client.request("launch", **files, stopOnEntry=True)
    client.request("configurationDone")
    assert client.event("stopped")["reason"] == "entry"
    client.request("terminate")
    assert "the debugger ended the program" in client.event("output")["output"]
    assert client.event("exited") == {"exitCode": 1}
    adapter.stdin.close()
    assert adapter.wait(timeout=100) == 1


def test_a_launch_configuration_that_is_wrong_is_told(adapter, files):
    client = Client(adapter.stdin, adapter.stdout)
    client.request("launch", **files, colour="red")
    client.request("configurationDone")
    assert "launch has no key 'colour'" in client.event("output")["output"]
    assert client.event("exited") == {"exitCode": 2}
    client.request("disconnect")
    assert adapter.wait(timeout=100) == 2


def test_an_editor_that_goes_away_ends_the_adapter(adapter):
    adapter.stdin.close()
    assert adapter.wait(timeout=100) == 0


@pytest.mark.parametrize(
    "raw",
    [
        b"Content-Length: x\r\n\r\n",
        b"Content-Length: 99999999999\r\n\r\n",
        b"hello\r\n\r\n",
        b"Content-Length: 2\r\n\r\n[]",
        b"Content-Length: 1\r\n\r\n{",
    ],
)
def test_what_is_no_message_is_refused(raw):
    with pytest.raises(BadMessage):
        read_message(io.BytesIO(raw))


def test_messages_go_there_and_back_and_a_cut_one_is_the_end():
    stream = io.BytesIO()
    write_message(stream, {"a": "é"})
    raw = stream.getvalue()
    assert read_message(io.BytesIO(raw)) == {"a": "é"}
    assert read_message(io.BytesIO(raw[:-1])) is None
    assert read_message(io.BytesIO(b"")) is None


def test_the_adapter_ends_with_the_stream():
    assert DebugSession(io.BytesIO(b"nonsense\n"), io.BytesIO()).serve(lambda *_: 9) == 0


def watched(watcher, **options):
    WATCHERS.append(watcher)
    try:
        return run(TEXT, *REPLIES, debug=True, **options)
    finally:
        WATCHERS.remove(watcher)


def test_a_watcher_sees_every_line_and_changes_nothing():
    moments: list[DebugMoment] = []
    play = watched(moments.append)
    assert play.value == 7
    assert play.done.happened == run(TEXT, *REPLIES).done.happened
    lines = [(moment.kind, moment.stack[0].line) for moment in moments]
    assert [line for kind, line in lines if kind == "line"] == [P1, P2, P3, F1, F2, P4]
    assert [kind for kind, _ in lines if kind != "line"] == ["entered", "entered", "left", "left"]


def dialogue(*typed: str):
    said: list[str] = []
    play = watched(TerminalDebugger(io.StringIO("\n".join(typed) + "\n"), said.append))
    return play, [line for line in said if line != "debug> "]


def test_a_person_steps_at_the_terminal():
    play, said = dialogue("n", "b 5", "c", "v", "v $a", "w", "d 5", "x", "n", "s", "s", "o", "c")
    assert play.value == 7
    assert said[0].startswith("main.pb:2 (entry)")
    assert said[1].startswith("main.pb:4 (step) 01:EXE")
    assert "breakpoints: 5" in said
    assert "breakpoints: none" in said
    assert "main.pb:5 (breakpoint) 02:QUE F" in said
    assert '$a = {"b": [1, 2]}' in said
    assert "P main.pb:5" in said
    assert any(line.startswith("commands:") for line in said)
    assert said[-2].startswith("main.pb:10 (step)")
    assert said[-1].startswith("main.pb:7 (step)")


@pytest.mark.parametrize(("typed", "told"), [(("q",), "ended the program"), ((), "input ended")])
def test_a_person_ends_the_program(typed, told):
    said: list[str] = []
    play = watched(TerminalDebugger(io.StringIO("".join(f"{each}\n" for each in typed)), said.append))
    assert told in play.report


def test_the_terminal_watches_only_playbooks_and_only_where_it_is_wanted():
    for language, wanted, count in (("playbook", True, 1), ("playbook", False, 0), ("apl", True, 0)):
        with debug_at_terminal(language, wanted=wanted):
            assert len(WATCHERS) == count
    assert WATCHERS == []


def test_stepping_out_stops_in_the_frame_around():
    inner = DebugMoment("line", "A", "p", (FrameView("F", 9, {}), FrameView("P", 3, {})))
    outer = DebugMoment("line", "A", "p", (FrameView("P", 4, {}),))
    stepper = Stepper(set())
    stepper.go_on("out", inner)
    assert (stepper.reason(inner), stepper.reason(outer)) == ("", "step")
    stepper.go_on("over", outer)
    assert (stepper.reason(inner), stepper.reason(outer)) == ("", "step")
