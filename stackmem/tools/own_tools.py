"""Tools of the person's own: Python functions, and what servers of the Model Context Protocol offer.

Rule 1: a tool comes from the person, from a plug-in she installed, or from a folder she trusts; never from a program.
Rule 2: a tool that fails is an answer; nothing it raises ends a run.
Rule 3: a tool runs in this process, outside the sandbox: it may do what the person may.
Rule 4: a function that takes too long has timed out, and the run goes on; it may still do something after that.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar, overload

from stackmem.core.messages import ToolSpec
from stackmem.core.program_facts import ToolAnswered, ToolFailure
from stackmem.core.text import mark_cut, whole, whole_value
from stackmem.core.tools import CALLS
from stackmem.errors import UsageError

from .bounded_calls import call_within, late_ones_run

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_TAKEN = frozenset({*CALLS, "shell", "make_directory"})
MOST_CHARS = 10_000_000
CALL_SECONDS = 600.0
"""What a call of a function may take, where it says nothing else."""
_DETAIL_CHARS = 2_000
_DEEPEST = 200
_DESCRIPTION_CHARS = 8_000
"""A stranger's description stands in every prompt."""

ToolFunction = Callable[..., Any]
F = TypeVar("F", bound=ToolFunction)


class OwnTool:
    """One tool.

    Attributes:
        parallel: It may run beside others.
        idempotent: It may be called again with the same arguments without harm.
        seconds: Most that a call may take; None where it sees to that itself.
    """

    def __init__(
        self,
        name: str,
        description: str,
        call: Callable[[dict[str, Any]], Any],
        schema: Callable[[], dict[str, Any]],
        *,
        parallel: bool = False,
        idempotent: bool = False,
        seconds: float | None = None,
    ) -> None:
        if seconds is not None and not seconds > 0:
            raise UsageError(f"the tool {name} has {seconds:g} seconds; give it more than 0, or None for no limit")
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} is no name of a tool; it looks like {_NAME.pattern}")
        if name in _TAKEN:
            raise UsageError(f"the tool {name} is built in; give yours another name")
        self.name, self.description = name, description
        self.parallel, self.idempotent, self.seconds = parallel, idempotent, seconds
        self._call, self._schema = call, schema

    @cached_property
    def spec(self) -> ToolSpec:
        """The tool as a model is shown it."""
        schema = json.dumps(whole_value(self._schema()), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        description = mark_cut(" ".join(self.description.split()), _DESCRIPTION_CHARS)
        return ToolSpec(self.name, whole(description), schema)

    def answer(self, arguments: dict[str, Any]) -> ToolAnswered:
        """What the tool came to; whatever it raises is its failure, and what it prints goes to stderr."""
        with PRINTING:
            if self.seconds is None:
                return self._call_safely(arguments)
            try:
                return call_within(self.seconds, lambda: self._call_safely(arguments))
            except TimeoutError:
                detail = f"no answer within {self.seconds:g} s; what it does after that is not waited for"
                return ToolAnswered(None, "timeout", detail)

    def _call_safely(self, arguments: dict[str, Any]) -> ToolAnswered:
        process = os.getpid()
        try:
            with PRINTING.of_tool(True):
                value = self._call(arguments)
        except BadArguments as error:
            return _failure("bad_arguments", error, named=False)
        except ToolFailed as error:
            return _failure("error", error, named=False)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a stranger's function may raise whatever it likes
            return _failure("error", error)
        finally:
            if os.getpid() != process:  # it forked, and its child would go on with the run
                os._exit(0)
        return _as_json(value)

    def text(self, arguments: dict[str, Any]) -> tuple[str, bool]:
        """The answer as an agent reads it, and whether it is a failure."""
        answer = self.answer(arguments)
        if answer.failed:
            return f"{self.name} failed ({answer.failed}): {answer.detail}", True
        reply = answer.value if isinstance(answer.value, str) else json.dumps(answer.value, ensure_ascii=False)
        return reply, False


def _failure(failure: ToolFailure, error: BaseException, *, named: bool = True) -> ToolAnswered:
    try:
        detail = str(error)
    except Exception:  # noqa: BLE001 - a stranger's exception may not even say what it is
        detail = "it does not say why"
    detail = f"{type(error).__name__}: {detail}" if named else detail
    return ToolAnswered(None, failure, whole(mark_cut(detail, _DETAIL_CHARS)))


def _as_json(value: Any) -> ToolAnswered:
    """The answer that a tool's result is, as JSON can hold it."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=_to_jsonable, allow_nan=False)
        if len(text) > MOST_CHARS:
            detail = f"the result has {len(text):,} characters; at most {MOST_CHARS:,}"
            return ToolAnswered(None, "too_large", detail)
        return ToolAnswered(whole_value(json.loads(text), _DEEPEST))
    except Exception as error:  # noqa: BLE001 - a stranger's object is asked what it holds
        return _failure("error", ToolFailed(f"the result is no JSON value ({error})"), named=False)


class _PrintToStderr:
    """Sends to stderr what a tool's thread prints: stdout is the program's, and with ``--json`` the result's.

    It is put in place, and taken away, by who calls a tool: the tool's own thread may be ended anywhere.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._own = threading.local()
        self._routed: _RoutedStdout | None = None  # kept: print() holds no reference of its own to what it prints to

    def __enter__(self) -> None:
        with self._lock:
            self._running += 1
            if not isinstance(sys.stdout, _RoutedStdout):  # somebody may have put another in its place meanwhile
                if self._routed is None or self._routed.stdout is not sys.stdout:
                    self._routed = _RoutedStdout(sys.stdout, self._own)
                sys.stdout = self._routed

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._running -= 1
            # A tool that timed out may print on: what it found stays until a later call ends without one.
            if not self._running and isinstance(sys.stdout, _RoutedStdout) and not late_ones_run():
                sys.stdout = sys.stdout.stdout

    @contextmanager
    def of_tool(self, tool: bool) -> Iterator[None]:
        """Whether what this thread prints within this is a tool's; where the person is asked something, it is not."""
        before, self._own.tool = getattr(self._own, "tool", False), tool
        try:
            yield
        finally:
            self._own.tool = before


class _RoutedStdout:
    """The stdout of all threads but those that run a tool, which have stderr; one of them may never end."""

    def __init__(self, stdout: Any, own: threading.local) -> None:
        self.stdout, self._own = stdout, own

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr if getattr(self._own, "tool", False) else self.stdout, name)


