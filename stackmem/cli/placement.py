"""Rejects options typed before a subcommand, because the group would drop them.

A group such as ``stackmem runs`` also works without a subcommand, and has options for that case. They have no
effect if a subcommand follows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from stackmem.core.errors import UsageError

RESUME = "--resume"
"""The option of ``stackmem chat`` that may lack its value: the user then chooses a conversation."""


def refuse_options_before_subcommands(command: Any) -> None:
    """Change every group in this tree of commands that also works without a subcommand.

    Other groups have options only for their subcommands, and receive them in every call.
    """
    for subcommand in getattr(command, "commands", {}).values():
        refuse_options_before_subcommands(subcommand)
    if getattr(command, "invoke_without_command", False):
        command.resolve_command = partial(_resolve, command.resolve_command)


def _resolve(resolve: Callable[..., Any], ctx: Any, args: list[str]) -> Any:
    """Find the subcommand, as ``resolve`` does. Raise UsageError if options of the group come before the subcommand."""
    name, subcommand, rest = resolve(ctx, args)
    typed = [param for param in ctx.command.params if _is_typed_option(param, ctx)]
    if typed:
        raise UsageError(_refusal(ctx.command_path, name, typed, subcommand))
    return name, subcommand, rest


def _refusal(group: str, name: str, typed: list[Any], subcommand: Any) -> str:
    """Return a message that names the misplaced options and shows the correct order.

    Args:
        group: The group as the user called it: ``stackmem runs``.
        name: The name of the subcommand.
        typed: The group's options that come before the subcommand.
    """
    path = f"{group} {name}"
    accepted = {flag for param in subcommand.params for flag in param.opts}
    movable = [_flag(param) for param in typed if accepted.intersection(param.opts)]
    unknown = [_flag(param) for param in typed if not accepted.intersection(param.opts)]
    wrong = f"{path} does not take {_all(unknown)}" if unknown else f"{_all(movable)} must come after {name!r}"
    order = " ".join([path, *(f"{flag} ..." for flag in movable)])
    return f"{wrong}; {f'type: {order}' if movable else f'see {path} --help'}"


def _is_typed_option(param: Any, ctx: Any) -> bool:
    source = ctx.get_parameter_source(param.name)
    return param.param_type_name == "option" and source is not None and source.name == "COMMANDLINE"


def _flag(param: Any) -> str:
    return str(max(param.opts, key=len))


def _all(flags: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(flags[:-1]), flags[-1])))


def with_choice(arguments: list[str]) -> list[str]:
    """Return the arguments of a command line, with an empty value for a ``--resume`` that has none."""
    if arguments[:1] != ["chat"]:
        return arguments
    follows = [*arguments[1:], "-"]
    return [
        f"{RESUME}=" if word == RESUME and after.startswith("-") else word
        for word, after in zip(arguments, follows, strict=True)
    ]
