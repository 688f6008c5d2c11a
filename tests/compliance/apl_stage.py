"""An in-memory world for APL programs, and a player for one case of the compliance data."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from stackmem.core.errors import Halted, UsageError
from stackmem.core.messages import ToolSpec
from stackmem.core.program_facts import Note, ToolAnswered
from stackmem.core.requests import InvokeTool, LoadSource
from stackmem.languages import apl
from stackmem.languages.apl.language import LANGUAGE
from stackmem.languages.language import Launch
from stackmem.languages.operations import FrameAnswer, Group, RunFrame, Say, Source, ToolAnswer
from tests.compliance.case_files import read_cases

HERE = Path(__file__).parent / "apl"
PROGRAM = "/w/main.apl"
PACKAGED = (Path(apl.__file__).parent / "APL_STL.yml").read_text("utf-8")


class Case(Struct, forbid_unknown_fields=True):
    """One case; its expectations begin at ``value``.

    Attributes:
        says: The rule in words.
        apl: The program; alternatively ``template`` or ``if``, with ``given`` as its variables.
        sources: Further files next to the program; null is a file that cannot be read.
        files: The workspace; ``writes`` lists its expected content afterwards.
        shell: Answers to commands, in order: text, or ``{stdout, stderr, exit_code, failed, detail}``.
        frames: Results of agents, in order: text, any JSON value, or ``{failed, detail}``.
        own: Answers of the user's own tools by name.
        gives: The value of a template, or whether an ``if`` is true.
        fault: The end of the report's details, for a template or an ``if``.
        halt: Fields of the report: phase, step, type, reason, details, file.
        report: The whole report.
        lint: The linter's report, a line each: severity, line, title.
        tasks: Texts that must be part of each agent's task.
    """

    says: str
    apl: str = ""
    template: Any = None
    condition: str | None = field(default=None, name="if")
    given: dict[str, Any] = {}
    inputs: dict[str, Any] = {}
    sources: dict[str, str | None] = {}
    files: dict[str, str] = {}
    shell: list[Any] = []
    frames: list[Any] = []
    own: dict[str, Any] = {}
    options: dict[str, Any] = {}
    value: Any = None
    has: dict[str, Any] | None = None
    gives: Any = None
    fault: str | None = None
    said: list[str] | None = None
    commands: list[str] | None = None
    calls: list[Any] | None = None
    writes: dict[str, str] | None = None
    tasks: list[str] | None = None
    halt: dict[str, str] | None = None
    report: str | None = None
    announced: list[str] | None = None
    heard: list[str] | None = None
    lint: list[str] | None = None
    usage: str | None = None
    outline: list[str] | None = None


def load_cases() -> Iterator[tuple[str, Case]]:
    """Return every case with the name of its file."""
    import msgspec

    for file in sorted(HERE.glob("*.yaml")):
        for raw in read_cases(file):
            yield file.stem, msgspec.convert(raw, Case)


class Played(Struct):
    """The outcome of a program."""

    value: Any = None
    halted: Halted | None = None
    usage: str = ""
    said: list[str] = []
    calls: list[InvokeTool] = []
    frames: list[RunFrame] = []
    notes: list[Note] = []
    lines: list[str] = []
    files: dict[str, str] = {}


class World:
    """Answers a program's effects and reports every event to an announcer."""

    def __init__(self, case: Case) -> None:
        self.done = Played(files=dict(case.files))
        self._sources = {f"/w/{name}": text for name, text in case.sources.items()}
        self._shell, self._frames, self._own = list(case.shell), list(case.frames), case.own
        self._tell = LANGUAGE.announcer()

    def play(self, program: Any) -> Played:
        answer: Any = None
        try:
            while True:
                asked = program.send(answer)
                self._heard(asked)
                if isinstance(asked, Note):
                    self.done.notes.append(asked)
                    answer = None
                else:
                    answer = self.answer(asked)
                    self._heard(answer)
        except StopIteration as stop:
            self.done.value = stop.value
        except Halted as halted:
            self.done.halted = halted
        except UsageError as error:
            self.done.usage = str(error)
        return self.done

    def _heard(self, happening: Any) -> None:
        if happening is not None:
            self.done.lines += self._tell(happening)

    def answer(self, asked: Any) -> Any:
        match asked:
            case Group():
                return tuple(self.answer(each) for each in asked.operations)
            case Say():
                self.done.said.append(asked.text)
                self.done.lines.append(asked.text)
                return None
            case LoadSource():
                return self.load(asked)
            case InvokeTool():
                self.done.calls.append(asked)
                answer = self._used(asked)
                self._heard(ToolAnswered(answer.value, answer.failed, answer.detail))
                return answer
            case RunFrame():
                self.done.frames.append(asked)
                return _framed(self._frames.pop(0), asked)
        raise AssertionError(asked)

    def load(self, asked: LoadSource) -> Source:
        if asked.path.startswith("stackmem:"):
            return Source(asked.path, PACKAGED)
        path = posixpath.normpath(posixpath.join(posixpath.dirname(asked.beside or PROGRAM), asked.path))
        if not path.startswith("/w"):
            return Source(path, failed="it is out of reach; what can be reached: /w")
        if asked.listing:
            inside = {name[len(path) + 1 :].split("/")[0] for name in self._sources if name.startswith(f"{path}/")}
            return Source(path, "\n".join(sorted(inside)), failed="" if inside else "No such file")
        text = self._sources.get(path)
        why = "Permission denied" if path in self._sources else "No such file"
        return Source(path, failed=why) if text is None else Source(path, text)

    def _used(self, call: InvokeTool) -> ToolAnswer:
        match call.tool:
            case "shell":
                return _ran(self._shell.pop(0))
            case "read_file":
                text = self.done.files.get(call.arguments["path"])
                return ToolAnswer(None, "missing", "it does not exist") if text is None else ToolAnswer(text)
            case "write_file" if call.arguments["path"].startswith("/etc"):
                return ToolAnswer(None, "refused", "the path leads out of the workspace")
            case "write_file":
                self.done.files[call.arguments["path"]] = call.arguments["content"]
                return ToolAnswer()
            case "make_directory":
                out = call.arguments["path"].startswith("/etc")
                return ToolAnswer(None, "refused", "out of reach") if out else ToolAnswer()
        given = _halved(self._own[call.tool])
        return _failing(given) if isinstance(given, dict) and "failed" in given else ToolAnswer(given)


