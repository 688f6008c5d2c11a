"""Functions of Python blocks: their signatures, read and not run; each runs in a process of its own in the sandbox.

A function waits where it calls a playbook.
"""

from __future__ import annotations

import ast
import json
from typing import Any

from stackmem.core.requests import InvokeTool
from stackmem.core.text import whole, whole_value
from stackmem.languages.operations import Routine, Say, ToolAnswer

from .calls import Target, bind_arguments, find_target
from .errors import PlaybookError
from .literals import CallTo
from .metadata import Metadata
from .session_log import head_and_tail
from .state import CallFailure, Execution, excess
from .tree import Param, Playbook, Required, Trigger, trigger_line

_MOST_CHARS = 200_000


def functions_of(block: str, first_line: int) -> tuple[Playbook, ...]:
    """The functions of a block whose first line is ``first_line`` of the file.

    Raises:
        PlaybookError: It is no Python, or a function cannot be called by name with JSON values.

    """
    if len(block) > _MOST_CHARS:
        raise PlaybookError("Long Block", f"the block has over {_MOST_CHARS:,} characters; split it", first_line)
    try:
        tree = ast.parse(block)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        told = getattr(error, "msg", None) or "it is nested too deeply or holds a NUL"
        raise PlaybookError("Invalid Python", f"the block is no Python: {told}", first_line + line - 1) from error
    found = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            marks = [mark for mark in node.decorator_list if _name(mark) == "playbook"]
            if marks:
                found.append(_function(node, marks[0], block, first_line))
    return tuple(found)


def _name(mark: ast.expr) -> str:
    inner = mark.func if isinstance(mark, ast.Call) else mark
    return inner.id if isinstance(inner, ast.Name) else ""


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, mark: ast.expr, block: str, first_line: int) -> Playbook:
    line = first_line + node.lineno - 1
    given = node.args
    if given.vararg or given.kwarg or given.posonlyargs:
        message = f"{node.name} takes *args, **kwargs or positional-only arguments; name each one"
        raise PlaybookError("Bad Signature", message, line)
    params = []
    missing: list[ast.expr | None] = [None] * (len(given.args) - len(given.defaults))
    named = [*zip(given.args, [*missing, *given.defaults], strict=True)]
    for arg, default in [*named, *zip(given.kwonlyargs, given.kw_defaults, strict=True)]:
        kind = ast.unparse(arg.annotation) if arg.annotation else ""
        params.append(Param(arg.arg, kind, Required if default is None else _literal(default)))
    words = mark.keywords if isinstance(mark, ast.Call) else []
    marks = {word.arg: _literal(word.value) for word in words if word.arg}
    beside = marks.pop("metadata", None)
    triggers = _triggers(marks.pop("triggers", []), line)
    meta = Metadata()
    meta.take_words({**(beside if isinstance(beside, dict) else {}), **marks}, line)
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
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise PlaybookError("Bad Trigger", "triggers of a function are a list of texts", line)
    made = []
    for place, text in enumerate(texts, 1):
        try:
            made.append(trigger_line(text, line, place))
        except PlaybookError:
            made.append(Trigger(place, f"T{place}", "CND", text, line))
    return tuple(made)


def _literal(node: ast.expr) -> Any:
    """A literal's value; anything else is computed where the function runs, and None here."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


SECONDS = 30.0
MOST_CALLS = 200
_MARK = "\x1estackmem "
_ERROR_CHARS = 2_000
RUNNER = """\
import asyncio, inspect, io, json, linecache, os, sys, time, traceback
place = sys.argv[1]
with open(place + "/order.json", encoding="utf-8") as file: order = json.load(file)
true_out, held, asked, coroutine = sys.stdout, io.StringIO(), 0, False
mark = "\\x1estackmem "
class Failed(Exception): pass
class Shown(io.TextIOBase):
    def write(self, text): return held.write(text)
    def writable(self): return True
sys.stdout = sys.stderr = Shown()
def take():
    text = held.getvalue(); held.seek(0); held.truncate(); return text
