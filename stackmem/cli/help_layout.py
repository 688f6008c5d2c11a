"""The layout of a command's ``--help``: its examples first, then its common options, then the rare ones in groups."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

OPTION_GROUPS = {
    "Your folder": ("check_files", "include", "git", "instructions", "skills", "programs", "learn", "layer"),
    "The model": (
        "base_url", "window_tokens", "size", "price", "temperature", "effort", "service_tier", "headers", "seed",
        "text_calls", "vision", "call_schema", "prompt",
    ),
    "Memory and limits": (
        "extra_tools", "heap", "heap_chars", "heap_chunks", "depth", "checkpoints", "read_calls", "parallel_frames",
        "upkeep", "max_tokens", "max_seconds", "command_seconds", "literal_mib",
    ),
    "Programs": (
        "inputs", "mount", "language", "config", "entry", "lib", "answers", "non_interactive", "snoop", "full",
    ),
    "Trials": (
        "engine", "scheduler", "concurrency", "trial_seconds", "retry_errors", "latency", "pause",
        "keep_traces", "archive", "repeat",
    ),
    "Sandbox and output": (
        "network", "allow", "credentials", "profile", "runs_dir", "sandbox_dir", "otel", "fsync",
    ),
}  # fmt: skip
"""Rare options by the heading of their group, as in docs/cli.md; all others are common."""

_GROUPED_FROM = 16
"""Number of options from which a help is grouped; shorter ones fit on a screen."""


def lay_out(command: Any, examples: Sequence[str]) -> None:
    """Make ``--help`` of a command show these examples first, and group its options if there are many."""
    command.format_help_text = partial(_write_text, command.format_help_text, examples)
    command.format_options = partial(_write_options, command)


def _write_text(write: Any, examples: Sequence[str], ctx: Any, formatter: Any) -> None:
    write(ctx, formatter)
    with formatter.section("Examples"):
        for example in examples:
            # written as it is: a wrapped command could not be copied
            formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


def _write_options(command: Any, ctx: Any, formatter: Any) -> None:
    parameters = [(parameter, parameter.get_help_record(ctx)) for parameter in command.get_params(ctx)]
    pairs = [(parameter, record) for parameter, record in parameters if record is not None]
    arguments = [record for parameter, record in pairs if parameter.param_type_name == "argument"]
    options = {parameter.name: record for parameter, record in pairs if parameter.param_type_name == "option"}
    _write_section(formatter, "Arguments", arguments)
    groups: dict[str, list[Any]] = {}
    if len(options) >= _GROUPED_FROM:
        for heading, names in OPTION_GROUPS.items():
            groups[heading] = [options.pop(name) for name in names if name in options]
    _write_section(formatter, "Options", list(options.values()))
    for heading, records in groups.items():
        _write_section(formatter, heading, records)
    if hasattr(command, "format_commands"):
        command.format_commands(ctx, formatter)


def _write_section(formatter: Any, heading: str, records: list[Any]) -> None:
    if records:
        with formatter.section(heading):
            formatter.write_dl(records)
