"""Functions of Python blocks.

Their signatures are parsed without running the code. Each function runs in its own process in the sandbox, and waits
while a playbook that it calls is running.
"""

from __future__ import annotations

import ast
import json
import re
import symtable
from typing import Any, Literal

from stackmem.core.requests import InvokeTool
from stackmem.core.text import whole, whole_value
from stackmem.languages.frame.values import variable_set
from stackmem.languages.operations import Routine, Say, ToolAnswer

from .calls import BUILT_IN_CALLS, artifact_name, bind_arguments, find_target
from .errors import PlaybookError
from .literals import CallTo
from .metadata import Metadata
from .python_runner import RUNNER
from .session_log import head_and_tail, value_text
from .state import CallFailure, Exit, PlaybookExecution, PlaybookFrame, excess
from .tools import call_built_in, read_whole
from .tree import Param, Playbook, Required, Trigger, trigger_line

_MAX_CHARS = 200_000


def functions_of(block: str, first_line: int) -> tuple[Playbook, ...]:
    """Return the functions of a block whose first line is line ``first_line`` of the file.

    Raise PlaybookError if the block is not Python, or a function cannot be called by name with JSON values.
    """
    if len(block) > _MAX_CHARS:
        raise PlaybookError("Long Block", f"the block has over {_MAX_CHARS:,} characters; split it", first_line)
    try:
        tree = ast.parse(block)
        # reports errors that the parser accepts, such as duplicate parameter names
        symtable.symtable(block, "block", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        message = getattr(error, "msg", None) or "it is nested too deeply or holds a NUL"
        raise PlaybookError("Invalid Python", f"the block is not Python: {message}", first_line + line - 1) from error
    functions = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            marks = [mark for mark in node.decorator_list if _name(mark) == "playbook"]
            if marks:
                functions.append(_function(node, marks[0], block, first_line))
    return tuple(functions)


def _name(mark: ast.expr) -> str:
    inner = mark.func if isinstance(mark, ast.Call) else mark
    return inner.id if isinstance(inner, ast.Name) else ""


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, mark: ast.expr, block: str, first_line: int) -> Playbook:
    line = first_line + node.lineno - 1
    arguments = node.args
    if arguments.vararg or arguments.kwarg or arguments.posonlyargs:
        message = f"{node.name} takes *args, **kwargs or positional-only arguments; name each one"
        raise PlaybookError("Bad Signature", message, line)
    params = []
    missing: list[ast.expr | None] = [None] * (len(arguments.args) - len(arguments.defaults))
    positional = [*zip(arguments.args, [*missing, *arguments.defaults], strict=True)]
    for arg, default in [*positional, *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]:
        kind = ast.unparse(arg.annotation) if arg.annotation else ""
        params.append(Param(arg.arg, kind, Required if default is None else _literal(default)))
    words = mark.keywords if isinstance(mark, ast.Call) else []
    marks = {word.arg: _literal(word.value) for word in words if word.arg}
    metadata = marks.pop("metadata", None)
    triggers = _triggers(marks.pop("triggers", []), line)
    meta = Metadata()
    meta.take_words({**(metadata if isinstance(metadata, dict) else {}), **marks}, line)
    says = ast.get_docstring(node) or ""
    return Playbook(
        node.name,
        tuple(params),
        ast.unparse(node.returns) if node.returns else "",
        says.strip().split("\n")[0],
        line,
        triggers=triggers,
        public=bool(meta.public),
        entry=meta.entry,
        caveats=tuple(meta.caveats),
        python=block,
        python_line=first_line,
    )


def _triggers(texts: Any, line: int) -> tuple[Trigger, ...]:
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise PlaybookError("Bad Trigger", "triggers of a function are a text or a list of texts", line)
    triggers = []
    for position, text in enumerate(texts, 1):
        try:
            triggers.append(trigger_line(text, line, position))
        except PlaybookError:
            code: Literal["BGN", "CND"] = "BGN" if _BEGINS.match(text.strip()) else "CND"
            triggers.append(Trigger(position, f"T{position}", code, text, line))
    return tuple(triggers)


