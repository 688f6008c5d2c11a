"""Runs a program's process from request to request, and performs its requests as operations of the run.

Rule 1: The process is a tool call. Its requests are recorded like the answers of all tools, so replay needs no process.
Rule 2: A resumed run starts the process again, answers its earlier requests from the recording, and halts at the first
    one that differs from the recorded one.
Rule 3: A request with wrong arguments raises an exception in the program. A message that is not a request halts it.
"""

from __future__ import annotations

import json
import posixpath
from typing import Any, Literal

from msgspec import Struct

from stackmem.core.errors import Halted
from stackmem.core.program_facts import StepEntered, StepFailed, StepLeft
from stackmem.core.requests import AskUser, InvokeTool, LoadSource, Wait
from stackmem.languages import operations as ops
from stackmem.languages.debugger import DebugMoment, FrameView
from stackmem.languages.frame.values import brief
from stackmem.languages.language import Launch
from stackmem.languages.operations import Program, Routine, ToolAnswer

from . import messages
from .reader import EntryStep

MAX_REQUESTS = 20_000
MAX_ANSWER_CHARS = 100_000_000
_SOURCES = ("runner.py", "api.py")


class ExchangeLog(Struct):
    """The requests of the process so far, and their answers."""

    requests: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []
    chars: int = 0

    def add(self, request: dict[str, Any], answer: dict[str, Any], location: str) -> None:
        self.requests.append({name: each for name, each in request.items() if name not in ("lines", "frames")})
        self.answers.append(answer)
        self.chars += len(json.dumps(answer)) + len(json.dumps(request))
        if len(self.answers) > MAX_REQUESTS or self.chars > MAX_ANSWER_CHARS:
            message = f"{location}: the program made over {MAX_REQUESTS:,} requests, or over {MAX_ANSWER_CHARS:,}"
            raise Halted("Limit Reached", f"{message} characters of them; split it into several programs")