PRINTING = _PrintToStderr()
"""Around every call of a tool."""


class BadArguments(Exception):  # noqa: N818 - an answer, not a crash
    """The arguments do not fit."""


class ToolFailed(Exception):  # noqa: N818 - an answer, not a crash
    """The tool says itself that it failed."""


TOOLS: dict[str, OwnTool] = {}
"""The tools of this process, by name."""


def call_own(name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
    """What an agent reads of a tool's answer, and whether it is a failure."""
    own = TOOLS.get(name)
    return own.text(arguments) if own else (f"the tool {name} is not here any more; do without it", True)


def register(tools: Iterable[OwnTool]) -> None:
    """Add tools.

    Raises:
        UsageError: A name is taken; none is added.
    """
    new = list(tools)
    for place, one in enumerate(new):
        if one.name in TOOLS or any(one.name == other.name for other in new[:place]):
            raise UsageError(f"the tool {one.name} is there already; give yours another name")
    TOOLS.update({one.name: one for one in new})


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    parallel: bool = False,
    idempotent: bool = False,
    seconds: float | None = CALL_SECONDS,
) -> Callable[[F], F]: ...
def tool(
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parallel: bool = False,
    idempotent: bool = False,
    seconds: float | None = CALL_SECONDS,
) -> F | Callable[[F], F]:
    """Make a Python function a tool of agents and programs; the function itself stays as it is.

    Its schema is made from its signature, its description from its docstring, both when they are first asked for.

    Args:
        parallel: It may run beside others.
        idempotent: It may be called again after a crash without harm.
        seconds: Most that a call may take, after which its answer is that it timed out. With None it may take forever,
            and runs in the thread of the run.
    """

    def add(given: F) -> F:
        own = from_function(
            given, name=name, description=description, parallel=parallel, idempotent=idempotent, seconds=seconds
        )
        register([own])
        return given

    return add if function is None else add(function)


def from_function(
    function: ToolFunction,
    *,
    name: str | None,
    description: str | None,
    parallel: bool,
    idempotent: bool,
    seconds: float | None = CALL_SECONDS,
) -> OwnTool:
    """The tool that a function is."""
    checked = _CheckedFunction(function)
    return OwnTool(
        name or function.__name__,
        description if description is not None else (function.__doc__ or ""),
        checked.call,
        checked.schema,
        parallel=parallel,
        idempotent=idempotent,
        seconds=seconds,
    )


class _CheckedFunction:
    """A function whose arguments pydantic checks and converts."""

    def __init__(self, function: ToolFunction) -> None:
        self._function = function

    @cached_property
    def _adapter(self) -> Any:
        from pydantic import TypeAdapter

        made: Any = TypeAdapter
        return made(self._function)

    @cached_property
    def _arguments(self) -> Any:
        """Fits the arguments and calls nothing.

        A thread that stands inside of pydantic's machine code when the process ends aborts it.
        """
        from pydantic_core import SchemaValidator

        made: Any = SchemaValidator
        core: Any = self._adapter.core_schema
        call = core["schema"] if core["type"] == "definitions" else core
        arguments = call["arguments_schema"]
        return made(arguments if call is core else {**core, "schema": arguments})

    def schema(self) -> dict[str, Any]:
        made: dict[str, Any] = self._adapter.json_schema()
        return {"type": "object", "properties": {}, **made} if isinstance(made, dict) else {"type": "object"}

    def call(self, arguments: dict[str, Any]) -> Any:
        from pydantic import ValidationError
        from pydantic_core import ArgsKwargs

        try:
            positional, named = self._arguments.validate_python(ArgsKwargs((), arguments))
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:5])
            raise BadArguments(problems or str(error)) from error
        return self._function(*positional, **named)


def _to_jsonable(value: Any) -> Any:
    """Values that pydantic knows as JSON; a set has no order and is none."""
    from pydantic_core import to_jsonable_python

    if isinstance(value, set | frozenset):
        raise TypeError("a set is no JSON value; return a sorted list")
    return to_jsonable_python(value)
