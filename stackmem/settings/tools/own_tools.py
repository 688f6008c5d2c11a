"""User-defined tools: Python functions, and tools of MCP servers.

Rule 1: A tool comes from the user, an installed plug-in, or a trusted folder; never from a program.
Rule 2: A tool's failure is an answer; no exception in it ends a run.
Rule 3: A tool runs in this process, outside the sandbox, with all rights of the user.
Rule 4: A function that exceeds its time limit has timed out and the run continues. The function may still have effects
    afterwards.
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

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.core.images import ImageRef
from stackmem.core.messages import ToolSpec
from stackmem.core.program_facts import ToolAnswered, ToolFailure
from stackmem.core.schemas.portable import portable
from stackmem.core.text import mark_cut, whole, whole_value
from stackmem.core.tools import CALLS

from .bounded_calls import call_within, late_ones_run

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_RESERVED = frozenset({*CALLS, "shell", "make_directory"})
MAX_CHARS = 10_000_000
CALL_SECONDS = 600.0
"""Default time limit of a call."""
_DETAIL_CHARS = 2_000
_DEEPEST = 200
_DESCRIPTION_CHARS = 8_000
"""Limit for third-party descriptions, because they are part of every prompt."""

ToolFunction = Callable[..., Any]
F = TypeVar("F", bound=ToolFunction)


class OwnTool:
    """A user-defined tool.

    Attributes:
        parallel: Whether it may run in parallel with others.
        idempotent: Whether repeating a call with the same arguments is harmless.
        seconds: Time limit of a call; None if the tool handles this itself.
        function: The Python function that it calls; None for a tool of a server.
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
        function: ToolFunction | None = None,
    ) -> None:
        if seconds is not None and not seconds > 0:
            raise UsageError(
                f"the tool {name} has a limit of {seconds:g} seconds; use a number above 0, or None for no limit"
            )
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} is not a valid tool name; it must match {_NAME.pattern}")
        if name in _RESERVED:
            raise UsageError(f"the tool {name} is built in; rename yours")
        self.name, self.description = name, description
        self.parallel, self.idempotent, self.seconds = parallel, idempotent, seconds
        self.function = function
        self._call, self._schema = call, schema
        self.pictures: tuple[bytes, ...] = ()  # of the last call

    @cached_property
    def spec(self) -> ToolSpec:
        """The tool specification for models."""
        schema = json.dumps(whole_value(self._schema()), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        description = mark_cut(" ".join(self.description.split()), _DESCRIPTION_CHARS)
        return self._portable(ToolSpec(self.name, whole(description), schema))

    def _portable(self, spec: ToolSpec) -> ToolSpec:
        """Return the specification as every provider accepts it. One that cannot be mended stays as it is."""
        try:
            return portable(spec)[0]
        except ValueError:
            return spec

    def answer(self, arguments: dict[str, Any]) -> ToolAnswered:
        """Call the tool. Exceptions become failures, and its output is redirected to stderr."""
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
            return _failure("bad_arguments", error, with_type=False)
        except ToolFailed as error:
            return _failure("error", error, with_type=False)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - third-party code may raise anything
            return _failure("error", error)
        finally:
            if os.getpid() != process:  # the tool forked, and the child would continue the run
                os._exit(0)
        if isinstance(value, Illustrated):
            self.pictures, value = value.pictures, value.value
        return _as_json(value)

    def text(self, arguments: dict[str, Any]) -> tuple[str, bool]:
        """Return the answer as text for an agent, and whether it is a failure."""
        self.pictures = ()
        answer = self.answer(arguments)
        if answer.failed:
            return f"{self.name} failed ({answer.failed}): {answer.detail}", True
        reply = answer.value if isinstance(answer.value, str) else json.dumps(answer.value, ensure_ascii=False)
        return reply, False


def _failure(failure: ToolFailure, error: BaseException, *, with_type: bool = True) -> ToolAnswered:
    try:
        detail = str(error)
    except Exception:  # noqa: BLE001 - even str() of a third-party exception may fail
        detail = "it does not say why"
    detail = f"{type(error).__name__}: {detail}" if with_type else detail
    return ToolAnswered(None, failure, whole(mark_cut(detail, _DETAIL_CHARS)))


def _as_json(value: Any) -> ToolAnswered:
    """Convert a tool's result to an answer with JSON data."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=_to_jsonable, allow_nan=False)
        if len(text) > MAX_CHARS:
            detail = f"the result has {len(text):,} characters; at most {MAX_CHARS:,}"
            return ToolAnswered(None, "too_large", detail)
        return ToolAnswered(whole_value(json.loads(text), _DEEPEST))
    except Exception as error:  # noqa: BLE001 - third-party objects are converted
        return _failure("error", ToolFailed(f"the result is not a JSON value ({error})"), with_type=False)


class _PrintToStderr:
    """Redirects the output of tool threads to stderr, because stdout belongs to the program, or to the result with
    ``--json``.

    The caller of a tool installs and removes it, because the tool's thread may be aborted at any point.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._own = threading.local()
        self._routed: _RoutedStdout | None = None  # kept alive, because print() keeps no reference to its stream

    def __enter__(self) -> None:
        with self._lock:
            self._running += 1
            if not isinstance(sys.stdout, _RoutedStdout):  # other code may have replaced it
                if self._routed is None or self._routed.stdout is not sys.stdout:
                    self._routed = _RoutedStdout(sys.stdout, self._own)
                sys.stdout = self._routed

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._running -= 1
            # A tool that timed out may still print, so the redirection stays until a later call ends without such a
            # tool.
            if not self._running and isinstance(sys.stdout, _RoutedStdout) and not late_ones_run():
                sys.stdout = sys.stdout.stdout

    @contextmanager
    def of_tool(self, tool: bool) -> Iterator[None]:
        """Set whether output of this thread belongs to a tool. Questions to the user do not."""
        before, self._own.tool = getattr(self._own, "tool", False), tool
        try:
            yield
        finally:
            self._own.tool = before


class _RoutedStdout:
    """A stdout that sends the output of tool threads to stderr. Such a thread may never end."""

    def __init__(self, stdout: Any, own: threading.local) -> None:
        self.stdout, self._own = stdout, own

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr if getattr(self._own, "tool", False) else self.stdout, name)


