"""What ``replay`` prints."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import typer
from msgspec import Struct

from stackmem.cli.finding import run_folder
from stackmem.errors import UsageError
from stackmem.replays.replay import replay_run
from stackmem.tools.plugins import load_plugins
from stackmem.trace.open_run import Run
from stackmem.trace.pack import unpack
from stackmem.trace.step_view import last_step_of, view_step

from .solving import readable
from .step_text import step_text
from .walk import walk


@contextmanager
def kept_or_packed(named: str, runs_dir: str | None) -> Iterator[Path]:
    """The folder of a run, or of one in an archive that ``trace pack`` made, unpacked for as long as it is looked at.

    Raises:
        UsageError: No run is named so, or the archive is none.

    """
    path = Path(os.path.expanduser(named))  # noqa: PTH111 - a name like ~nobody is no error here  # noqa: PTH111 - a name like ~nobody is no error here
    if path.suffix == ".zip" and path.is_file():
        load_plugins()  # the run's strategy may be one of theirs
        with TemporaryDirectory(prefix="stackmem-") as place:
            yield unpack(path, Path(place))
        return
    yield run_folder(named, runs_dir)


class Wanted(Struct, frozen=True):
    """The flags of ``replay``; at most one of step, frame, play, tools and model."""

    step: int | None = None
    frame: str | None = None
    play: bool = False
    speed: float | None = None
    tools: str | None = None
    model: str | None = None
    first: int | None = None


def replay_and_show(folder: Path, wanted: Wanted, *, as_json: bool) -> None:
    """Show what is wanted of a run; without any wish, verify it.

    Raises:
        UsageError: The wishes exclude each other, or name what the run has not.
        TraceError: The trace is broken.
        RulesDiffer: Today's rules derive something else.

    """
    _refuse_contradictions(wanted, as_json=as_json)
    if wanted.play:
        walk(Run(folder), wanted.speed or 1.0)
    elif wanted.step is not None or wanted.frame is not None:
        _show_step(Run(folder), wanted, as_json=as_json)
    elif wanted.tools is not None or wanted.model is not None:
        from .rerunning import rerun_and_show

        rerun_and_show(Run(folder), wanted.first or 1, tools=wanted.tools is not None, as_json=as_json)
    else:
        _verify(folder, as_json=as_json)


def _refuse_contradictions(wanted: Wanted, *, as_json: bool) -> None:
    asked = [
        flag
        for flag, given in (
            ("--step", wanted.step is not None),
            ("--frame", wanted.frame is not None),
            ("--play", wanted.play),
            ("--tools", wanted.tools is not None),
            ("--model", wanted.model is not None),
        )
        if given
    ]
    if len(asked) > 1:
        raise UsageError(f"{' and '.join(asked)} exclude each other; give one of them")
    if wanted.speed is not None and not wanted.play:
        raise UsageError("--speed goes with --play; add it, or leave --speed out")
    if wanted.speed is not None and not 0 < wanted.speed < float("inf"):
        raise UsageError(f"--speed is {wanted.speed:g}; write a number above 0, such as 10")
    _refuse_again(wanted)
    if wanted.play and as_json:
        raise UsageError("--play and --json exclude each other; stackmem export writes all of a run for programs")


def _refuse_again(wanted: Wanted) -> None:
    """What is done again is named by a word, so that there is room for others."""
    if wanted.tools not in (None, "live"):
        raise UsageError(f"--tools {wanted.tools[:40]!a} is nothing that can be done; write --tools live")
    if wanted.model not in (None, "recorded"):
        raise UsageError(
            f"--model {wanted.model[:40]!a} cannot replay; write --model recorded, or see stackmem fork for another one"
        )
    if wanted.model is not None and wanted.first is None:
        raise UsageError("--model recorded begins at a step; add --from N")
    if wanted.first is not None and wanted.tools is None and wanted.model is None:
        raise UsageError("--from goes with --tools live or --model recorded; add one of them, or leave --from out")
    if wanted.first is not None and wanted.first < 1:
        raise UsageError(f"--from {wanted.first} is no step; steps are counted from 1")


def _show_step(run: Run, wanted: Wanted, *, as_json: bool) -> None:
    step = wanted.step
    if wanted.frame is not None:
        step = last_step_of(run.frames, wanted.frame)
    view = view_step(run, step or 0)
    typer.echo(msgspec.json.encode(view).decode() if as_json else readable(step_text(view)))


def _verify(folder: Path, *, as_json: bool) -> None:
    found = replay_run(folder)
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
        return
    if found.redacted_of:
        typer.echo(f"redacted copy of {found.redacted_of}")
    typer.echo(f"{found.run}: {found.events:,} events follow from the rules, {found.prompts:,} prompts are equal")
    if not found.same_rules:
        typer.echo("the run was made under other rules: wording and prompt digests were not compared")
    if found.torn_bytes:
        typer.echo(f"its last {found.torn_bytes:,} bytes were cut short by a crash and are no part of the trace")
    typer.echo(f"outcome {found.outcome}, step {found.steps}, {found.frames} frames pushed")
