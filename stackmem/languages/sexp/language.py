"""The language interface of S-expression workflows: runs, outlines, the REPL, and announcements."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any

from stackmem.core.errors import Halted, UsageError
from stackmem.core.program_facts import StepEntered, StepLeft, ToolAnswered
from stackmem.core.requests import AskUser
from stackmem.languages.debugger import DebugMoment, FrameView
from stackmem.languages.frame.values import step_left
from stackmem.languages.language import (
    Announcer,
    Happening,
    Language,
    Launch,
    ProgramInterface,
    Reading,
    answer_lines,
    inputs_schema,
    leading_comment,
)
from stackmem.languages.operations import Program, Say, Value

from .analysis import Analysis
from .definitions import definitions_of
from .errors import SexpEvaluationError, SexpSyntaxError, TaskError, unbound_symbol
from .evaluator import Evaluation
from .interpreter import Doing
from .lint import LintResult, SourcePart, examine, libraries, lint, place_of
from .reader import read, split_budget
from .requests import Request, SubtaskRequest, Together, ToolRequest
from .stepping import variables_of
from .tools import plain_name
from .tree import Form, Name, Node, walk
from .values import SexpEnvironment, as_json, to_source
from .workflow import Workflow


def announcer() -> Announcer:
    writing: set[str] = set()  # steps that first check whether their file exists

    def lines(happening: Happening) -> tuple[str, ...]:
        match happening:
            case StepEntered() if plain_name(happening.call) == "system_write_file":
                writing.add(happening.path)
            case StepLeft():
                writing.discard(happening.path)
            case ToolAnswered(failed="missing") if writing:
                return ()
        return _lines(happening)

    return lines


def _lines(happening: Happening) -> tuple[str, ...]:
    match happening:
        case StepEntered():
            return (f"{happening.path} {happening.call}",)
        case StepLeft():
            return (f"{happening.path} done",)
        case tuple():
            return tuple(line for each in happening for line in _lines(each))
        case _:
            return answer_lines(happening)


PROMPT = "sexp>"
LEAVES = ("(exit)", "exit")
_STATIC = "Static fault: nothing was done, as no input would let this program end."
_NO_INPUT = (
    "Missing input: '{name}' has no value, and nothing in the program binds it; "
    "give it with --input {name}=TEXT (or {name}:=JSON, {name}=@FILE), or mend the name."
)


def start(launch: Launch) -> Program:
    """Run the program; see ``language.Language``."""
    try:
        return (yield from _run(launch))
    except SexpSyntaxError as error:
        raise Halted("Syntax Error", str(error)) from error
    except SexpEvaluationError as error:
        raise Halted("Evaluation Error", str(error), _at(error)) from error
    except TaskError as error:
        excerpt = f"\n{error.position.excerpt}" if error.position else ""
        raise Halted(error.type, f"{error.type}: {error.message}{excerpt}", _at(error)) from error


def outline(launch: Launch) -> Reading:
    """Return a line for each top-level expression, after checking the program and its inputs."""
    try:
        parts, _ = yield from _load(launch)
    except SexpSyntaxError as error:
        raise Halted("Syntax Error", str(error)) from error
    result: LintResult = yield from examine(parts, frozenset(launch.inputs), launch.tools)
    if result.report:
        raise Halted("Static Fault", f"{_STATIC}\n{result.report}")
    needs = [f"needs the input {name}" for name in sorted({*result.free, *result.needed})]
    return (*(_line(node) for part in parts for node in part.nodes), *needs)


def interface(launch: Launch) -> Reading:
    """Return the program's interface: its free names are its inputs, and the comment at its beginning describes it."""
    try:
        parts, _ = yield from _load(launch)
    except SexpSyntaxError as error:
        raise Halted("Syntax Error", str(error)) from error
    result: LintResult = yield from examine(parts, frozenset(), launch.tools)
    names = sorted({*result.free, *result.needed})
    return ProgramInterface(leading_comment(launch.text, ";"), inputs_schema({name: {} for name in names}, names))


def models(launch: Launch) -> Reading:
    """Return the models that tasks of the program and its libraries name."""
    parts, _ = yield from _load(launch)
    names = [task.template.get("model") for part in parts for task in definitions_of(part.nodes)]
    return tuple(dict.fromkeys(name for name in names if name))


def _run(launch: Launch) -> Program:
    parts, budget = yield from _load(launch)
    checked = bool(launch.options.get("checked"))  # a run recorded without the option is replayed without the check
    if checked:
        yield from _check(launch, parts)
    host = Workflow(budget, launch.tools, names_files=checked)
    evaluation = Evaluation(host, budget, launch.watch)
    env = SexpEnvironment(launch.inputs)
    _notify_debugger(launch, "entered", env)
    value: Any = []
    try:
        for part in parts:
            value = yield from _drive(evaluation.run(part.nodes, env), host)
    except SexpEvaluationError as error:
        name = unbound_symbol(error)
        lint_result: LintResult = yield from examine(parts, frozenset(), launch.tools)
        if name and name in lint_result.free | lint_result.needed.keys():
            raise Halted("Missing Input", f"{_NO_INPUT.format(name=name)}\n{error}", _at(error)) from error
        raise
    _notify_debugger(launch, "left", env)
    if launch.options.get("repl"):
        return (yield from _talk(evaluation, env, host, posixpath.join(launch.workspace, "repl")))
    result: Value = as_json(value, budget)
    return result


