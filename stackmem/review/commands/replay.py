"""``stackmem replay``: verify a run, show one step, play it back, or repeat it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NoReturn

import typer

from stackmem.cli.options import Json, argument, flag, kept_or_packed, option, switch
from stackmem.cli.screen.live import open_screen, stop_at_once
from stackmem.cli.screen.progress import Progress
from stackmem.cli.screen.result import left_out_of_comparison, say_missing
from stackmem.cli.screen.text import echo_json, one_line, readable, say
from stackmem.core.errors import UsageError
from stackmem.core.facts import Event
from stackmem.core.neighbors import neighbor
from stackmem.core.state import State
from stackmem.core.text import quantity
from stackmem.review.replays.live import WorkspaceCall, brief_call, replay_live
from stackmem.review.replays.model import replay_model
from stackmem.review.shown_work import shown_work
from stackmem.review.step_text import step_text
from stackmem.review.step_view import last_step_of, view_step
from stackmem.run.companion.keys import trusted_keys
from stackmem.run.interrupts import Interrupts
from stackmem.run.replays.replay import replay_checks, replay_run
from stackmem.run.run_folder import EXCHANGES
from stackmem.trace.open_run import Run
from stackmem.trace.walk import state_after

_DIFFERS = 6
LONGEST_WAIT_SECONDS = 3.0


def command(
    run: str = argument("RUN", "A run (folder, id, id prefix or 'last'), or a packed run."),
    step: int | None = option("--step", "Show one step in full.", "N"),
    frame: str | None = option("--frame", "Show the last step of the frame with this id or name.", "NAME"),
    play: bool = switch("--play", "Play the run back as it happened."),
    speed: float | None = option("--speed", "With --play: X times the original speed. Default: 1.", "X"),
    tools: str | None = option("--tools", "Execute the tool calls again, and compare the results.", "live"),
    checks: bool = switch(
        "--checks", "Verify, then run the checks on the final files again, and compare the verdicts."
    ),
    signed: bool = switch("--signed", "Also verify that trusted keys signed the whole run."),
    model: str | None = option("--model", "With --from: run again with the recorded replies.", "recorded"),
    first: int | None = option("--from", "With --tools or --model: start at this step.", "N"),
    runs_dir: str | None = flag("runs_dir"),
    json: Json = False,
) -> None:
    """Verify every event and prompt of a run against the current rules, show one step, or run it again."""
    with kept_or_packed(run, runs_dir) as folder:
        _refuse_contradictions(
            step, frame, tools, model, checks=checks, signed=signed, play=play, speed=speed, as_json=json
        )
        _refuse_repeats(tools, model, first)
        if play:
            walk(Run(folder), speed or 1.0)
        elif step is not None or frame is not None:
            _show_step(Run(folder), step, frame, as_json=json)
        elif tools is not None:
            _repeat_calls(Run(folder), first or 1, as_json=json)
        elif checks:
            _judge_again(folder, as_json=json)
        elif model is not None:
            _repeat_replies(Run(folder), first or 1, as_json=json)
        else:
            _verify(folder, signed=signed, as_json=json)


def _refuse_contradictions(
    step: int | None,
    frame: str | None,
    tools: str | None,
    model: str | None,
    *,
    checks: bool,
    signed: bool,
    play: bool,
    speed: float | None,
    as_json: bool,
) -> None:
    wishes = [
        flag
        for flag, is_set in (
            ("--step", step is not None),
            ("--frame", frame is not None),
            ("--play", play),
            ("--tools", tools is not None),
            ("--checks", checks),
            ("--signed", signed),
            ("--model", model is not None),
        )
        if is_set
    ]
    if len(wishes) > 1:
        raise UsageError(f"{' and '.join(wishes)} cannot be combined; pass only one of them")
    if speed is not None and not play:
        raise UsageError("--speed requires --play; add --play, or leave --speed out")
    if speed is not None and not 0 < speed < float("inf"):
        raise UsageError(f"--speed {speed:g} is out of range; use a number above 0, such as 10")
    if play and as_json:
        raise UsageError("--play and --json cannot be combined; for machine-readable output use stackmem export")


def _refuse_repeats(tools: str | None, model: str | None, first: int | None) -> None:
    """Check the values of --tools, --model and --from; the first two take a word so that others can be added later."""
    if tools not in (None, "live"):
        raise UsageError(f"--tools {tools[:40]!a} is not supported; use --tools live")
    if model not in (None, "recorded"):
        raise UsageError(
            f"--model {model[:40]!a} is not supported; use --model recorded, or stackmem fork for another model"
        )
    if model is not None and first is None:
        raise UsageError("--model recorded needs a first step; add --from N")
    if first is not None and tools is None and model is None:
        raise UsageError("--from requires --tools live or --model recorded; add one of them, or leave --from out")
    if first is not None and first < 1:
        raise UsageError(f"--from {first} is not a step; steps are counted from 1")


def _show_step(run: Run, step: int | None, frame: str | None, *, as_json: bool) -> None:
    view = view_step(run, last_step_of(run.frames, frame) if frame is not None else step or 0)
    if as_json:
        echo_json(view)
    else:
        typer.echo(readable(step_text(view)))


def _verify(folder: Path, *, signed: bool, as_json: bool) -> None:
    if (folder / EXCHANGES).is_file() and not signed:
        _verify_gateway(folder, as_json=as_json)
        return
    with shown_work():
        done = replay_run(folder, trusted_keys(os.environ) if signed else None)
    if as_json:
        echo_json(done)
        return
    if done.redacted_of:
        typer.echo(f"redacted copy of {done.redacted_of}")
    typer.echo(f"{done.run}: {quantity(done.events, 'event')} verified, {done.prompts:,} prompts equal")
    if not done.same_rules:
        typer.echo("the run was recorded under different rules: texts and prompt digests were not compared")
    if done.torn_bytes:
        typer.echo(f"ignored the last {done.torn_bytes:,} bytes, which a crash cut short")
    if done.result_is_unread:
        typer.echo("its result.json cannot be read and was not compared; stackmem resume writes it again")
    typer.echo(f"outcome {done.outcome}, step {done.steps}, {quantity(done.frames, 'frame')} pushed")
    if done.parallel:
        typer.echo(f"{quantity(done.parallel, 'parallel frame')} verified, each a run of its own")
    if done.missing_frames:
        typer.echo(f"not verified, because their runs are missing: {', '.join(done.missing_frames)}")
    if done.signed is not None:
        typer.echo(f"signed completely by {one_line(', '.join(done.signed.keys))}")
        for first, last in done.signed.unsigned_ranges:
            typer.echo(
                f"records {first:,} to {last:,} were unsigned when a process continued the run, and were signed then"
            )


def _verify_gateway(folder: Path, *, as_json: bool) -> None:
    """Verify a run of another agent: its trace must follow from the gateway's log."""
    done = neighbor("doors: verify a gateway's run")(folder)
    if as_json:
        echo_json(done)
        return
    typer.echo(f"{done.run}: {quantity(done.facts, 'event')} follow from the gateway's log")
    if done.cuts or done.not_followed:
        typer.echo(f"{done.cuts:,} cuts verified, {done.not_followed:,} cuts cannot be verified")


