"""What ``solve`` prints, before, while and after."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import typer

from stackmem.errors import UsageError
from stackmem.run.prepare import Prepared, prepare
from stackmem.run.result import RunResult
from stackmem.run.run_folder import PATCH, RESULT
from stackmem.run.solve import solve
from stackmem.tools.mcp_servers import own_servers

from .live import open_screen, stop_at_once

_GIB = 1 << 30
_PATCH_SHOWN_BYTES = 60_000
_PATHS_SHOWN = 40


def solve_and_show(subject: str, text: str | None, flags: dict[str, object], *, as_json: bool, quiet: bool) -> None:
    """Solve, show, and exit with the run's code.

    Raises:
        StackmemError: As ``solve`` does.

    """
    with own_servers(os.environ, Path.cwd()) as warnings:
        for warning in warnings:
            say(warning)
        _solve_and_show(subject, text, flags, as_json=as_json, quiet=quiet)


def _solve_and_show(subject: str, text: str | None, flags: dict[str, object], *, as_json: bool, quiet: bool) -> None:
    prepared = prepare(subject, text, flags, os.environ, Path.cwd())
    for warning in prepared.warnings:
        say(warning)
    ask_about_size(prepared, as_json=as_json)
    with open_screen(quiet=quiet, asks=prepared.model == "human") as screen:
        result = solve(prepared, os.environ, screen, stop_at_once)
    if result.failure:
        say(f"stackmem: {readable(result.failure)}")
    if as_json:
        typer.echo(msgspec.json.encode(result).decode())
    else:
        show_result(result, folder=prepared.subject.folder is not None, checked=prepared.checked)
    sys.exit(result.exit_code)


def ask_about_size(prepared: Prepared, *, as_json: bool) -> None:
    copy = prepared.copy
    if copy is None:
        return
    more = f", with {', '.join(copy.folders)}" if copy.folders else ""
    place = readable(str(prepared.subject.folder))
    say(f"working in a copy of {place}: {copy.files:,} files, {copy.bytes / (1 << 20):,.1f} MiB{more}")
    for label, paths in (("left behind", copy.skipped), ("links that lead out of the copy", copy.outside_links)):
        if paths:
            say(f"{label}: {', '.join(paths[:10])}{f' and {len(paths) - 10:,} more' if len(paths) > 10 else ''}")
    if copy.bytes <= _GIB or prepared.resolved.settings.yes:
        return
    if as_json or not sys.stdin.isatty() or not typer.confirm("Copy more than 1 GiB?", err=True):
        raise UsageError(
            f"the copy would hold {copy.bytes / _GIB:.1f} GiB; say --yes to go on, or solve a smaller folder"
        )


def show_result(result: RunResult, *, folder: bool, checked: bool) -> None:
    cost = f"${result.cost_usd:.4f}" if result.cost_usd is not None else "cost unknown"
    tokens = f"{result.usage.total:,} tokens{' (estimated)' if result.usage.estimated else ''}"
    outcome = "finished, not checked" if result.outcome == "finished" and not checked else result.outcome
    ended = "" if result.ending == result.outcome else f" ({result.ending})"
    typer.echo(
        f"{outcome}{ended} in {result.steps} steps, {result.frames} frames pushed, {tokens}, {cost}, "
        f"{result.wall_seconds:.1f} s"
    )
    for label, said in (("result", result.result), ("checks", result.check_error)):
        if said:
            typer.echo(f"{label}: {readable(said)}")
    if result.steps_with_secrets:
        typer.echo(f"warning: replies of steps {result.steps_with_secrets} hold a secret of your environment")
    typer.echo(f"run: {readable(result.run_dir)}")
    if result.ending not in ("popped", "stalled"):
        more = {
            "limit:steps": " --max-steps +50",
            "limit:tokens": " --max-tokens +100_000",
            "limit:usd": " --max-usd +1",
        }
        more["limit:seconds"] = " --max-seconds +600"
        typer.echo(f"go on with: stackmem resume {result.run}{more.get(result.ending, '')}")
    if folder:
        show_patch(result)


def show_patch(result: RunResult) -> None:
    if result.not_kept:
        typer.echo("left out of the patch:")
        for path in result.not_kept:
            typer.echo(f"  {readable(path)}")
    if not result.changed:
        typer.echo("no file changed")
        return
    with (Path(result.run_dir) / PATCH).open("rb") as file:
        raw, left = file.read(_PATCH_SHOWN_BYTES), os.fstat(file.fileno()).st_size - _PATCH_SHOWN_BYTES
    typer.echo(f"\n{readable(raw.decode('utf-8', 'replace'))}")
    if left > 0:
        typer.echo(f"[... {left:,} more bytes in {result.run_dir}/{PATCH} ...]")
    if result.executed_by_host:
        typer.echo("look at these before you use the folder, your machine may run them:")
        for path in result.executed_by_host[:_PATHS_SHOWN]:
            typer.echo(f"  {readable(path)}")
        if len(result.executed_by_host) > _PATHS_SHOWN:
            typer.echo(f"  and {len(result.executed_by_host) - _PATHS_SHOWN:,} more, all in {result.run_dir}/{RESULT}")
    if result.applied_to:
        typer.echo(f"applied to {result.applied_to}")
    else:
        typer.echo(f"apply it with: stackmem apply {result.run}")


def readable(text: str) -> str:
    """Text of a model or a tool that can do nothing to a terminal."""
    if text.isprintable():  # nearly every line, and ten times as quick
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def say(text: str) -> None:
    """A line on stderr, which nobody need read; written directly, as a long program says a hundred thousand."""
    with suppress(OSError):
        if sys.stderr is not None:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
