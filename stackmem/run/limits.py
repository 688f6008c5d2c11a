"""Limits of a run and of its commands: how users and agents set them, and whether a cost limit can be enforced.

Rule 1: For a resumed run, ``50`` counts from the start of the run and ``+50`` raises the previous limit by 50.
Rule 2: A cost limit requires a model with a known price, or a model that is free.
Rule 3: A default cost limit that cannot be enforced is dropped. If the user chose the limit, it is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from stackmem.core import limits as core_limits
from stackmem.core.budgets import Limits
from stackmem.core.errors import UsageError
from stackmem.core.pricing import Price
from stackmem.core.state import State
from stackmem.core.tools import ListFiles, PopFrame, ReadFile, RunCommand, WriteFile, tool_name
from stackmem.models.local_servers import is_known
from stackmem.models.registry import is_free
from stackmem.settings.option_values import ValuePlace, read_value
from stackmem.settings.options import OPTIONS
from stackmem.settings.settings import Resolved
from stackmem.workspace.outcome import ToolOutcome

from .ports import Returned, WorkspacePort

LIMITS = {limit.setting: limit.field for limit in core_limits.RUN_LIMITS}
"""Maps each setting to the field of ``Limits`` that it fills."""
MORE = {limit.field: limit.increase for limit in core_limits.RUN_LIMITS}
"""Maps each field of ``Limits`` to a reasonable increase, shown in error messages."""
_NOT_FOUND = 127  # the shell's exit code for an unknown command
_TOOL_NAMES = {tool_name(tool) for tool in (ReadFile, WriteFile, ListFiles, PopFrame)}
"""Tools that every strategy offers."""


def first_limits(resolved: Resolved, model: str, price: Price | None) -> Limits:
    """Return the limits of a new run. Raise UsageError if the user chose a cost limit that cannot be enforced."""
    limits = Limits(**{field: getattr(resolved.settings, name) for name, field in LIMITS.items()})
    usd = resolved.value("max_usd")
    return check_usd(limits, model, price, explicit=resolved.is_chosen("max_usd"), source=f"{usd.source}: ")


def later_limits(
    limits: Limits, changes: Mapping[str, str | None], model: str, price: Price | None, *, usd_chosen: bool = True
) -> Limits:
    """Return the limits of a resumed run: ``limits`` updated with ``changes``, whose values are spelled as on the
    command line.

    ``usd_chosen`` says whether the user chose the run's cost limit; otherwise it is the default. Raise UsageError if a
    value is not valid, a limit to raise does not exist, or a cost limit cannot be enforced.
    """
    values = {
        field: _value(name, str(changes[name]), getattr(limits, field), field)
        for name, field in LIMITS.items()
        if changes.get(name) is not None
    }
    now = replace(limits, **values)
    return check_usd(now, model, price, explicit=usd_chosen or values.get("usd") is not None)


def _value(name: str, raw: str, had: float | None, field: str) -> float | None:
    option = OPTIONS[name]
    text = raw.strip()
    source = ValuePlace(option.flag, folder=Path(), home="")
    if not text.startswith("+"):
        number: float | None = read_value(option, text, source)
        return number
    more: Any = read_value(option, text[1:].strip(), source)
    if more is None:
        raise UsageError(f"{option.flag} {text[:20]!a} is not a number; write +N, N, or none for no limit")
    if had is None:
        raise UsageError(
            f"{option.flag} {text[:20]!a} cannot raise the limit, because the run has no limit of {field}; omit it"
        )
    return had + more  # type: ignore[no-any-return]


def check_usd(
    limits: Limits, model: str, price: Price | None, *, explicit: bool, source: str = "", label: str = "the model"
) -> Limits:
    """Return ``limits`` without a cost limit that cannot be enforced for this model.

    ``source`` is the setting of the cost limit, at the start of the message. ``label`` is the name of the model in the
    message. Raise UsageError if the user chose a cost limit that cannot be enforced.
    """
    if limits.usd is None or is_known(price) or is_free(model):
        return limits
    if explicit:
        raise UsageError(
            f"{source}a limit of {limits.usd:g} USD cannot be enforced, because the price of {label} is unknown; "
            "use --max-usd none and --max-tokens"
        )
    return replace(limits, usd=None)


def refuse_spent(state: State, has: str = "the run has") -> None:
    """Raise if a limit is already used up, because the run would end immediately.

    Raise UsageError if the message names the limit and how to raise it.
    """
    ending = core_limits.spent_limit(state)
    if ending is not None:
        word = ending.removeprefix("limit:")
        raise UsageError(f"{has} used up its limit of {word}; raise it, for example --max-{word} {MORE[word]}")


def run_for_agent(
    call: RunCommand, workspace: WorkspacePort, seconds: float, shown_bytes: int, longest: int
) -> Returned:
    """Run a command for ``call.seconds``, or for ``seconds`` if the call does not say.

    ``longest`` is the maximum number of seconds that the agent may request; 0 if it may not request any.
    """
    allowed = float(call.seconds or seconds)
    advice, tool_advice = _after_timeout(allowed, longest), _named_tool(call.command)
    outcome = workspace.run_command(call.command, allowed, shown_bytes - max(len(advice), len(tool_advice)))
    if not isinstance(outcome, ToolOutcome):
        return outcome
    if outcome.exit_code == _NOT_FOUND:
        advice = tool_advice
    elif outcome.reason != "timeout":
        return outcome
    return replace(outcome, text=outcome.text + advice)


def _named_tool(command: str) -> str:
    """Return advice if a command is the name of a tool. Small models write their calls as commands."""
    name, *_ = command.split(maxsplit=1) or [""]
    return f"\n({name} is a tool, not a command; call it directly)" if name in _TOOL_NAMES else ""


def _after_timeout(allowed: float, longest: int) -> str:
    if not longest:
        return ""
    if allowed < longest:
        return f"\n(if it needs more time, run it again with a larger seconds, at most {longest})"
    return f"\n({longest} seconds is the maximum; run a part of it, such as some of the tests)"
