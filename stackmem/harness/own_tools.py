"""Tools of the person's own: Python functions, and what servers of the Model Context Protocol offer.

Rule 1: a tool comes from the person, from a plug-in she installed, or from a folder she trusts; never from a program.
Rule 2: a tool that fails is an answer; nothing it raises ends a run.
Rule 3: a tool runs in this process, outside the sandbox: it may do what the person may.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, TypeVar, overload

from stackmem.core.messages import ToolSpec
from stackmem.core.program_events import ToolAnswered
from stackmem.errors import UsageError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_TAKEN = frozenset({
    "read_file", "write_file", "list_files", "run_command", "shell", "make_directory", "push_frame", "pop_frame",
    "heap_alloc", "heap_read", "heap_write", "heap_free", "heap_list", "add_note", "expand", "memory", "delegate",
    "branch", "return",
})  # fmt: skip
MOST_CHARS = 10_000_000

Called = Callable[..., Any]
F = TypeVar("F", bound=Called)


class OwnTool:
    """One tool.

    Attributes:
        parallel: It may run beside others.
        idempotent: It may be called again with the same arguments without harm.

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
    ) -> None:
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} is no name of a tool; it looks like {_NAME.pattern}")
        if name in _TAKEN:
            raise UsageError(f"the tool {name} is built in; give yours another name")
        self.name, self.description = name, description
        self.parallel, self.idempotent = parallel, idempotent
        self._call, self._schema = call, schema

    @cached_property
    def spec(self) -> ToolSpec:
        """The tool as a model is shown it."""
        schema = json.dumps(self._schema(), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return ToolSpec(self.name, " ".join(self.description.split()), schema)

    def answer(self, arguments: dict[str, Any]) -> ToolAnswered:
        """What the tool came to; whatever it raises is its failure."""
        try:
            value = self._call(arguments)
        except BadArguments as error:
            return ToolAnswered(None, "bad_arguments", str(error))
        except ToolFailed as error:
            return ToolAnswered(None, "error", str(error))
        except Exception as error:  # noqa: BLE001 - a stranger's function may raise whatever it likes
            return ToolAnswered(None, "error", f"{type(error).__name__}: {error}"[:2_000])
        try:
            text = json.dumps(value, ensure_ascii=False, default=_plain, allow_nan=False)
            if len(text) > MOST_CHARS:
                return ToolAnswered(
                    None, "too_large", f"the result has {len(text):,} characters; at most {MOST_CHARS:,}"
                )
            return ToolAnswered(json.loads(text))
        except (ValueError, TypeError, RecursionError) as error:
            return ToolAnswered(None, "error", f"the result is no JSON value ({error})")

    def text(self, arguments: dict[str, Any]) -> tuple[str, bool]:
        """The answer as an agent reads it, and whether it is a failure."""
        answer = self.answer(arguments)
        if answer.failed:
            return f"{self.name} failed ({answer.failed}): {answer.detail}", True
        told = answer.value if isinstance(answer.value, str) else json.dumps(answer.value, ensure_ascii=False)
        return told, False


class BadArguments(Exception):  # noqa: N818 - an answer, not a crash
    """The arguments do not fit."""


class ToolFailed(Exception):  # noqa: N818 - an answer, not a crash
    """The tool says itself that it failed."""


TOOLS: dict[str, OwnTool] = {}
"""The tools of this process, by name."""


def call_own(name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
    """What an agent reads of a tool's answer, and whether it is a failure."""
    found = TOOLS.get(name)
    return found.text(arguments) if found else (f"the tool {name} is not here any more; do without it", True)


def register(tools: Iterable[OwnTool]) -> None:
    """Add tools.

    Raises:
        UsageError: A name is taken; none is added.

    """
    new = list(tools)
    for one in new:
        if one.name in TOOLS:
            raise UsageError(f"the tool {one.name} is there already; give yours another name")
    TOOLS.update({one.name: one for one in new})


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, parallel: bool = False, idempotent: bool = False
) -> Callable[[F], F]: ...
def tool(
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parallel: bool = False,
    idempotent: bool = False,
) -> F | Callable[[F], F]:
    """Make a Python function a tool of agents and programs; the function itself stays as it is.

    Its schema is made from its signature, its description from its docstring, both when they are first asked for.

    Args:
        parallel: It may run beside others.
        idempotent: It may be called again after a crash without harm.

    """

    def add(given: F) -> F:
        own = from_function(given, name=name, description=description, parallel=parallel, idempotent=idempotent)
        register([own])
        return given

    return add if function is None else add(function)


def from_function(
    function: Called, *, name: str | None, description: str | None, parallel: bool, idempotent: bool
) -> OwnTool:
    """The tool that a function is."""
    fitted = _Fitted(function)
    return OwnTool(
        name or function.__name__,
        description if description is not None else (function.__doc__ or ""),
        fitted.call,
        fitted.schema,
        parallel=parallel,
        idempotent=idempotent,
    )


class _Fitted:
    """A function whose arguments pydantic checks and converts."""

    def __init__(self, function: Called) -> None:
        self._function = function

    @cached_property
    def _adapter(self) -> Any:
        from pydantic import TypeAdapter

        made: Any = TypeAdapter
        return made(self._function)

    def schema(self) -> dict[str, Any]:
        found: dict[str, Any] = self._adapter.json_schema()
        return {"type": "object", "properties": {}, **found} if isinstance(found, dict) else {"type": "object"}

    def call(self, arguments: dict[str, Any]) -> Any:
        from pydantic import ValidationError
        from pydantic_core import ArgsKwargs

        try:
            return self._adapter.validate_python(ArgsKwargs((), arguments))
        except ValidationError as error:
            told = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:5])
            raise BadArguments(told or str(error)) from error


def _plain(value: Any) -> Any:
    """Values that pydantic knows as JSON; a set has no order and is none."""
    from pydantic_core import to_jsonable_python

    if isinstance(value, set | frozenset):
        raise TypeError("a set is no JSON value; return a sorted list")
    return to_jsonable_python(value)
