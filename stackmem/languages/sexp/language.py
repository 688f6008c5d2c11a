"""S-expression workflows as the machine sees them: run, outlined, typed line by line, and announced to a person."""

from __future__ import annotations

import posixpath
from typing import Any

from stackmem.core.program_facts import StepEntered, StepLeft, ToolAnswered
from stackmem.core.requests import AskUser, LoadSource
from stackmem.errors import UsageError
from stackmem.languages.frame.values import step_left
from stackmem.languages.language import Announcer, Happening, Language, Launch, Reading
from stackmem.languages.operations import Completion, FrameAnswer, Halted, Program, Say, Source, Value

from .errors import SexpEvaluationError, SexpSyntaxError, TaskError, UnboundSymbolError
from .evaluator import Evaluation
from .interpreter import Doing
from .lint import inputs_of, lint
from .reader import read, split_budget
from .requests import Request, SubtaskRequest, Together, ToolRequest
from .tree import Form, Name, Node, walk
from .values import SexpEnvironment, as_json, to_source
from .workflow import Workflow


def announcer() -> Announcer:
    return _lines


def _lines(happening: Happening) -> tuple[str, ...]:
    match happening:
        case StepEntered():
            return (f"{happening.path} {happening.call}",)
        case StepLeft():
            return (f"{happening.path} done",)
        case tuple():
            return tuple(line for each in happening for line in _lines(each))
        case FrameAnswer() | Completion() | ToolAnswered() if happening.failed:
            return (f"  failed ({happening.failed}): {happening.detail}",)
        case FrameAnswer():
            return (f"  {happening.result}",)
        case Completion():
            return (f"  {happening.text}",)
        case _:
            return ()


PROMPT = "sexp>"
LEAVE = "(exit)"
_NO_INPUT = (
    "Missing input: '{name}' has no value, and nothing in the program binds it; "
    "give it with --input {name}=TEXT (or {name}:=JSON, {name}=@FILE), or mend the name."
)


def start(launch: Launch) -> Program:
    """The program; see ``language.Language``."""
    try:
        return (yield from _run(launch))
    except SexpSyntaxError as error:
        raise Halted("Syntax Error", str(error)) from error
    except SexpEvaluationError as error:
        raise Halted("Evaluation Error", str(error), _at(error)) from error
    except TaskError as error:
        raise Halted(error.type, f"{error.type}: {error.message}") from error


def outline(launch: Launch) -> Reading:
    """Every top-level expression, a line each, after the program was read and its inputs looked at."""
    try:
        parts, _ = yield from _load(launch)
    except SexpSyntaxError as error:
        raise Halted("Syntax Error", str(error)) from error
    nodes = [node for part in parts for node in part]
    names = sorted((yield from inputs_of(launch.path, nodes)) - launch.inputs.keys())
    needs = [f"needs the input {name}" for name in names]
    return (*(_line(node) for node in nodes), *needs)


def _run(launch: Launch) -> Program:
    parts, budget = yield from _load(launch)
    host = Workflow(budget, launch.tools)
    evaluation = Evaluation(host, budget)
    env = SexpEnvironment(launch.inputs)
    value: Any = []
    try:
        for nodes in parts:
            value = yield from _drive(evaluation.run(nodes, env), host)
    except SexpEvaluationError as error:
        name = _missing(error)
        if name and name in (yield from inputs_of(launch.path, [node for nodes in parts for node in nodes])):
            raise Halted("Missing Input", f"{_NO_INPUT.format(name=name)}\n{error}", _at(error)) from error
        raise
    if launch.options.get("repl"):
        return (yield from _talk(evaluation, env, host, posixpath.join(launch.workspace, "repl")))
    result: Value = as_json(value, budget)
    return result


def _load(launch: Launch) -> Reading:
    """``(expressions of each library and of the program, budget)``; the inputs' names are checked."""
    parts: list[list[Node]] = []
    own, budget = split_budget(read(launch.text, launch.path))
    for path in launch.options.get("lib") or ():
        source: Source = yield LoadSource(str(path))
        if source.failed:
            raise UsageError(f"--lib {path} cannot be read ({source.failed}); name a file that can")
        parts.append(read(source.text, source.path))
    parts.append(own)
    mentioned = {node.name for nodes in parts for node in walk(nodes) if isinstance(node, Name)}
    for name in launch.inputs:
        if name not in mentioned and not launch.options.get("repl"):
            free = yield from inputs_of(launch.path, [node for nodes in parts for node in nodes])
            known = ", ".join(sorted(free)) or "none"
            raise UsageError(f"the program has no input {name[:80]!r}; known: {known}")
    return parts, budget


def _drive(doing: Doing, host: Workflow) -> Doing:
    """Run an evaluation against the world."""
    try:
        ask = next(doing)
        while True:
            yield from _note_entered(ask)
            try:
                answer = yield from host.answer(ask)
            except SexpEvaluationError as error:
                ask = doing.throw(error)
            else:
                yield from _note_left(ask, answer)
                ask = doing.send(answer)
    except StopIteration as stop:
        return stop.value
    finally:
        doing.close()


def _note_entered(ask: Request) -> Doing:
    for one in ask.asks if isinstance(ask, Together) else (ask,):
        if isinstance(one, SubtaskRequest | ToolRequest):
            yield StepEntered(one.place, one.name)


def _note_left(ask: Request, answer: Any) -> Doing:
    answers = answer if isinstance(ask, Together) else [answer]
    for one, value in zip(ask.asks if isinstance(ask, Together) else (ask,), answers, strict=True):
        if isinstance(one, SubtaskRequest | ToolRequest):
            yield step_left(one.place, value)


def _talk(evaluation: Evaluation, env: SexpEnvironment, host: Workflow, place: str) -> Doing:
    """Ask for an expression, evaluate it, say its value; a fault is said, too, and everything bound stays.

    Args:
        place: What the lines are called; files that they name lie beside it.

    """
    while True:
        text: str = yield AskUser(PROMPT)
        if text.strip() in (LEAVE, "exit"):
            return None
        if not text.strip():
            continue
        evaluation.machine.meter.steps = 0
        try:
            value = yield from _drive(evaluation.run(read(text, place), env), host)
            env.define("it", value)
            said = to_source(value, 30_000)
        except (SexpSyntaxError, SexpEvaluationError, TaskError) as error:
            said = str(error)
        yield Say(said)


def _missing(error: BaseException | None) -> str:
    """The name that an error comes from, where it is that a name has no value."""
    while error is not None and not isinstance(error, UnboundSymbolError):
        error = error.__cause__
    return error.symbol if error is not None else ""


def _line(node: Node) -> str:
    if isinstance(node, Form):
        text = " ".join(node.source.text[node.at : node.end].split())
        return text if len(text) <= 100 else f"{text[:100]}…"
    return node.name if isinstance(node, Name) else to_source(node.value, 100)


def _at(error: SexpEvaluationError) -> str:
    return f"{error.place.line}:{error.place.column}" if error.place else ""


LANGUAGE = Language(
    name="sexp",
    says="workflows as S-expressions, whose tasks are frames",
    suffixes=(".sexp",),
    main="main.sexp",
    start=start,
    outline=outline,
    lint=lint,
    announcer=announcer,
)
