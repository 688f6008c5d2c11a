"""The functions that a Python program calls. In a program this module is called ``stackmem``.

Every function except ``step`` and ``now`` is an effect: stackmem performs it and records its answer. When a run is
resumed, the program runs again from its beginning, and recorded effects return their recorded answers.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


class EffectFailed(Exception):  # noqa: N818 - a program catches it by this name
    """An effect failed. A program may catch it.

    Attributes:
        kind: Such as ``missing``, ``timeout``, ``refused``, ``misfit`` or ``bad_arguments``.
        detail: One sentence about the failure.
        value: The partial answer, if any, such as the text of a reply that does not fit its schema.
    """

    def __init__(self, kind: str, detail: str = "", value: Any = None) -> None:
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind, self.detail, self.value = kind, detail, value


class NotAllowed(RuntimeError):  # noqa: N818 - as for ``EffectFailed``
    """The program did something between effects that a resumed run could not repeat."""


class Finished(NamedTuple):
    """A command that ended."""

    stdout: str
    stderr: str
    exit_code: int


class _Outside:
    """Used when a program's file is imported or run without stackmem."""

    def __getattr__(self, _: str) -> Any:
        raise NotAllowed("effects work only in a program that stackmem runs: stackmem run FILE")


_channel: Any = _Outside()  # replaced by the runner


def step(function: _Function) -> _Function:
    """Mark a function as a step. A call of it is a frame of the run, with the function's name and docstring."""
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise TypeError(f"{function.__name__} is a coroutine or a generator; a step is a plain function")
    intent = (inspect.getdoc(function) or "").partition("\n\n")[0]

    @functools.wraps(function)
    def run(*arguments: Any, **keywords: Any) -> Any:
        _channel.enter(function.__name__, intent, function.__code__.co_firstlineno)
        try:
            value = function(*arguments, **keywords)
        except BaseException as error:
            _channel.leave(function.__name__, None, f"{type(error).__name__}: {error}")
            raise
        _channel.leave(function.__name__, value, "")
        return value

    run.__stackmem_step__ = True  # type: ignore[attr-defined]
    return run  # type: ignore[return-value]


def ask(prompt: str, *, schema: dict[str, Any] | None = None, system: str = "", model: str = "", name: str = "") -> Any:
    """Ask the model once. Returns its text, or with a JSON Schema the value that fits it."""
    return _channel.request("ask", prompt=prompt, schema=schema, system=system, model=model, name=name)


def ask_all(
    prompts: list[str],
    *,
    schema: dict[str, Any] | None = None,
    system: str = "",
    model: str = "",
    name: str = "",
    most: int = 4,
) -> list[Any]:
    """Ask the model several things in parallel, at most ``most`` at a time. Returns the answers in order."""
    options = {"schema": schema, "system": system, "model": model, "name": name}
    answers: list[Any] = _channel.request("ask_all", prompts=list(prompts), most=most, **options)
    return answers


def work(
    task: str,
    *,
    name: str = "work",
    inputs: dict[str, Any] | None = None,
    returns: str = "",
    schema: dict[str, Any] | None = None,
    model: str = "",
) -> Any:
    """Give the coding agent a task in a new frame. Returns its result as text, or as a value of the schema."""
    options = {"returns": returns, "schema": schema, "model": model}
    return _channel.request("work", task=task, name=name, inputs=inputs or {}, **options)


def shell(
    command: str,
    *,
    check: bool = False,
    timeout: float | None = None,
    working_directory: str = "",
    env: dict[str, str] | None = None,
) -> Finished:
    """Run a command in the workspace. With ``check``, an exit code other than 0 raises ``EffectFailed``."""
    options = {"timeout": timeout, "working_directory": working_directory, "env": env or {}}
    ended = Finished(**_channel.request("shell", command=command, **options))
    if check and ended.exit_code != 0:
        detail = f"exit {ended.exit_code}: {(ended.stderr or ended.stdout).strip()[-500:]}"
        raise EffectFailed("exit", detail, ended._asdict())
    return ended


def ask_user(question: str, options: tuple[str, ...] | list[str] = ()) -> str:
    """Ask the user a question. Without an answer the run ends as ``input_needed`` and can be resumed."""
    text: str = _channel.request("ask_user", question=question, options=list(options))
    return text


def say(text: str) -> None:
    """Print a text for the user, like ``print``."""
    _channel.say(f"{text}\n")


def read_file(path: str) -> str:
    """Return the text of a file of the workspace."""
    text: str = _channel.request("read_file", path=str(path))
    return text


def write_file(path: str, content: str) -> None:
    """Write a file of the workspace, with the folders above it."""
    _channel.request("write_file", path=str(path), content=content)


def list_files(path: str = ".") -> list[str]:
    """Return the sorted names in a folder of the workspace. Those of folders end with ``/``."""
    names: list[str] = _channel.request("list_files", path=str(path))
    return names


def keep(name: str, content: str, description: str = "", source: str = "") -> None:
    """Store a chunk on the heap, which the agent's frames see. ``source`` names the file that it describes."""
    _channel.request("keep", name=name, content=content, description=description, source=source)


def recall(name: str) -> str:
    """Return the content of a chunk, including one that the agent stored."""
    content: str = _channel.request("recall", name=name)
    return content


def forget(name: str) -> None:
    """Remove a chunk from the heap."""
    _channel.request("forget", name=name)


def chunks() -> list[dict[str, Any]]:
    """List the heap: one ``{name, characters, description}`` for each chunk."""
    listed: list[dict[str, Any]] = _channel.request("chunks")
    return listed


def conversation() -> list[dict[str, Any]]:
    """Return the conversation of the agent that called this program: one ``{step, reply, results}`` for each reply."""
    steps: list[dict[str, Any]] = _channel.request("conversation")
    return steps


def run_program(path: str, inputs: dict[str, Any] | None = None) -> Any:
    """Run another program, in any language, and return its value. The path is relative to this program."""
    return _channel.request("run_program", path=str(path), inputs=inputs or {})


def call_tool(name: str, arguments: dict[str, Any] | None = None) -> Any:
    """Call one of the user's own tools."""
    return _channel.request("call_tool", name=name, arguments=arguments or {})


def wait(seconds: float) -> None:
    """Wait. A resumed run does not wait again."""
    _channel.request("wait", seconds=float(seconds))


def spent() -> dict[str, Any]:
    """Return what the run has used: ``{usd, seconds}``. ``usd`` is None if no price is known."""
    used: dict[str, Any] = _channel.request("spent")
    return used


def now() -> float:
    """Return the run's clock, in seconds since 1970. It moves with each effect and is the same after a resume."""
    return time.time()
