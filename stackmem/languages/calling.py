"""Calls between programs: ``run_program(path, inputs)`` is a tool of every language.

The called program runs inside its caller's generator, so both share one trace, one stack of frames, one set of limits
and one budget. A call is a frame of the program, and its sources, questions and completions are recorded like the
caller's own. Replay and resume need nothing else.

Rule 1: a program that halts fails the call and closes its frames; the caller decides what follows.
Rule 2: calls nest at most 8 deep.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import json
from msgspec.structs import replace

from stackmem.core.errors import Halted, UsageError
from stackmem.core.messages import ToolSpec
from stackmem.core.program_facts import ToolFailure
from stackmem.core.requests import InvokeTool, LoadSource

from .debugger import DebugMoment, MomentListener
from .frame.values import as_text
from .language import Language, Launch, language_of
from .operations import RUN_PROGRAM_TOOL as TOOL
from .operations import EnterFrame, Group, LeaveFrame, Program, Routine, Source, ToolAnswer

MAX_CALLS = 8
RUN_PROGRAM = ToolSpec(
    TOOL,
    "Runs another program, in any language, and returns its value.",
    json.encode(
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The program's file, relative to the calling program."},
                "inputs": {"description": "The program's inputs by name."},
            },
            "required": ["path"],
        }
    ).decode(),
)
OpenLanguage = Callable[[str], Language]


def with_run_program(tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Return the tools of a program: the user's own, and ``run_program`` unless the user has a tool of that name."""
    return tuple(tools) if any(tool.name == TOOL for tool in tools) else (*tools, RUN_PROGRAM)


def linked(launch: Launch, language: Language, open_language: OpenLanguage, depth: int = 0) -> Program:
    """Start a program whose calls of other programs are carried out."""
    if RUN_PROGRAM not in launch.tools:
        return language.start(launch)
    port = _CallingPort(launch.watch) if launch.watch else None
    caller = _Caller(replace(launch, watch=port), open_language, depth)
    return caller.drive(language.start(caller.launch))


class _CallingPort:
    """Forwards a program's moments to a debugger, with the frames of its callers below its own."""

    def __init__(self, watch: MomentListener) -> None:
        self._watch = watch
        self._last: DebugMoment | None = None
        self.ending: Halted | None = None  # set if the debugger ended a called program, which ends this one too

    def __call__(self, moment: DebugMoment) -> None:
        self._last = moment
        self._watch(moment)

    def called(self, moment: DebugMoment) -> None:
        """Forward a moment of a program that this one calls."""
        inner_stack = self._last.stack if self._last else ()
        try:
            self._watch(replace(moment, stack=(*moment.stack, *inner_stack)))
        except Halted as halted:
            self.ending = halted
            raise


