"""A debug adapter for playbooks: an editor attaches over two byte streams, sets breakpoints, steps and looks.

Below it are the messages of the Debug Adapter Protocol: a header with the length, then JSON.

Requests are answered in a thread of their own, so that an editor can ask while the program runs; the program runs in
the thread that called ``serve`` and stands still inside ``__call__`` where it has stopped.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct

from stackmem.core.program_facts import ProgramHalted, Said
from stackmem.core.state import State
from stackmem.errors import StackmemError, UsageError
from stackmem.languages.language import Happening
from stackmem.languages.operations import Halted
from stackmem.languages.playbook.debugger import WATCHERS, DebugMoment, Stepper
from stackmem.run.open import Person
from stackmem.run.programs.prepare import ProgramArguments, prepare_program
from stackmem.run.programs.run import run_program

Run = Callable[[dict[str, Any], "DebugSession"], int]
"""Runs the program that the arguments of ``launch`` name; gives its exit code."""

THREAD = 1
_VALUE_CHARS = 2_000
_CAN = {
    "supportsConfigurationDoneRequest": True,
    "supportsEvaluateForHovers": True,
    "supportsTerminateRequest": True,
}


class DebugRefusal(Exception):  # noqa: N818 - an answer to the editor
    """A request that cannot be answered; the editor is told why."""


class _Shared(Struct, eq=False):
    """What both threads look at, under one lock."""

    arguments: dict[str, Any] | None = None
    configured: bool = False
    moment: DebugMoment | None = None
    going: bool = True
    pause: bool = False
    ended: bool = False
    handles: dict[int, Any] = {}


class DebugSession:
    """One editor's session over a pair of streams."""

    def __init__(self, reads: BinaryIO, writes: BinaryIO) -> None:
        self._reads, self._writes = reads, writes
        self._lock = threading.Condition()
        self._out = threading.Lock()
        self._seq = 0
        self._stepper = Stepper(set())
        self._path = ""
        self._now = _Shared(handles={})

    def serve(self, run: Run) -> int:
        """Serve to the end of the program, or until the editor goes; gives the program's exit code."""
        reader = threading.Thread(target=self._read, daemon=True)
        reader.start()
        with self._lock:
            self._lock.wait_for(lambda: self._now.ended or (self._now.arguments is not None and self._now.configured))
            arguments = self._now.arguments
            if self._now.ended or arguments is None:
                return 0
        WATCHERS.append(self)
        try:
            code = run(arguments, self)
        except StackmemError as error:
            self.tell(f"{error}\n", "stderr")
            code = error.exit_code
        finally:
            WATCHERS.remove(self)
        self._event("exited", {"exitCode": code})
        self._event("terminated", {})
        reader.join(timeout=5)
        return code

    def tell(self, text: str, category: str = "stdout") -> None:
        """Show text in the editor's console."""
        self._event("output", {"category": category, "output": text})

    def show(self, happened: tuple[Happening, ...], state: State) -> None:
        """Told of everything in the program; what it says goes to the console."""
        for happening in happened:
            if isinstance(happening, Said):
                self.tell(f"{happening.text}\n")
            elif isinstance(happening, ProgramHalted):
                self.tell(f"{happening.report}\n", "stderr")

    def __call__(self, moment: DebugMoment) -> None:
        """A line is about to be executed: stand still here where the editor wants it.

        Raises:
            Halted: The editor ends the program.

        """
        with self._lock:
            now = self._now
            reason = self._stepper.reason(moment)
            if now.pause and moment.kind == "line":
                reason = "pause"
            if reason and not now.ended:
                now.moment, now.going, now.pause, now.handles = moment, False, False, {}
                told = {"reason": reason, "threadId": THREAD, "allThreadsStopped": True, "text": moment.text}
                self._event("stopped", told)
                self._lock.wait_for(lambda: now.going or now.ended)
                now.moment = None
            if now.ended:
                raise Halted("Stopped", "Playbook halted: the debugger ended the program")

    def _read(self) -> None:
        with suppress(BadMessage, OSError, ValueError):
            while (message := read_message(self._reads)) is not None:
                if message.get("type") == "request" and self._answer(message):
                    break
        with self._lock:
            self._now.ended = True
            self._lock.notify_all()

    def _answer(self, request: dict[str, Any]) -> bool:
        """Answer a request; gives whether it was the last."""
        command = str(request.get("command"))
        given = request.get("arguments")
        arguments = given if isinstance(given, dict) else {}
        reply = {"type": "response", "request_seq": request.get("seq"), "command": command}
        with self._lock:
            try:
                body = self._dispatch(command, arguments)
            except DebugRefusal as refusal:
                self._send({**reply, "success": False, "message": str(refusal)})
                return False
            self._send({**reply, "success": True, "body": body})
            if command == "initialize":
                self._event("initialized", {})
            if command in ("disconnect", "terminate"):
                self._now.ended = True
            self._lock.notify_all()
        return command == "disconnect"

    def _dispatch(self, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
        now = self._now
        match command:
            case "initialize":
                return dict(_CAN)
            case "launch":
                return self._launch(arguments)
            case "setBreakpoints":
                return self._breakpoints(arguments)
            case "setExceptionBreakpoints" | "disconnect" | "terminate":
                return {}
            case "configurationDone":
                now.configured = True
                return {}
            case "threads":
                return {"threads": [{"id": THREAD, "name": now.moment.agent if now.moment else "program"}]}
            case "pause":
                now.pause = True
                return {}
            case "continue" | "next" | "stepIn" | "stepOut":
                self._go(command)
                return {"allThreadsContinued": True} if command == "continue" else {}
        return self._inspect(command, arguments)

    def _launch(self, arguments: dict[str, Any]) -> dict[str, Any]:
        program = arguments.get("program")
        if not isinstance(program, str) or not program:
            raise DebugRefusal("launch needs `program`, the path of a playbook program")
        self._path = program
        if arguments.get("stopOnEntry"):
            self._stepper.mode = "in"
        self._now.arguments = arguments
        return {}

    def _breakpoints(self, arguments: dict[str, Any]) -> dict[str, Any]:
        wanted = arguments.get("breakpoints")
        lines = [each.get("line") for each in wanted or [] if isinstance(each, dict)] if wanted else []
        found = [line for line in lines if isinstance(line, int)]
        self._stepper.breakpoints = set(found)
        return {"breakpoints": [{"verified": True, "line": line} for line in found]}

    def _go(self, command: str) -> None:
        if self._now.moment is None:
            raise DebugRefusal("the program is not stopped; set a breakpoint, or pause it")
        modes: dict[str, Any] = {"continue": "run", "next": "over", "stepIn": "in", "stepOut": "out"}
        self._stepper.go_on(modes[command], self._now.moment)
        self._now.going = True

    def _inspect(self, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """What a look into the stopped program shows."""
        moment = self._now.moment
        if command not in ("stackTrace", "scopes", "variables", "evaluate"):
            raise DebugRefusal(f"{command[:80]} is not supported")
        if moment is None:
            raise DebugRefusal("the program is not stopped")
        if command == "stackTrace":
            source = {"name": self._path.rpartition("/")[2], "path": self._path}
            frames = [
                {"id": index, "name": place.name, "line": place.line, "column": 1, "source": source}
                for index, place in enumerate(moment.stack, 1)
            ]
            return {"stackFrames": frames, "totalFrames": len(frames)}
        variables = moment.stack[0].variables if moment.stack else {}
        if command == "scopes":
            return {
                "scopes": [{"name": "Variables", "variablesReference": self._handle(variables), "expensive": False}]
            }
        if command == "variables":
            value = self._now.handles.get(arguments.get("variablesReference", 0))
            if value is None:
                raise DebugRefusal("there is nothing behind this reference any more")
            top = value is variables
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            return {"variables": [self._variable(f"${name}" if top else str(name), each) for name, each in pairs]}
        name = str(arguments.get("expression", "")).strip().lstrip("$")
        if name not in variables:
            raise DebugRefusal(f"${name[:80]} has no value")
        found = self._variable(name, variables[name])
        return {"result": found["value"], "variablesReference": found["variablesReference"]}

    def _variable(self, name: str, value: Any) -> dict[str, Any]:
        text = json.dumps(value, ensure_ascii=False, default=str)[:_VALUE_CHARS]
        inner = self._handle(value) if isinstance(value, dict | list) and value else 0
        return {"name": name, "value": text, "type": type(value).__name__, "variablesReference": inner}

    def _handle(self, value: Any) -> int:
        number = len(self._now.handles) + 1
        self._now.handles[number] = value
        return number

    def _event(self, event: str, body: dict[str, Any]) -> None:
        self._send({"type": "event", "event": event, "body": body})

    def _send(self, message: dict[str, Any]) -> None:
        with self._out, suppress(OSError, ValueError):
            self._seq += 1
            write_message(self._writes, {"seq": self._seq, **message})


MOST_BYTES = 10 * 1024 * 1024
_MOST_HEADER_BYTES = 1_000


class BadMessage(Exception):  # noqa: N818 - the peer's mistake
    """What came is no message; the streams are of no more use."""


def read_message(stream: BinaryIO) -> dict[str, Any] | None:
    """The next message; None at the end of the stream.

    Raises:
        BadMessage: What came is none.

    """
    length = None
    while True:
        line = stream.readline(_MOST_HEADER_BYTES)
        if not line:
            return None
        text = line.strip()
        if not text and length is not None:
            break
        name, _, value = text.partition(b":")
        if name.lower() == b"content-length":
            if not value.strip().isdigit() or int(value) > MOST_BYTES:
                raise BadMessage(f"a length of {value.strip()[:40]!r} is none that is read")
            length = int(value)
        elif text and not value:
            raise BadMessage(f"{text[:40]!r} is no header")
    body = stream.read(length)
    if len(body) < length:
        return None
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadMessage("the body is no JSON") from error
    if not isinstance(found, dict):
        raise BadMessage("the body is no object")
    return found


def write_message(stream: BinaryIO, message: dict[str, Any]) -> None:
    body = json.dumps(message, ensure_ascii=True, default=str).encode()
    stream.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    stream.flush()


FLAGS = {"model": "model", "runsDir": "runs_dir", "sandboxDir": "sandbox_dir", "isolation": "isolation",
         "maxSteps": "max_steps"}  # fmt: skip
"""Keys of a launch configuration, beside ``program inputs say entry workspace stopOnEntry``, to flags."""
_KNOWN = {*FLAGS, "program", "inputs", "say", "entry", "workspace", "stopOnEntry", "noDebug", "cwd"}
_TYPES: dict[str, type] = {"inputs": dict, "say": list, "entry": str, "workspace": str, "cwd": str}


def run_debugged(arguments: dict[str, Any], session: DebugSession, environ: Mapping[str, str], cwd: Path) -> int:
    """Run a program under a debugger; gives its exit code.

    Raises:
        StackmemError: As ``run_program`` does, or the configuration is wrong.

    """
    given = {
        name: value
        for name, value in arguments.items()
        if not name.startswith("__") and name not in ("type", "request", "name")
    }
    for name, value in given.items():
        if name not in _KNOWN:
            raise UsageError(f"launch has no key {name[:80]!r}; known: {', '.join(sorted(_KNOWN))}")
        if name in _TYPES and not isinstance(value, _TYPES[name]):
            raise UsageError(f"{name} of launch must be a {_TYPES[name].__name__}")
    folder = Path(given.get("cwd") or cwd)
    options: dict[str, Any] = {"debug": True, **({"entry": given["entry"]} if "entry" in given else {})}
    asked = ProgramArguments(
        str(given["program"]), dict(given.get("inputs", {})), options, given.get("workspace"), interactive=False
    )
    flags = {flag: str(given[name]) for name, flag in FLAGS.items() if name in given}
    ready = prepare_program(asked, flags, environ, folder)
    answers = [str(each) for each in given.get("say", [])]
    person = Person(lambda _: answers.pop(0) if answers else None, session.show)
    result = run_program(ready, environ, person)
    session.tell(f"{result.run.outcome}; run: {result.run.run_dir}\n", "console")
    return result.run.exit_code