def finish(**said):
    true_out.write("\\n" + mark + json.dumps({**said, "output": take()}) + "\\n"); true_out.flush(); os._exit(0)
def ask(name, values, named):
    global asked
    try: text = json.dumps({"call": name, "values": values, "named": named, "output": take()}, allow_nan=False)
    except (TypeError, ValueError) as error: raise Failed(f"arguments of {name} are no JSON values: {error}")
    with open(f"{place}/ask.tmp", "w", encoding="utf-8") as file: file.write(text)
    os.replace(f"{place}/ask.tmp", f"{place}/ask-{asked}.json")
    answer, pause = f"{place}/answer-{asked}.json", 0.001
    asked += 1
    while True:
        try:
            with open(answer, encoding="utf-8") as file: got = json.load(file)
            break
        except (OSError, ValueError): time.sleep(pause); pause = min(0.05, pause * 1.5)
    if "failed" in got: raise Failed(got["failed"])
    return got["value"]
def caller(name):
    def call(*values, **named):
        value = ask(name, values, named)
        if not coroutine: return value
        async def given(): return value
        return given()
    return call
def playbook(*given, **_):
    return given[0] if given and callable(given[0]) else (lambda function: function)
runner, home = finish.__code__.co_filename, os.getcwd() + os.sep
def theirs(path):
    return path == order["file"] or (path != runner and os.path.abspath(path).startswith(home) and path[:1] != "<")
def shown(error):
    rows = [row for row in error.stack or () if theirs(row.filename)]
    error.stack = traceback.StackSummary.from_list(rows) if rows else None
    inner = (error.__cause__, error.__context__, *(getattr(error, "exceptions", None) or ()))
    for each in inner:
        if each is not None: shown(each)
def tell(error):
    told = traceback.TracebackException(type(error), error, error.__traceback__)
    shown(told)
    sys.stderr.write("".join(told.format()))
space = {"__name__": "playbook", "playbook": playbook, **{name: caller(name) for name in order["names"]}}
try:
    text = "\\n" * (order["line"] - 1) + order["source"]
    linecache.cache[order["file"]] = (len(text), None, text.splitlines(True), order["file"])
    exec(compile(text, order["file"], "exec"), space)
    coroutine = inspect.iscoroutinefunction(space[order["function"]])
    value = space[order["function"]](**order["arguments"])
    if inspect.iscoroutine(value): value = asyncio.run(value)
    try: text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Failed(f"{order['function']} returned no JSON value: {error}") from None
except SystemExit as error: finish(failed=f"SystemExit: {error.code}")
except BaseException as error:
    tell(error)
    finish(failed=str(error) if isinstance(error, Failed) else f"{type(error).__name__}: {error}")