def walk(run: Run, speed: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """Print every step, with the recorded pauses divided by ``speed`` and limited to 3 s.

    On a terminal, a status line shows the current position; otherwise the lines go to stdout.
    """
    progress = Progress()

    def lines(event: Event, state: State) -> None:
        for line in progress.lines(event, state):
            typer.echo(line)

    live = sys.stdout.isatty() and sys.stderr.isatty()
    screen: AbstractContextManager[Callable[[Event, State], None]]
    screen = open_screen(quiet=False, asks=False) if live else nullcontext(lines)
    state, before = State(), None
    with screen as show:
        for record in run.records():
            if before is not None:
                sleep(min(LONGEST_WAIT_SECONDS, max(0.0, record.at - before) / speed))
            before = record.at
            state = state_after(state, record)
            show(record.event, state)
    if state.end is None:
        typer.echo("the trace ends here, because the run was cut short")


def _repeat_calls(run: Run, first: int, *, as_json: bool) -> NoReturn:
    """Execute the calls again; exit 6 if a result differs."""

    def say_call(effect: WorkspaceCall) -> None:
        say(f"executing {one_line(brief_call(effect))}")

    with Interrupts(stop_at_once) as interrupts:
        try:
            with interrupts.allowed():
                live = replay_live(run, os.environ, first, None if as_json else say_call)
        except KeyboardInterrupt:
            sys.exit(128 + (interrupts.signal or signal.SIGINT))
    if as_json:
        echo_json(live)
    else:
        say_missing(live.missing)
        outcome = f"{quantity(live.calls, 'call')} returned the recorded results, at isolation {live.isolation}"
        if not live.difference and not live.calls:
            typer.echo(f"{live.run}: no workspace tool calls to execute again")
        elif not live.difference:
            typer.echo(f"{live.run}: all {outcome}")
        else:
            typer.echo(f"{live.run}: {outcome}, then one differed:")
            typer.echo(f"step {live.step}, record {live.seq}: {one_line(live.call)}\n{readable(live.difference)}")
        if live.differs_only_in:
            typer.echo(left_out_of_comparison(live.differs_only_in))
    sys.exit(_DIFFERS if live.difference else 0)


def _judge_again(folder: Path, *, as_json: bool) -> NoReturn:
    """Verify the trace and run the checks again; exit 6 if the verdict differs."""
    replay_run(folder)
    rerun = replay_checks(Run(folder), os.environ)
    if as_json:
        echo_json(rerun)
    else:
        say_missing(rerun.missing)
        now = f"{_rewards(rerun.now)}{rerun.error and f' ({one_line(rerun.error)})'}"
        outcome = f"as recorded: {now}" if rerun.equal else f"{now}; recorded: {_rewards(rerun.recorded)}"
        typer.echo(f"{rerun.run}: checks now, at isolation {rerun.isolation}: {outcome}")
    sys.exit(0 if rerun.equal else _DIFFERS)


def _rewards(rewards: dict[str, float]) -> str:
    return one_line(", ".join(f"{name} {value:g}" for name, value in rewards.items())) or "no verdict"


def _repeat_replies(run: Run, first: int, *, as_json: bool) -> NoReturn:
    """Play the recorded replies again; exit 6 if an event differs."""
    with open_screen(quiet=as_json, asks=False) as screen:
        rerun = replay_model(run, os.environ, first, screen, stop_at_once)
    if as_json:
        echo_json(rerun)
    else:
        say_missing(rerun.missing)
        typer.echo(
            f"{rerun.run}: {quantity(rerun.steps, 'step')} from step {rerun.first} on, at isolation {rerun.isolation}: "
            f"{quantity(rerun.equal_facts, 'event')} as recorded, outcome {rerun.outcome} "
            f"(recorded: {rerun.recorded_outcome})"
        )
        if rerun.difference:
            typer.echo(f"first different event, in step {rerun.step}:\n{readable(rerun.difference)}")
        if rerun.differs_only_in:
            typer.echo(left_out_of_comparison(rerun.differs_only_in))
    sys.exit(_DIFFERS if rerun.difference else 0)