PRINTING = _PrintToStderr()
"""Wraps every call of a tool."""


class Illustrated(Struct, frozen=True):
    """A result with images, which only an agent gets."""

    value: Any
    pictures: tuple[bytes, ...]


class BadArguments(Exception):  # noqa: N818 - an answer, not a program error
    """The arguments are invalid."""


class ToolFailed(Exception):  # noqa: N818 - an answer, not a program error
    """The tool reports a failure."""


TOOLS: dict[str, OwnTool] = {}
"""The tools of this process, by name."""
NOTES: list[str] = []
"""What was mended in these tools or left out of them, one sentence each; a run records it."""


def call_own(name: str, arguments: dict[str, Any]) -> tuple[str, bool, tuple[bytes | ImageRef, ...]]:
    """Call a tool. Returns its answer as text for an agent, whether it is a failure, and its images."""
    own = TOOLS.get(name)
    return (*own.text(arguments), own.pictures) if own else (f"the tool {name} is not here any more", True, ())


def register(tools: Iterable[OwnTool]) -> None:
    """Add tools. Raise UsageError if a name is taken; then no tool is added."""
    new = list(tools)
    for position, own in enumerate(new):
        if own.name in TOOLS or any(own.name == other.name for other in new[:position]):
            raise UsageError(f"the tool {own.name} already exists; rename yours")
    TOOLS.update({own.name: own for own in new})


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
    """Make a Python function available as a tool for agents and programs. The function itself is unchanged.

    The schema comes from the signature and the description from the docstring, both on first use.

    Args:
        name: Name of the tool; defaults to the function's name.
        description: Description for the model; defaults to the docstring.
        parallel: Whether it may run in parallel with others.
        idempotent: Whether repeating a call after a crash is harmless.
        seconds: Time limit of a call; after it, the answer is a timeout. With None, there is no limit, and the function
            runs in the thread of the run.
    """

    def add(target: F) -> F:
        own = from_function(
            target, name=name, description=description, parallel=parallel, idempotent=idempotent, seconds=seconds
        )
        register([own])
        return target

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
    """Create a tool from a function."""
    checked = _CheckedFunction(function)
    return OwnTool(
        name or function.__name__,
        description if description is not None else (function.__doc__ or ""),
        checked.call,
        checked.schema,
        parallel=parallel,
        idempotent=idempotent,
        seconds=seconds,
        function=function,
    )


class _CheckedFunction:
    """A function whose arguments pydantic validates and converts."""

    def __init__(self, function: ToolFunction) -> None:
        self._function = function

    @cached_property
    def _adapter(self) -> Any:
        from pydantic import TypeAdapter

        adapter: Any = TypeAdapter
        return adapter(self._function)

    @cached_property
    def _arguments(self) -> Any:
        """Validates the arguments without calling the function.

        A thread inside pydantic's machine code when the process ends would abort the process, so the function is called
        from Python.
        """
        from pydantic_core import SchemaValidator

        validator: Any = SchemaValidator
        core: Any = self._adapter.core_schema
        call = core["schema"] if core["type"] == "definitions" else core
        arguments = call["arguments_schema"]
        return validator(arguments if call is core else {**core, "schema": arguments})

    def schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = self._adapter.json_schema()
        return {"type": "object", "properties": {}, **schema} if isinstance(schema, dict) else {"type": "object"}

    def call(self, arguments: dict[str, Any]) -> Any:
        from pydantic import ValidationError
        from pydantic_core import ArgsKwargs

        try:
            positional, keywords = self._arguments.validate_python(ArgsKwargs((), arguments))
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()[:5])
            raise BadArguments(problems or str(error)) from error
        return self._function(*positional, **keywords)


def _to_jsonable(value: Any) -> Any:
    """Convert values that pydantic can represent as JSON. Sets are rejected, because they have no order."""
    from pydantic_core import to_jsonable_python

    if isinstance(value, set | frozenset):
        raise TypeError("a set is not a JSON value; return a sorted list")
    return to_jsonable_python(value)