def _literal(node: ast.expr) -> Any:
    """Return a literal's value. Other expressions are computed when the function runs; they give None here."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


SECONDS = 30.0
MAX_CALLS = 200
_MARK = "\x1estackmem "
_AGENT = re.compile(r"\bagent\b")
_NAME = re.compile(r"[A-Za-z_]\w{0,99}")
_BEGINS = re.compile(
    r"(?:(?:at|on|upon)\s+(?:the\s+)?(?:very\s+)?(?:beginning|start|start-?up)"
    r"|(?:when|once|as soon as)\s+(?:the\s+|this\s+)?(?:program|agent)s?\s+(?:begins?|starts?|has started))\b",
    re.I,
)
"""A function's trigger without a code that matches is a beginning (BGN); any other is a condition (CND)."""
_ERROR_CHARS = 2_000


def run_function(here: PlaybookExecution, book: Playbook, arguments: dict[str, Any]) -> Routine:
    """Run a function and return its value or a ``CallFailure``. Its output is printed for the user.

    Raise Exit if the function, or something that it called, ended the program.
    """
    for param in book.params:
        if param.name in arguments and not fits(arguments[param.name], param.kind):
            return CallFailure(f"{param.name} of {book.name} must be {param.kind}")
    yield from here.enter(book.name, book.says or book.signature)
    frame = PlaybookFrame(book, arguments, mark=len(here.agent.log), loaded={}, returned={})
    here.agent.frames.append(frame)
    called = f"{book.name}({', '.join(f'{name}={value_text(value, 60)}' for name, value in arguments.items())})"
    here.notify_debugger("entered", called)
    here.notify_debugger("line", f"Python {book.signature}", book.line)
    try:
        value = yield from _exchange(here, frame)
    except Exit:
        here.agent.frames.pop()
        yield from here.leave("the program ended here")
        raise
    if not isinstance(value, CallFailure) and book.returns and not fits(value, book.returns):
        value = CallFailure(f"{book.name} must return {book.returns}, and returned {json.dumps(value)[:200]}")
    message = f"failed: {value.reason}" if isinstance(value, CallFailure) else "returned"
    here.notify_debugger("left", f"{called} {message}")
    here.agent.frames.pop()
    yield from here.leave(message)
    return value


def _exchange(here: PlaybookExecution, frame: PlaybookFrame) -> Routine:
    book = frame.book
    here.world.python_calls += 1
    folder = f".stackmem/python/{here.world.python_calls}"
    order, answers = _order(here, frame), list[dict[str, Any]]()
    while len(answers) <= MAX_CALLS:
        arguments = {"folder": folder, "program": RUNNER, "order": order, "answers": list(answers)}
        ran: ToolAnswer = yield InvokeTool("run_python", arguments, SECONDS)
        message = _last_message(ran)
        if message["output"].strip():
            yield Say(message["output"].strip("\n"))
        if reason := (yield from _take_state(here, message)):
            return CallFailure(f"{book.name} {reason}")
        if "exit" in message:
            raise Exit
        if "call" not in message:
            if "value" not in message:
                return CallFailure(head_and_tail(" ".join(str(message["failed"]).split()), _ERROR_CHARS))
            reason = excess(message["value"])
            return CallFailure(f"{book.name} returned too much: {reason}") if reason else message["value"]
        line = message.get("line")
        frame.python_line = line if isinstance(line, int) else 0
        answer = yield from _answer(here, frame, message)
        answers.append({**answer, "variables": dict(here.agent.variables)} if _uses_state(book) else answer)
    return CallFailure(f"{book.name} made over {MAX_CALLS} calls")


def _uses_state(book: Playbook) -> bool:
    """Return whether the function may access the agent's variables. Only then are they passed to it."""
    return _AGENT.search(book.python) is not None


def _order(here: PlaybookExecution, frame: PlaybookFrame) -> str:
    agent, book = here.agent.agent, frame.book
    names = [each.name for each in agent.playbooks if not each.python or each.python != book.python]
    others = [each.name for owner, each in here.world.program.all() if owner.name != agent.name and each.public]
    fields = {
        "source": book.python, "function": book.name, "arguments": frame.arguments,
        "names": list(dict.fromkeys([*BUILT_IN_CALLS, *names, *others])),
        "file": here.world.path, "line": book.python_line, "agent": agent.name,
        "variables": here.agent.variables if _uses_state(book) else {},
    }  # fmt: skip
    return json.dumps(fields)


