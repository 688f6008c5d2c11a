"""A debug adapter for programs: an editor attaches over two byte streams, sets breakpoints, steps and inspects.

A thread answers requests, so the editor can send them while the program runs. The program runs in the thread that
called ``serve``, and blocks inside ``__call__`` while it is stopped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct

from stackmem.core.errors import Halted, StackmemError
from stackmem.core.program_facts import ProgramHalted, Said
from stackmem.core.state import State
from stackmem.languages.debugger import DebugMoment, FrameView
from stackmem.languages.language import Happening
from stackmem.languages.loop_agent.conditions.evaluator import syntax_fault
from stackmem.languages.stepper import Mode, Stepper

from .dap_messages import BadMessage, read_message, write_message
from .debugged import RecordedMoments
from .inspection import Inspection, look_up
from .stop_lines import why_never

Run = Callable[[dict[str, Any], "DebugSession"], int]
"""Runs the program described by the arguments of ``launch``, and returns its exit code."""

THREAD = 1
LINGER_SECONDS = 5
"""Time the editor has to disconnect after its program has ended."""
_CAN = {
    "supportsConfigurationDoneRequest": True,
    "supportsConditionalBreakpoints": True,
    "supportsEvaluateForHovers": True,
    "supportsTerminateRequest": True,
}
_MODES: dict[str, Mode] = {
    "continue": "run", "next": "over", "stepIn": "in", "stepOut": "out", "stepBack": "over", "reverseContinue": "run",
}  # fmt: skip
_BACKWARDS = ("stepBack", "reverseContinue")


class DebugRefusal(Exception):  # noqa: N818 - reported to the editor, not raised to the user
    """A request that cannot be answered; the message goes to the editor."""


class _Shared(Struct, eq=False):
    """State shared by both threads, guarded by one lock."""

    arguments: dict[str, Any] | None = None
    configured: bool = False
    stop: Inspection | None = None
    pause: bool = False
    back: bool = False
    ended: bool = False


class DebugSession:
    """One editor's debug session over a pair of streams."""

    def __init__(self, reads: BinaryIO, writes: BinaryIO) -> None:
        self._reads, self._writes = reads, writes
        self._lock = threading.Condition()
        self._out = threading.Lock()
        self._seq = 0
        self._stepper = Stepper({})
        self._now = _Shared()

    def serve(self, run: Run) -> int:
        """Serve until the program ends or the editor disconnects; return the program's exit code."""
        reader = threading.Thread(target=self._read, daemon=True)
        reader.start()
        with self._lock:
            self._lock.wait_for(lambda: self._now.ended or (self._now.arguments is not None and self._now.configured))
            arguments = self._now.arguments
            if self._now.ended or arguments is None:
                return 0
        try:
            code = run(arguments, self)
        except StackmemError as error:
            self.tell(f"{error}\n", "stderr")
            code = error.exit_code
        self._event("exited", {"exitCode": code})
        self._event("terminated", {})
        reader.join(timeout=LINGER_SECONDS)
        return code

    def tell(self, text: str, category: str = "stdout") -> None:
        """Print text in the editor's console."""
        self._event("output", {"category": category, "output": text})

    def show(self, happened: tuple[Happening, ...], state: State) -> None:
        """Print the program's output and its failures in the editor's console."""
        for happening in happened:
            if isinstance(happening, Said):
                self.tell(f"{happening.text}\n")
            elif isinstance(happening, ProgramHalted):
                self.tell(f"{happening.report}\n", "stderr")

    def __call__(self, moment: DebugMoment, state: State) -> None:
        """Block before a line executes if the editor wants to stop there.

        Raise Halted if the editor ends the program.
        """
        reason = self._reason(moment)
        if reason:
            self._stop(reason, moment, state)

    def walk(self, moments: RecordedMoments) -> None:
        """Walk through a recorded run, forwards and backwards, until the editor ends it."""
        reason = self._reason(moments.moment)
        with suppress(Halted):
            while True:
                if not reason:
                    reason = moments.forward(self._reason) or "end"
                back = self._stop(reason, moments.moment, moments.state)
                reason = (moments.backward(self._reason) or "entry") if back else ""

    def _reason(self, moment: DebugMoment) -> str:
        """Return the reason to stop at this moment; empty if there is none.

        Raise Halted if the editor ends the program.
        """
        with self._lock:
            if self._now.ended:
                raise Halted("Stopped", "Program halted: the debugger ended the program")
            paused = self._now.pause and moment.kind == "line"
            return "pause" if paused else self._stepper.reason(self._stepper.locate(moment))

    def _stop(self, reason: str, moment: DebugMoment, state: State) -> bool:
        """Wait until the editor resumes; return whether it goes backwards.

        Raise Halted if the editor ends the program.
        """
        with self._lock:
            now, moment = self._now, self._stepper.locate(moment)
            now.stop, now.pause = Inspection(moment, state), False
            if self._stepper.fault:
                self.tell(f"the breakpoint's condition cannot be evaluated: {self._stepper.fault}\n", "stderr")
            stopped = {"reason": reason, "threadId": THREAD, "allThreadsStopped": True, "text": moment.text}
            self._event("stopped", stopped)
            self._lock.wait_for(lambda: now.stop is None or now.ended)
            if now.ended:
                raise Halted("Stopped", "Program halted: the debugger ended the program")
            return now.back

    def _read(self) -> None:
        """Answer requests one after another; report malformed messages and continue."""
        with suppress(OSError, ValueError):
            while True:
                try:
                    message = read_message(self._reads)
                except BadMessage as bad:
                    self.tell(f"stackmem: {bad}\n", "stderr")
                    continue
                if message is None or self._answer(message):
                    break
        with self._lock:
            self._now.ended = True
            self._lock.notify_all()

    def _answer(self, request: dict[str, Any]) -> bool:
        """Answer a request; return whether it was the last."""
        command = request.get("command")
        if request.get("type") != "request" or not isinstance(command, str):
            self.tell("stackmem: ignored a message that is not a request with a command\n", "stderr")
            return False
        number, arguments = request.get("seq"), request.get("arguments")
        reply = {
            "type": "response", "request_seq": number if type(number) is int else 0, "command": command,
        }  # fmt: skip
        with self._lock:
            try:
                if arguments is not None and not isinstance(arguments, dict):
                    raise DebugRefusal(f"the arguments of {command[:80]} are not an object")
                body = self._dispatch(command, arguments or {})
            except DebugRefusal as refusal:
                error = {"id": 1, "format": str(refusal)}
                self._send({**reply, "success": False, "message": str(refusal), "body": {"error": error}})
                return False
            self._send({**reply, "success": True, "body": body})
            if command == "initialize":
                self._event("initialized", {})
            if command == "launch" and "run" in (arguments or {}):
                self._event("capabilities", {"capabilities": {"supportsStepBack": True}})
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
                return self._set_breakpoints(arguments)
            case "setExceptionBreakpoints" | "disconnect" | "terminate":
                return {}
            case "configurationDone":
                now.configured = True
                return {}
            case "threads":
                return {"threads": [{"id": THREAD, "name": now.stop.moment.agent if now.stop else "program"}]}
            case "pause":
                now.pause = True
                return {}
            case "stackTrace" | "scopes" | "variables" | "evaluate":
                return _inspect(self._stopped(), command, arguments)
            case _ if command in _MODES:
                return self._go_on(command)
        raise DebugRefusal(f"{command[:80]} is not supported")

    def _go_on(self, command: str) -> dict[str, Any]:
        now, stop = self._now, self._stopped()
        back = command in _BACKWARDS
        if back and (now.arguments is None or "run" not in now.arguments):
            raise DebugRefusal("only a recorded run can go backwards; launch one with `run`")
        self._stepper.go_on(_MODES[command], stop.moment)
        now.stop, now.back = None, back
        return {"allThreadsContinued": True} if command == "continue" else {}

    def _stopped(self) -> Inspection:
        if self._now.stop is None:
            raise DebugRefusal("the program is running; set a breakpoint, or pause it")
        return self._now.stop

    def _launch(self, arguments: dict[str, Any]) -> dict[str, Any]:
        names = [arguments.get(key) for key in ("program", "run") if key in arguments]
        if self._now.arguments is not None:
            raise DebugRefusal("a program was launched already; start another adapter for a second one")
        if len(names) != 1 or not isinstance(names[0], str) or not names[0]:
            raise DebugRefusal("launch needs `program`, the path of a program, or `run`, the name of a recorded run")
        if arguments.get("stopOnEntry"):
            self._stepper.mode = "in"
        self._now.arguments = arguments
        return {}

    def show_below(self, folder: Path) -> None:
        """Map the program's files to paths below ``folder``."""
        self._stepper.display_folder = str(folder)

    def _set_breakpoints(self, arguments: dict[str, Any]) -> dict[str, Any]:
        source, breakpoints = arguments.get("source"), arguments.get("breakpoints") or []
        path = source.get("path") if isinstance(source, dict) else None
        if not isinstance(path, str) or not path or "\0" in path:
            raise DebugRefusal("setBreakpoints needs `source` with the `path` of a file")
        if not isinstance(breakpoints, list) or not all(isinstance(each, dict) for each in breakpoints):
            raise DebugRefusal("`breakpoints` must be a list of objects with a `line`")
        file = Path(path).resolve()
        reason_at = why_never(file)
        lines = self._stepper.breakpoints[str(file)] = {}
        answers = []
        for each in breakpoints:
            line, condition = each.get("line"), each.get("condition") or ""
            fault = "" if type(line) is int else "`line` must be a whole number"
            fault = fault or ("" if isinstance(condition, str) else "`condition` must be a string")
            fault = fault or (syntax_fault(condition) if condition else "")
            if not fault:
                lines[line] = condition
            fault = fault or reason_at(line)
            answers.append({"verified": not fault, **({"line": line} if type(line) is int else {}),
                            **({"message": fault} if fault else {})})  # fmt: skip
        return {"breakpoints": answers}

    def _event(self, event: str, body: dict[str, Any]) -> None:
        self._send({"type": "event", "event": event, "body": body})

    def _send(self, message: dict[str, Any]) -> None:
        with self._out, suppress(OSError, ValueError):
            self._seq += 1
            write_message(self._writes, {"seq": self._seq, **message})