def _halved(given: Any) -> Any:
    """Replace ``surrogate`` with a lone surrogate, which YAML cannot contain."""
    return {**given, "surrogate": "\ud800"} if isinstance(given, dict) and "surrogate" in given else given


def _failing(given: dict[str, Any]) -> ToolAnswer:
    return ToolAnswer(given.get("value"), given["failed"], given.get("detail", ""))


def _ran(given: Any) -> ToolAnswer:
    if isinstance(given, str):
        return ToolAnswer({"stdout": given, "stderr": "", "exit_code": 0})
    if "failed" in given:
        return _failing(given)
    code = given.get("exit_code", 0)
    value = {"stdout": given.get("stdout", ""), "stderr": given.get("stderr", ""), "exit_code": code}
    return ToolAnswer(value, "exit" if code else "", f"exit {code}" if code else "")


def _framed(given: Any, asked: RunFrame) -> FrameAnswer:
    if isinstance(given, dict) and "failed" in given:
        return FrameAnswer("last words", failed=given["failed"], detail=given.get("detail", ""))
    given = _halved(given)
    text = given if isinstance(given, str) else json.dumps(given)
    return FrameAnswer(text, None if asked.schema is None else given)


def launch_of(case: Case) -> Launch:
    own = tuple(ToolSpec(name, "A tool of my own.", '{"type": "object"}') for name in case.own)
    options = {"checked": True, **case.options}
    return Launch(PROGRAM, text_of(case), {**case.inputs, **case.given}, "/w", "/w", options, own)


def text_of(case: Case) -> str:
    """Return the program of a case; for a template or a condition, build one around it."""
    if case.template is None and case.condition is None:
        return case.apl
    inputs = [{"name": name, "description": "given"} for name in case.given]
    step: dict[str, Any] = {"name": "the step", "tool": "set_vars", "vars": {"it": case.template}}
    if case.condition is not None:
        step |= {"if": case.condition, "vars": {"it": True}}
    return json.dumps({"inputs": inputs, "main": [step]})