def _check(launch: Launch, parts: list[SourcePart]) -> Reading:
    """Halt on faults that no input can fix and on missing inputs, before any effect."""
    result: LintResult = yield from examine(parts, frozenset(launch.inputs), launch.tools)
    if result.report:
        raise Halted("Static Fault", f"{_STATIC}\n{result.report}")
    if result.needed:
        places = {name: place_of(*location) for name, location in result.needed.items()}
        lines = [f"{_NO_INPUT.format(name=name)}\n{position.excerpt}" for name, position in places.items()]
        first = next(iter(places.values()))
        raise Halted("Missing Input", "\n".join(lines), f"{first.line}:{first.column}")


def _notify_debugger(launch: Launch, kind: Any, env: SexpEnvironment) -> None:
    """Notify the debugger, if one is attached, that the program begins or ends."""
    if launch.watch is not None:
        launch.watch(
            DebugMoment(
                kind, (FrameView("program", launch.path, 1, variables_of(env)),), posixpath.basename(launch.path)
            )
        )


def stop_lines(path: str, text: str) -> Iterator[int]:
    """Yield the first line of each evaluated form."""
    try:
        nodes = read(text, path)
    except SexpSyntaxError:
        return
    for form in Analysis(nodes).evaluated:
        yield form.source.text.count("\n", 0, form.at) + 1


def _load(launch: Launch) -> Reading:
    """Return ``(libraries and program as SourceParts, budget)``, after checking the names of the inputs."""
    own, budget = split_budget(read(launch.text, launch.path))
    parts: list[SourcePart] = yield from libraries(launch.options.get("lib") or ())
    parts.append(SourcePart(launch.path, launch.text, own))
    mentioned = {node.name for part in parts for node in walk(part.nodes) if isinstance(node, Name)}
    if launch.inputs.keys() - mentioned and not launch.options.get("repl"):
        result: LintResult = yield from examine(parts, frozenset(), launch.tools)
        free = {*result.free, *result.needed}
        for name in launch.inputs.keys() - mentioned - free:
            names = ", ".join(sorted(free)) or "none"
            raise UsageError(f"the program has no input {name[:80]!r}; known: {names}")
    return parts, budget


def _drive(doing: Doing, host: Workflow) -> Doing:
    """Run an evaluation, and answer its requests."""
    try:
        ask = next(doing)
        while True:
            yield from _note_entered(ask, host)
            try:
                answer = yield from host.answer(ask)
            except SexpEvaluationError as error:
                ask = doing.throw(error)
            else:
                yield from _note_left(ask, answer, host)
                ask = doing.send(answer)
    except StopIteration as stop:
        return stop.value
    finally:
        doing.close()


def _note_entered(ask: Request, host: Workflow) -> Doing:
    for request in ask.asks if isinstance(ask, Together) else (ask,):
        if isinstance(request, SubtaskRequest | ToolRequest):
            yield StepEntered(host.place_of(request), request.name)


def _note_left(ask: Request, answer: Any, host: Workflow) -> Doing:
    answers = answer if isinstance(ask, Together) else [answer]
    for request, value in zip(ask.asks if isinstance(ask, Together) else (ask,), answers, strict=True):
        if isinstance(request, SubtaskRequest | ToolRequest):
            yield step_left(host.place_of(request), value)


def _talk(evaluation: Evaluation, env: SexpEnvironment, host: Workflow, location: str) -> Doing:
    """Run the REPL: read an expression, evaluate it, print its value or error. Bindings are kept after an error."""
    while True:
        text: str = yield AskUser(PROMPT)
        if text.strip() in LEAVES:
            return None
        if not text.strip():
            continue
        evaluation.machine.meter.steps = 0
        try:
            value = yield from _drive(evaluation.run(read(text, location), env), host)
            env.define("it", value)
            output = to_source(value, 30_000)
        except (SexpSyntaxError, SexpEvaluationError, TaskError) as error:
            output = str(error)
        yield Say(output)


def _line(node: Node) -> str:
    if isinstance(node, Form):
        text = " ".join(node.source.text[node.at : node.end].split())
        return text if len(text) <= 100 else f"{text[:100]}…"
    return node.name if isinstance(node, Name) else to_source(node.value, 100)


def _at(error: SexpEvaluationError | TaskError) -> str:
    return f"{error.position.line}:{error.position.column}" if error.position else ""


LANGUAGE = Language(
    name="sexp",
    says="workflows as S-expressions whose tasks are frames",
    start=start,
    outline=outline,
    lint=lint,
    stop_lines=stop_lines,
    announcer=announcer,
    models=models,
    lints_with=("tools", "lib"),
    interface=interface,
    is_checked=True,
)