class _Caller:
    """Drives one program, and runs the programs that it calls."""

    def __init__(self, launch: Launch, open_language: OpenLanguage, depth: int) -> None:
        self.launch, self._open_language, self._depth = launch, open_language, depth

    def drive(self, program: Program) -> Program:
        return _relay(program, _calls, self._carry_out)

    def _carry_out(self, operation: InvokeTool | Group) -> Routine:
        if isinstance(operation, InvokeTool):
            return (yield from self._call(operation.arguments))
        others = [each for each in operation.operations if not _calls(each)]
        results = list((yield Group(tuple(others), operation.most)) if others else ())
        answers: list[Any] = []
        for each in operation.operations:
            if isinstance(each, InvokeTool) and each.tool == TOOL:
                answers.append((yield from self._call(each.arguments)))
            else:
                answers.append(results.pop(0))
        return tuple(answers)

    def _call(self, arguments: dict[str, Any]) -> Routine:
        """Run a program and return the answer of the call."""
        path, inputs = arguments.get("path"), _as_mapping(arguments.get("inputs"))
        unknown = next((name for name in arguments if name not in ("path", "inputs")), None)
        if unknown is not None:
            return _failed("bad_arguments", f"run_program takes no {unknown[:80]!r}; it takes path and inputs")
        if not isinstance(path, str) or not path.strip():
            return _failed("bad_arguments", "run_program needs the path of a program")
        if inputs is None:
            return _failed("bad_arguments", "the inputs of run_program are an object of names and values")
        language = language_of(path, explicit=True)
        if language is None:
            return _failed("bad_arguments", f"{path[:80]} is not a program; its language follows from its suffix")
        if self._depth + 1 >= MAX_CALLS:
            return _failed("refused", f"programs call one another at most {MAX_CALLS} deep; {path[:80]} did not run")
        source: Source = yield LoadSource(path, self.launch.path)
        if source.failed:
            return _failed("missing", f"the program {path[:80]} cannot be read ({source.failed})")
        return (yield from self._run(language, source, inputs))

    def _run(self, language: str, source: Source, inputs: dict[str, Any]) -> Routine:
        name = posixpath.basename(source.path)
        yield EnterFrame(name, f"Run the program {name}.")
        opened = 0

        def count(operation: EnterFrame | LeaveFrame) -> Routine:
            nonlocal opened
            yield operation
            opened += 1 if isinstance(operation, EnterFrame) else -1

        try:
            callee = self._open_language(language)
            program = linked(self._launch(source, inputs), callee, self._open_language, self._depth + 1)
            value = yield from _relay(program, lambda operation: isinstance(operation, EnterFrame | LeaveFrame), count)
        except Halted as halted:
            if isinstance(self.launch.watch, _CallingPort) and self.launch.watch.ending is not None:
                raise
            detail = f"{name} halted: {halted.report}"
        except UsageError as error:
            detail = f"{name} did not start: {error}"
        else:
            yield LeaveFrame(as_text(value))
            return ToolAnswer(value)
        for _ in range(opened):
            yield LeaveFrame("(left by a halt)")
        yield LeaveFrame(detail)
        return _failed("refused", detail)

    def _launch(self, source: Source, inputs: dict[str, Any]) -> Launch:
        here, there = posixpath.dirname(self.launch.path), posixpath.dirname(source.path)
        inside = f"{there}/".startswith(f"{here}/")
        folder = self.launch.module_path + there[len(here) :] if inside else there
        passed = {name: self.launch.options.get(name) for name in ("window_tokens", "replies")}
        options: dict[str, Any] = {"checked": True}
        options |= {name: value for name, value in passed.items() if value is not None}
        watch = self.launch.watch.called if isinstance(self.launch.watch, _CallingPort) else None
        return replace(
            self.launch, path=source.path, text=source.text, inputs=inputs, module_path=folder, options=options,
            watch=watch,
        )  # fmt: skip


def _calls(operation: object) -> bool:
    """Return whether an operation calls a program."""
    if isinstance(operation, Group):
        return any(map(_calls, operation.operations))
    return isinstance(operation, InvokeTool) and operation.tool == TOOL


def _relay(program: Program, wants: Callable[[Any], bool], handle: Callable[[Any], Routine]) -> Routine:
    """Run a program and return its value. ``handle`` answers the operations that ``wants`` selects."""
    resume: Callable[[Any], Any] = program.send
    answer: Any = None
    while True:
        try:
            operation = resume(answer)
        except StopIteration as stop:
            return stop.value
        try:
            answer = (yield from handle(operation)) if wants(operation) else (yield operation)
            resume = program.send
        except Halted as refused:
            answer, resume = refused, program.throw


def _failed(kind: ToolFailure, detail: str) -> ToolAnswer:
    return ToolAnswer(None, kind, detail)


def _as_mapping(inputs: Any) -> dict[str, Any] | None:
    """Return inputs as a mapping; a list of pairs counts as one, because S-expressions write mappings so."""
    if inputs is None:
        return {}
    if isinstance(inputs, list) and all(isinstance(each, list) and len(each) == 2 for each in inputs):
        inputs = {str(name): value for name, value in inputs}
    return inputs if isinstance(inputs, dict) else None
