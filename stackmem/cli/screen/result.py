"""Messages before a run starts, and the output of its result."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import typer

from stackmem.core.errors import UsageError
from stackmem.core.text import quantity
from stackmem.run.companion.learning import proposals
from stackmem.run.limits import MORE
from stackmem.run.request import Request
from stackmem.run.result import RunResult
from stackmem.run.run_folder import PATCH, RESULT, open_patch

from .patch_stat import patch_stat, stat_lines
from .text import colored_outcome, readable, say, spell_cost, terminal_width, wrapped

_GIB = 1 << 30
_PATHS_SHOWN = 40


def ask_about_size(request: Request, *, as_json: bool) -> None:
    """Say what a run works on, and ask before making a large copy. Raise UsageError if the user did not agree."""

    def agrees(question: str) -> bool:
        return not as_json and sys.stdin.isatty() and typer.confirm(question, err=True)

    show_copy(request, lambda line: say(wrapped(line)), agrees)


def show_copy(request: Request, say: Callable[[str], object], agrees: Callable[[str], bool]) -> None:
    """Like ``ask_about_size``, with the caller's own output and question."""
    plan, copy = request.copy, request.copied
    if plan is None:
        return
    more = f", with {', '.join(plan.folders)}" if plan.folders else ""
    location = readable(str(request.subject.folder))
    if copy is None:
        say(f"working on an overlay of {location}, which stays unchanged: {quantity(plan.files, 'file')}{more}")
    else:
        say(f"working in a copy of {location}: {quantity(copy.files, 'file')}, {copy.bytes / (1 << 20):,.1f} MiB{more}")
        if copy.lent:
            say(f"available read-only, not copied: {', '.join(copy.lent)}")
        if copy.reason:
            say(f"working on a copy because an overlay is not possible: {readable(copy.reason)}")
    for label, paths in (("not copied", plan.skipped), ("links that point out of the folder", plan.outside_links)):
        if paths:
            say(f"{label}: {', '.join(paths[:10])}{f' and {len(paths) - 10:,} more' if len(paths) > 10 else ''}")
    _agree_to_home(request, agrees)
    if copy is None or copy.bytes <= _GIB or request.resolved.settings.yes:
        return
    if not agrees("Copy more than 1 GiB?"):
        raise UsageError(
            f"the copy would have {copy.bytes / _GIB:.1f} GiB; pass --yes to allow it, or use a smaller folder"
        )


def _agree_to_home(request: Request, agrees: Callable[[str], bool]) -> None:
    """Ask before a model sees a home folder, where people start agents by mistake."""
    folder = readable(str(request.subject.folder))
    if request.shows_home() and not agrees(f"{folder} is a home folder. Show it to the model, without its keys?"):
        raise UsageError(
            f"{folder} is a home folder, with the keys and files of a person; name the project's own "
            "folder, or pass --yes to work here (its keys stay hidden)"
        )


def say_missing(paths: Sequence[str]) -> None:
    """List the dependency folders that are missing from a recreated workspace."""
    if paths:
        say(f"missing from the workspace, because they no longer exist: {', '.join(map(readable, paths))}")


def left_out_of_comparison(kinds: Sequence[str]) -> str:
    """Return the note on differences between two runs that were not compared."""
    return f"differences that were not compared: {', '.join(kinds)}"


def show_result(result: RunResult, *, folder: bool, checked: bool) -> None:
    cost = spell_cost(result.cost_usd, result.usage.total)
    tokens = f"{result.usage.total:,} tokens{' (estimated)' if result.usage.estimated else ''}"
    outcome = "finished, not checked" if result.outcome == "finished" and not checked else result.outcome
    ended = "" if result.ending == result.outcome else f" ({result.ending})"
    typer.echo(
        colored_outcome(
            wrapped(
                f"{outcome}{ended} in {quantity(result.steps, 'step')}, {quantity(result.frames, 'frame')} pushed, "
                f"{tokens}, {cost}, {result.wall_seconds:.1f} s"
            )
        )
    )
    for label, text in (("result", result.result), ("checks", result.check_error)):
        if text:
            typer.echo(wrapped(f"{label}: {readable(text)}"))
    if result.steps_with_secrets:
        typer.echo(f"warning: replies of steps {result.steps_with_secrets} contain a secret from your environment")
    say_unsigned(result)
    typer.echo(f"run: {_run_folder(result)}")
    if result.ending != "popped" and (result.ending != "stalled" or result.failure):
        field = result.ending.removeprefix("limit:")
        more = f" --max-{field} {MORE[field]}" if field in MORE else ""
        typer.echo(wrapped(f"continue with: stackmem resume {result.run}{more}", "  "))
    if folder:
        show_patch(result)
        if programs := proposals(Path(result.run_dir)):
            typer.echo(f"proposed programs: {', '.join(programs)}; keep one: stackmem learn {result.run} {programs[0]}")


def _run_folder(result: RunResult) -> str:
    """Return the run's folder, or its id if the folder does not fit on the terminal. Commands take both."""
    width, folder = terminal_width(), readable(result.run_dir)
    return folder if width is None or len(f"run: {folder}") <= width else readable(result.run)


def say_unsigned(result: RunResult) -> None:
    if result.unsigned:
        say(f"the run is not signed: {readable(result.unsigned)}")


def say_kept(result: RunResult) -> None:
    """List the chunks and files that an early-ended run leaves behind."""
    for label, names in (("chunks", result.chunks), ("files", result.changed)):
        if names:
            more = f" and {len(names) - _PATHS_SHOWN:,} more" if len(names) > _PATHS_SHOWN else ""
            say(f"{label} kept: {', '.join(map(readable, names[:_PATHS_SHOWN]))}{more}")


def show_patch(result: RunResult) -> None:
    if result.history:
        typer.echo(f"git: the run could read {result.history} of the folder")
    if result.commits:
        typer.echo("commits by the agent, which stay in its copy; the patch contains their changes:")
        for commit in result.commits:
            typer.echo(f"  {readable(commit)}")
    if result.not_kept:
        typer.echo("not in the patch:")
        for path in result.not_kept:
            typer.echo(f"  {readable(path)}")
    if result.changed_meanwhile:
        names = ", ".join(map(readable, result.changed_meanwhile[:_PATHS_SHOWN]))
        more = len(result.changed_meanwhile) - _PATHS_SHOWN
        typer.echo(f"changed in your folder while the run worked: {names}{f' and {more:,} more' if more > 0 else ''}")
    if not result.changed:
        typer.echo("no files changed")
        return
    folder = Path(result.run_dir)
    with open_patch(folder) as file:
        lines = stat_lines(patch_stat(file), shutil.get_terminal_size().columns)
    typer.echo("\n" + "\n".join(map(readable, lines)))
    typer.echo(f"the whole patch: {readable(str(folder / PATCH))}")
    if result.executed_by_host:
        typer.echo("check these before you use the folder, because your machine may execute them:")
        for path in result.executed_by_host[:_PATHS_SHOWN]:
            typer.echo(f"  {readable(path)}")
        if len(result.executed_by_host) > _PATHS_SHOWN:
            typer.echo(f"  and {len(result.executed_by_host) - _PATHS_SHOWN:,} more, all in {result.run_dir}/{RESULT}")
    if result.applied_to:
        typer.echo(f"applied to {result.applied_to}")
    else:
        typer.echo(f"apply it with: stackmem apply {result.run}")