def _take_state(here: PlaybookExecution, message: dict[str, Any]) -> Routine:
    """Store the variables that the function set on the agent. Returns the fault of an invalid one, or an empty text."""
    state = message.get("state")
    changed, unset = (state.get("set"), state.get("unset")) if isinstance(state, dict) else (None, None)
    for name, value in changed.items() if isinstance(changed, dict) else ():
        if not _NAME.fullmatch(name):
            return f"sets {name[:80]!r}, which is not a name of a variable"
        if reason := excess(value):
            return f"sets ${name}: {reason}"
        here.agent.set(name, value)
        yield variable_set(name, value)
    for name in unset if isinstance(unset, list) else ():
        here.agent.variables.pop(str(name), None)
    return ""


def _last_message(ran: ToolAnswer) -> dict[str, Any]:
    """Return the process's last message (``call``, ``value`` or ``failed``), with the ``output`` before it."""
    value = ran.value if isinstance(ran.value, dict) else {}
    if "call" in value:
        try:
            return {**whole_value(value), "output": whole(str(value.get("output", "")))}
        except ValueError:
            return {"failed": "what it calls a playbook with is nested too deep", "output": ""}
    message: dict[str, Any] = {}
    lines = []
    for line in str(value.get("stdout", "")).split("\n"):
        if not line.startswith(_MARK):
            lines.append(line)
            continue
        try:
            message = whole_value(dict(json.loads(line.removeprefix(_MARK))))
        except (ValueError, TypeError, RecursionError):
            message = {"failed": "its last line is not JSON, or is nested too deep"}
    parts = [str(message.get("output", "")), "\n".join(lines), str(value.get("stderr", ""))]
    output = "\n".join(text.strip("\n") for text in parts if text.strip())
    if ran.failed or not {"value", "failed", "exit"} & message.keys():
        message = {"failed": ran.detail or "it ended without a result"}
    return {**message, "output": output}


def _answer(here: PlaybookExecution, frame: PlaybookFrame, message: dict[str, Any]) -> Routine:
    """Make the call that the function asked for, and return the answer to send to it."""
    values, keywords = message.get("values"), message.get("named")
    call = CallTo(
        str(message["call"]),
        tuple(values) if isinstance(values, list) else (),
        tuple(keywords.items()) if isinstance(keywords, dict) else (),
    )
    target = find_target(here.world.program, here.agent.agent.name, call.name)
    arguments = bind_arguments(target, call) if target else f"unknown playbook {call.name}"
    if isinstance(arguments, str) or target is None:
        return {"failed": arguments}
    if target.book is None:
        value = yield from _use_built_in(here, frame, target.name, arguments)
    else:
        value = yield from here.play(target.agent, target.book, arguments, here.world.source_location(frame))
    return {"failed": value.reason} if isinstance(value, CallFailure) else {"value": value}


def _use_built_in(here: PlaybookExecution, frame: PlaybookFrame, name: str, arguments: dict[str, Any]) -> Routine:
    """Call a built-in tool for a function.

    Unlike for the model, loading an artifact returns its full text, and saving one returns its name.
    """
    if "artifact_name" not in arguments:
        return (yield from call_built_in(here, frame, name, arguments))
    name_text = artifact_name(here.world, here.agent, arguments["artifact_name"], loading=name == "LoadArtifact")
    if name == "SaveArtifact":
        value = yield from call_built_in(here, frame, name, {**arguments, "artifact_name": name_text})
        return value if isinstance(value, CallFailure) else name_text
    text, failed, summary = yield from read_whole(here.world, here.agent, name_text)
    return CallFailure(failed) if failed else {"name": name_text, "summary": summary, "content": text}


_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,), "int": (int,), "float": (int, float), "bool": (bool,), "list": (list,), "dict": (dict,),
    "None": (type(None),), "tuple": (list,), "List": (list,), "Dict": (dict,),
}  # fmt: skip


def fits(value: Any, kind: str) -> bool:
    """Return whether a JSON value matches a type annotation. Unknown type names match anything."""
    kind = kind.strip().strip("\"'")
    if kind.startswith("Optional[") and kind.endswith("]"):
        return value is None or fits(value, kind[9:-1])
    if "|" in kind and "[" not in kind:
        return any(fits(value, each) for each in kind.split("|"))
    types = _KINDS.get(kind.partition("[")[0].strip())
    if types is None or (kind.count("|") and "[" in kind):
        return True
    if isinstance(value, bool):
        return bool in types
    return isinstance(value, types)