finish(value=json.loads(text))
"""


def run_function(here: Execution, book: Playbook, arguments: dict[str, Any]) -> Routine:
    """What a function gives, or its ``CallFailure``; what it prints is shown."""
    for param in book.params:
        if param.name in arguments and not fits(arguments[param.name], param.kind):
            return CallFailure(f"{param.name} of {book.name} must be {param.kind}")
    yield from here.enter(book.name, book.says or book.signature)
    value = yield from _exchange(here, book, arguments)
    if not isinstance(value, CallFailure) and book.returns and not fits(value, book.returns):
        value = CallFailure(f"{book.name} must return {book.returns}, and returned {json.dumps(value)[:200]}")
    yield from here.leave(f"failed: {value.why}" if isinstance(value, CallFailure) else "returned")
    return value


def _exchange(here: Execution, book: Playbook, arguments: dict[str, Any]) -> Routine:
    here.world.python_calls += 1
    folder = f".stackmem/python/{here.world.python_calls}"
    answers: list[dict[str, Any]] = []
    while len(answers) <= MOST_CALLS:
        given = {"folder": folder, "program": RUNNER, "order": _order(here, book, arguments), "answers": list(answers)}
        ran: ToolAnswer = yield InvokeTool("run_python", given, SECONDS)
        said = _last_message(ran)
        if said["output"].strip():
            yield Say(said["output"].strip("\n"))
        if "call" not in said:
            if "value" not in said:
                return CallFailure(said["failed"])
            why = excess(said["value"])
            return CallFailure(f"{book.name} returned too much: {why}") if why else said["value"]
        answers.append((yield from _answer(here, book, said)))
    return CallFailure(f"{book.name} made over {MOST_CALLS} calls")


def _order(here: Execution, book: Playbook, arguments: dict[str, Any]) -> str:
    agent = here.agent.agent
    named = [each.name for each in agent.playbooks if not each.python or each.python != book.python]
    others = [each.name for owner, each in here.world.program.all() if owner.name != agent.name and each.public]
    names = list(dict.fromkeys([*named, *others]))
    given = {
        "source": book.python, "function": book.name, "arguments": arguments, "names": names,
        "file": here.world.path, "line": book.python_line,
    }  # fmt: skip
    return json.dumps(given)


def _last_message(ran: ToolAnswer) -> dict[str, Any]:
    """What the process said last: ``call``, ``value`` or ``failed``, and the ``output`` before that."""
    value = ran.value if isinstance(ran.value, dict) else {}
    if "call" in value:
        try:
            return {**whole_value(value), "output": whole(str(value.get("output", "")))}
        except ValueError:
            return {"failed": "what it calls a playbook with is nested too deep", "output": ""}
    said: dict[str, Any] = {}
    lines = []
    for line in str(value.get("stdout", "")).split("\n"):
        if not line.startswith(_MARK):
            lines.append(line)
            continue
        try:
            said = whole_value(dict(json.loads(line.removeprefix(_MARK))))
        except (ValueError, TypeError, RecursionError):
            said = {"failed": "its last line is no JSON, or is nested too deep"}
    parts = [str(said.get("output", "")), "\n".join(lines), str(value.get("stderr", ""))]
    output = "\n".join(text.strip("\n") for text in parts if text.strip())
    if ran.failed or not {"value", "failed"} & said.keys():
        said = {"failed": head_and_tail(ran.detail or "it ended without a result", _ERROR_CHARS)}
    return {**said, "output": output}


def _answer(here: Execution, book: Playbook, said: dict[str, Any]) -> Routine:
    """The playbook that the function calls, made, as it is told."""
    values, named = said.get("values"), said.get("named")
    call = CallTo(
        str(said["call"]),
        tuple(values) if isinstance(values, list) else (),
        tuple(named.items()) if isinstance(named, dict) else (),
    )
    target = find_target(here.world.program, here.agent.agent.name, call.name)
    given = (
        bind_arguments(target, call)
        if isinstance(target, Target) and target.book
        else f"there is no playbook {call.name}"
    )
    if isinstance(given, str) or target is None or target.book is None:
        return {"failed": given}
    made = yield from here.play(target.agent, target.book, given, f"{here.world.path}:{book.line} ({book.name})")
    return {"failed": made.why} if isinstance(made, CallFailure) else {"value": made}


_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,), "int": (int,), "float": (int, float), "bool": (bool,), "list": (list,), "dict": (dict,),
    "None": (type(None),), "tuple": (list,), "List": (list,), "Dict": (dict,),
}  # fmt: skip


def fits(value: Any, kind: str) -> bool:
    """Whether a JSON value is of a type as it is annotated; a name that is not known fits anything."""
    kind = kind.strip().strip("\"'")
    if kind.startswith("Optional[") and kind.endswith("]"):
        return value is None or fits(value, kind[9:-1])
    if "|" in kind and "[" not in kind:
        return any(fits(value, each) for each in kind.split("|"))
    known = _KINDS.get(kind.partition("[")[0].strip())
    if known is None or (kind.count("|") and "[" in kind):
        return True
    if isinstance(value, bool):
        return bool in known
    return isinstance(value, known)