def _inspect(stop: Inspection, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Answer a request that inspects the stopped program."""
    match command:
        case "stackTrace":
            frames = stop.frames()
            first, levels = (_whole_number(arguments, name, 0) for name in ("startFrame", "levels"))
            return {"stackFrames": frames[first : first + levels if levels else None], "totalFrames": len(frames)}
        case "scopes":
            return {"scopes": stop.scopes(_frame(stop, arguments))}
        case "variables":
            variables = stop.variables(_whole_number(arguments, "variablesReference", 0))
            if variables is None:
                raise DebugRefusal("this reference is no longer valid")
            return {"variables": variables}
    expression = arguments.get("expression")
    if not isinstance(expression, str):
        raise DebugRefusal("evaluate needs `expression`, a string")
    value, fault = look_up(expression.strip(), _frame(stop, arguments))
    if fault:
        raise DebugRefusal(fault)
    description = stop.described(value)
    return {
        "result": description["value"],
        "type": description["type"],
        "variablesReference": description["variablesReference"],
    }


def _frame(stop: Inspection, arguments: dict[str, Any]) -> FrameView:
    number = _whole_number(arguments, "frameId", 1)
    if not 0 < number <= len(stop.moment.stack):
        raise DebugRefusal(f"no frame {number}")
    return stop.moment.stack[number - 1]


def _whole_number(arguments: dict[str, Any], name: str, default: int) -> int:
    value = arguments.get(name, default)
    if type(value) is not int or value < 0:
        raise DebugRefusal(f"`{name}` must be a whole number, at least 0")
    return value
