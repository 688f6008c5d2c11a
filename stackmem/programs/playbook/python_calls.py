"""Functions of Python blocks: run in the sandbox by a command, talked to in lines of JSON.

The process prints a request where the function calls a playbook, and ends; it is started again with the answers so
far, and takes them in their order without asking.
"""

from __future__ import annotations

import json
from typing import Any

from ..effects import InvokeTool, Say, ToolAnswer
from .calling import Target, bound, find
from .here import Doing, Failure, Here
from .literals import CallTo
from .nodes import Playbook
from .session_log import shortened

SECONDS = 30.0
MOST_CALLS = 200
_MARK = "\x1estackmem "
_ERROR_CHARS = 2_000
RUNNER = '''\
"""Runs one function; see docs/programs/playbooks.md."""
import asyncio, inspect, json, os, sys
with open(sys.argv[1], encoding="utf-8") as file: order = json.load(file)
try:
    for path in sys.argv[:2]: os.remove(path)
    os.removedirs(os.path.dirname(sys.argv[1]))
except OSError: pass
out, answers = sys.stdout, list(order["answers"])
mark = "\\x1estackmem "
class Failed(Exception): pass
def tell(**said):
    out.write("\\n" + mark + json.dumps(said) + "\\n"); out.flush()
def finish(**said):
    tell(**said); sys.stdout.flush(); sys.stderr.flush()
    os._exit(0)
def caller(name):
    def call(*values, **named):
        if answers:
            got = answers.pop(0)
            out.write("\\n" + mark + json.dumps({"answered": True}) + "\\n")
            if "failed" in got: raise Failed(got["failed"])
            return Awaitable.of(got["value"])
        try: json.dumps([values, named])
        except (TypeError, ValueError) as error: raise Failed(f"arguments of {name} are no JSON values: {error}")
        finish(call=name, values=values, named=named)
    return call
class Awaitable:
    """Gives results that can be awaited in functions that are `async`."""
    @staticmethod
    def of(value):
        if not order["is_async"]: return value
        async def given(): return value
        return given()
def playbook(*given, **_):
    return given[0] if given and callable(given[0]) else (lambda function: function)
space = {"__name__": "playbook", "playbook": playbook}
space.update({name: caller(name) for name in order["names"]})
try:
    exec(compile(order["source"], "playbook.py", "exec"), space)
    order["is_async"] = inspect.iscoroutinefunction(space[order["function"]])
    for name in order["names"]:
        if name != order["function"] and name not in order["defined"]: space[name] = caller(name)
    value = space[order["function"]](**order["arguments"])
    if inspect.iscoroutine(value): value = asyncio.run(value)
    text = json.dumps(value, allow_nan=False)
except SystemExit as error: finish(failed=f"SystemExit: {error.code}")
except BaseException as error:
    import traceback
    traceback.print_exc()
    finish(failed=f"{type(error).__name__}: {error}")
finish(value=json.loads(text))
'''


def run_function(here: Here, book: Playbook, arguments: dict[str, Any], play: Any) -> Doing:
    """What a function gives, or its ``Failure``; what it prints is shown."""
    for param in book.params:
        if param.name in arguments and not fits(arguments[param.name], param.kind):
            return Failure(f"{param.name} of {book.name} must be {param.kind}")
    yield from here.enter(book.name, book.says or book.signature)
    value = yield from _exchange(here, book, arguments, play)
    if not isinstance(value, Failure) and book.returns and not fits(value, book.returns):
        value = Failure(f"{book.name} must return {book.returns}, and returned {json.dumps(value)[:200]}")
    yield from here.leave(f"failed: {value.why}" if isinstance(value, Failure) else "returned")
    return value


def _exchange(here: Here, book: Playbook, arguments: dict[str, Any], play: Any) -> Doing:
    here.world.python_calls += 1
    folder = f".stackmem/python/{here.world.python_calls}"
    answers: list[dict[str, Any]] = []
    while len(answers) <= MOST_CALLS:
        for name, content in (("run.py", RUNNER), ("order.json", _order(here, book, arguments, answers))):
            file = {"path": f"{folder}/{name}", "content": content, "parents": True}
            wrote: ToolAnswer = yield InvokeTool("write_file", file)
            if wrote.failed:
                return Failure(wrote.detail)
        command = f"python3 -u {folder}/run.py {folder}/order.json"
        ran: ToolAnswer = yield InvokeTool("shell", {"command": command}, SECONDS)
        output, said = _read(ran, len(answers))
        if output.strip():
            yield Say(output.strip("\n"))
        if "call" not in said:
            return said["value"] if "value" in said else Failure(said["failed"])
        answers.append((yield from _answer(here, said, play)))
    return Failure(f"{book.name} made over {MOST_CALLS} calls")


def _order(here: Here, book: Playbook, arguments: dict[str, Any], answers: list[dict[str, Any]]) -> str:
    agent = here.agent.agent
    named = [each.name for each in agent.playbooks if not each.python or each.python != book.python]
    others = [each.name for owner, each in here.world.program.all() if owner.name != agent.name and each.public]
    names = list(dict.fromkeys([*named, *others]))
    given = {"source": book.python, "function": book.name, "arguments": arguments, "answers": answers, "names": names}
    return json.dumps({**given, "is_async": False, "defined": []})


def _read(ran: ToolAnswer, answered: int) -> tuple[str, dict[str, Any]]:
    """What the process printed since its last answer, stderr behind it, and what it said last."""
    value = ran.value if isinstance(ran.value, dict) else {}
    said: dict[str, Any] = {}
    parts: list[list[str]] = [[]]
    for line in str(value.get("stdout", "")).split("\n"):
        if not line.startswith(_MARK):
            parts[-1].append(line)
            continue
        try:
            said = json.loads(line.removeprefix(_MARK))
        except ValueError:
            said = {"failed": "its last line is no JSON"}
        if not isinstance(said, dict) or said.get("answered"):
            said = {}
            parts.append([])
    output = "\n".join("\n".join(part).strip("\n") for part in parts[answered:])
    errors = str(value.get("stderr", ""))
    output = "\n".join(text.strip("\n") for text in (output, errors) if text.strip())
    if ran.failed or not {"value", "failed", "call"} & said.keys():
        said = {"failed": shortened(ran.detail or "it ended without a result", _ERROR_CHARS)}
    return output, said


def _answer(here: Here, said: dict[str, Any], play: Any) -> Doing:
    """The playbook that the function calls, made, as it is told."""
    values, named = said.get("values"), said.get("named")
    call = CallTo(
        str(said["call"]),
        tuple(values) if isinstance(values, list) else (),
        tuple(named.items()) if isinstance(named, dict) else (),
    )
    target = find(here.world.program, here.agent.agent.name, call.name)
    given = bound(target, call) if isinstance(target, Target) and target.book else f"there is no playbook {call.name}"
    if isinstance(given, str) or target is None or target.book is None:
        return {"failed": given}
    inner = Here(here.world, here.world.agents[target.agent], here.opened, here.debug)
    made = yield from play(inner, target.book, given)
    return {"failed": made.why} if isinstance(made, Failure) else {"value": made}


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