class PythonProcess:
    """One program and its process."""

    def __init__(self, launch: Launch, entry: EntryStep, inputs: dict[str, Any]) -> None:
        self._launch, self._entry, self._inputs = launch, entry, inputs
        self._steps: list[str] = []  # names of the open steps, outermost first
        self._clock, self._began, self._seed = 0.0, 0.0, ""

    def run(self) -> Program:
        """Run the program and return its value."""
        texts = []
        for name in _SOURCES:
            source: ops.Source = yield LoadSource(f"stackmem:python/inside/{name}")
            texts.append(source.text)
        order = {"folder": f".stackmem/python/{self._slug()}", "program": texts[0], "order": self._order()}
        exchange = ExchangeLog()
        self._moment("entered", [self._base()])
        while True:
            session = {"api": texts[1], "asked": list(exchange.requests)}
            answer: ToolAnswer = yield InvokeTool(
                "run_python", {**order, "answers": list(exchange.answers), "session": session}
            )
            message = self._message(answer, exchange)
            yield from self._note(message)
            location = self._location(message)
            arguments = messages.read_arguments(message)
            if isinstance(arguments, messages.ValueRequest):
                self._moment("left", [self._base()])
                return arguments.value
            if isinstance(arguments, messages.ErrorRequest):
                raise Halted("Exception", arguments.report, self._path(location))
            if not message.lines and message.call != "begin":
                self._moment("line", message.frames)
            value = yield from self._reply(message, arguments)
            exchange.add(answer.value, value, location)

    def _slug(self) -> str:
        name = posixpath.basename(self._launch.path).partition(".")[0]
        return "".join(each if each.isascii() and each.isalnum() else "_" for each in name)[:40] or "program"

    def _order(self) -> str:
        launch = self._launch
        return json.dumps(
            {
                "file": launch.path, "text": launch.text, "entry": self._entry.name, "inputs": self._inputs,
                "line": self._entry.line, "home": launch.workspace, "folder": launch.module_path,
                "watched": launch.watch is not None,
            }
        )  # fmt: skip

    def _message(self, answer: ToolAnswer, exchange: ExchangeLog) -> messages.ProcessMessage:
        """Return the next request, or halt if there is none."""
        value = answer.value if isinstance(answer.value, dict) else {}
        last = exchange.requests[-1] if exchange.requests else {}
        location = f"{self._file()}:{last.get('line') or self._entry.line}"
        if value.get("call") == "malformed":
            raise Halted("Malformed Request", f"{location}: {value.get('failed')}", location)
        if value.get("call") == "diverged":
            raise self._diverged(value)
        if "call" in value:
            return messages.read_message(value, location)
        output = "\n".join(str(value.get(name) or "").strip()[-2_000:] for name in ("stdout", "stderr")).strip()
        reason = answer.detail or "it ended without a result"
        report = f"{location}: the program's process ended after this line: {reason}"
        kind = "Time Limit" if answer.failed == "timeout" else "Process Ended"
        raise Halted(kind, f"{report}\n{output}".strip(), location)

    def _diverged(self, value: dict[str, Any]) -> Halted:
        recorded, now = (_request_text(value.get(name)) for name in ("recorded", "now"))
        first = value.get("recorded")
        location = f"{self._file()}:{first.get('line') if isinstance(first, dict) else 0}"
        report = (
            f"{location}: the program ran again and did not do the same. Request {value.get('number')} was\n"
            f"  recorded: {recorded}\n  now:      {now}\n"
            "Between effects a program may only use what stackmem controls; stackmem lint names the rest."
        )
        return Halted("Divergence", report, location)

    def _file(self) -> str:
        return posixpath.basename(self._launch.path)

    def _location(self, message: messages.ProcessMessage) -> str:
        return f"{posixpath.basename(message.file)}:{message.line}"

    def _path(self, location: str) -> str:
        return "/".join([*self._steps, location])

    def _note(self, message: messages.ProcessMessage) -> Routine:
        """Report what happened since the previous request."""
        for line in message.lines:
            self._moment(line.kind, line.frames)
        for note in message.notes:
            match note:
                case messages.PrintedNote():
                    yield ops.Say(note.text.removesuffix("\n"))
                case messages.EnterNote():
                    self._steps.append(note.name)
                    yield ops.EnterFrame(note.name, note.intent or f"Run the step {note.name}.")
                    yield StepEntered("/".join(self._steps), f"line {note.line}")
                case messages.LeaveNote():
                    if not self._steps or self._steps[-1] != note.name:
                        raise Halted("Malformed Request", f"{self._location(message)}: it left a step that is not open")
                    path = "/".join(self._steps)
                    yield StepFailed(path, note.result) if note.failed else StepLeft(path, "text", len(note.result))
                    self._steps.pop()
                    yield ops.LeaveFrame(note.result)

    def _base(self) -> messages.ProcessFrame:
        return messages.ProcessFrame("program", self._launch.path, 1, self._inputs)

    def _moment(self, kind: Literal["entered", "line", "left"], frames: list[messages.ProcessFrame]) -> None:
        """Call the debugger, if one is attached."""
        if self._launch.watch is None or not frames:
            return
        first, lines = frames[0], self._launch.text.splitlines()
        own = first.file == self._launch.path and 0 < first.line <= len(lines)
        text = lines[first.line - 1].strip() if own else f"{posixpath.basename(first.file)}:{first.line}"
        stack = tuple(FrameView(each.name, each.file, each.line, each.variables) for each in frames)
        self._launch.watch(DebugMoment(kind, stack, self._file() if first.name == "program" else text))

    def _reply(self, message: messages.ProcessMessage, arguments: Struct | str) -> Routine:
        """Perform a request and return its answer for the process."""
        if message.call == "begin":
            return (yield from self._begin(message))
        if isinstance(arguments, str):
            answer = failed("bad_arguments", arguments)
        else:
            answer = yield from self._perform(message, arguments)
        spending: ops.Spending = yield ops.ReadSpending(seconds=True)
        answer["clock"] = self._clock + spending.seconds - self._began
        return answer

    def _begin(self, message: messages.ProcessMessage) -> Routine:
        clock, seed = message.arguments.get("clock"), message.arguments.get("seed")
        if not isinstance(clock, int | float) or not isinstance(seed, str):
            raise Halted("Malformed Request", "the program's process did not begin as it should")
        spending: ops.Spending = yield ops.ReadSpending(seconds=True)
        self._clock, self._began = float(clock), spending.seconds
        return {"value": None, "seed": seed, "clock": self._clock}

    def _perform(self, message: messages.ProcessMessage, arguments: Any) -> Routine:
        path = self._path(self._location(message))
        match arguments:
            case messages.AskRequest():
                return _completed((yield self._question(arguments, arguments.prompt, message)), arguments.schema)
            case messages.AskAllRequest():
                questions = tuple(self._question(arguments, prompt, message) for prompt in arguments.prompts)
                replies = (yield ops.Group(questions, max(1, min(32, arguments.most)))) if questions else ()
                results = [_completed(each, arguments.schema) for each in replies]
                bad = next((each for each in results if "failed" in each), None)
                return bad or {"value": [each["value"] for each in results]}
            case messages.WorkRequest():
                inputs, schema = arguments.inputs, arguments.schema
                done: ops.FrameAnswer = yield ops.RunFrame(
                    arguments.name, arguments.task, inputs, arguments.returns, schema, model=arguments.model
                )
                value = done.result if schema is None else done.value
                return failed(done.failed, done.detail, done.result) if done.failed else {"value": value}
            case messages.QuestionRequest():
                return {"value": (yield AskUser(arguments.question, tuple(arguments.options)))}
            case messages.WaitRequest():
                yield Wait(arguments.seconds)
                return {"value": None}
            case messages.EmptyRequest():
                return (yield from self._report(message))
            case messages.KeepRequest() | messages.NameRequest():
                return (yield from _use_heap(message.call, arguments))
            case _:
                answer = yield from self._use_tool(message.call, arguments)
                if answer.failed and message.call != "shell":
                    yield StepFailed(path, answer.detail or answer.failed)
                    return failed(answer.failed, answer.detail, answer.value)
                return self._of_tool(message.call, answer)

    def _question(
        self, request: messages.AskRequest | messages.AskAllRequest, prompt: str, message: messages.ProcessMessage
    ) -> ops.Complete:
        name = request.name or (self._steps[-1] if self._steps else message.function)
        return ops.Complete(ops.prompt(prompt), request.system, request.schema, name=name, model=request.model)

    def _report(self, message: messages.ProcessMessage) -> Routine:
        if message.call == "chunks":
            listed = yield ops.ListChunks()
            return {"value": [dict(zip(("name", "characters", "description"), each, strict=True)) for each in listed]}
        if message.call == "conversation":
            steps = yield ops.ReadHistory()
            return {"value": [{"step": each.step, "reply": each.reply, "results": each.results} for each in steps]}
        if message.call == "spent":
            used: ops.Spending = yield ops.ReadSpending(seconds=True)
            return {"value": {"usd": used.usd, "seconds": used.seconds}}
        return {"value": None}

    def _use_tool(self, call: str, arguments: Any) -> Routine:
        match arguments:
            case messages.ShellRequest():
                params: dict[str, Any] = {"command": arguments.command, "env": arguments.env}
                params |= {"working_directory": arguments.working_directory} if arguments.working_directory else {}
                return (yield InvokeTool("shell", params, arguments.timeout))
            case messages.WriteRequest():
                written = {"path": arguments.path, "content": arguments.content, "parents": True}
                return (yield InvokeTool("write_file", written))
            case messages.PathRequest():
                return (yield InvokeTool(call, {"path": arguments.path}))
            case messages.CalleeRequest():
                return (yield InvokeTool(ops.RUN_PROGRAM_TOOL, {"path": arguments.path, "inputs": arguments.inputs}))
            case _:
                names = [tool.name for tool in self._launch.tools if tool.name != ops.RUN_PROGRAM_TOOL]
                if arguments.name not in names:
                    message = f"unknown tool {arguments.name[:80]!r}; known: {', '.join(names) or 'none'}"
                    return ToolAnswer(None, "unknown_tool", message)
                return (yield InvokeTool(arguments.name, arguments.arguments))

    def _of_tool(self, call: str, answer: ToolAnswer) -> dict[str, Any]:
        """Return a tool's answer. A command that ended with another exit code than 0 is not a failure."""
        if call == "shell" and answer.failed not in ("", "exit"):
            return failed(answer.failed, answer.detail, answer.value)
        return {"value": answer.value}


def _use_heap(call: str, arguments: messages.KeepRequest | messages.NameRequest) -> Routine:
    if isinstance(arguments, messages.KeepRequest):
        answer = yield ops.KeepChunk(arguments.name, arguments.content, arguments.description, arguments.source)
    else:
        answer = yield (ops.ReadChunk if call == "recall" else ops.DropChunk)(arguments.name)
    return failed("refused", answer.failed) if answer.failed else {"value": answer.content}


def _completed(reply: ops.Completion, schema: dict[str, Any] | None) -> dict[str, Any]:
    if reply.failed:
        return failed(reply.failed, reply.detail, reply.text)
    return {"value": reply.text if schema is None else reply.value}


def failed(kind: str, detail: str, value: Any = None) -> dict[str, Any]:
    """Return an answer that raises ``EffectFailed`` in the program."""
    return {"failed": kind, "detail": detail, "value": value}


def _request_text(request: Any) -> str:
    if not isinstance(request, dict):
        return str(request)[:300]
    line, call, arguments = request.get("line"), request.get("call"), request.get("arguments")
    printed = "".join(f", after {brief(note)}" for note in (request.get("notes") or [])[:3])
    return f"line {line}: {call} {brief(arguments)}{printed}"
