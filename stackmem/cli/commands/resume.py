"""``stackmem resume``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from stackmem.cli.options import flag

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stackmem.run.resume import ResumeResult
    from stackmem.run.stopped import Stopped


def _limit(word: str) -> Any:
    return typer.Option(
        None, f"--max-{word}", metavar="N|+N", show_default=False,
        help=f"Limit of {word}: N counts from the run's start, +N from the limit it had.",
    )  # fmt: skip


Level = Annotated[
    str | None,
    typer.Option("--isolation", metavar="LEVEL", help="Another isolation level than the run had.", show_default=False),
]
Says = Annotated[
    list[str] | None, typer.Option("--say", metavar="TEXT", help="An answer to a program's question; repeatable.")
]
AnswersFile = Annotated[
    str | None, typer.Option("--answers", metavar="FILE", help="Answers to a program's questions, a YAML list.")
]
Edited = Annotated[
    str | None,
    typer.Option(
        "--program",
        metavar="FILE",
        help="A program edited since: a new run of it, given the recorded answers while it asks the same.",
    ),
]
ModelName = Annotated[
    str | None,
    typer.Option("--model", metavar="NAME", help="The model of a program's run that had none.", show_default=False),
]


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, id, unique prefix of one, or 'last'.")],
    max_steps: str | None = _limit("steps"),
    max_usd: str | None = _limit("usd"),
    max_tokens: str | None = _limit("tokens"),
    max_seconds: str | None = _limit("seconds"),
    isolation: Level = None,
    runs_dir: str | None = flag("runs_dir"),
    json: Annotated[bool, typer.Option("--json", help="Print one result object on stdout, and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    say_: Says = None,
    answers: AnswersFile = None,
    program: Edited = None,
    model: ModelName = None,
    yes: Annotated[bool, typer.Option("--yes", help="Make calls again that may have been made already.")] = False,
) -> None:
    """Go on with a run that was killed, interrupted or ended by a limit."""
    import os
    from pathlib import Path

    from stackmem.cli.finding import run_folder
    from stackmem.cli.screen.solving import say
    from stackmem.tools.mcp_servers import own_servers

    folder = run_folder(run, runs_dir)
    wanted = {
        "max_steps": max_steps, "max_usd": max_usd, "max_tokens": max_tokens, "max_seconds": max_seconds,
        "isolation": isolation, "model": model, **({"yes": "true"} if yes else {}),
    }  # fmt: skip

    def told(stopped: Stopped) -> None:
        if stopped.torn_bytes:
            say(f"the last {stopped.torn_bytes:,} bytes of the trace were cut short by a crash; they are cut off")
        if not quiet:
            say(f"resuming {folder.name} after {_where(stopped)}")

    with own_servers(os.environ, Path.cwd()) as warnings:
        for warning in warnings:
            say(warning)
        if program is not None and model is not None:
            from stackmem.errors import UsageError

            raise UsageError("--model does not go with --program; resume the new run with it, should it need one")

        def play() -> None:
            given = (say_ or [], answers)
            if program is not None:
                from stackmem.cli.screen.continuing import continue_and_show

                continue_and_show(folder, program, wanted, given, as_json=json, quiet=quiet)
            _resume_and_show(folder, wanted, told, given, as_json=json, quiet=quiet)

        from stackmem.cli.screen.repeating import asking

        asking(play, wanted, asks=not json)


def _where(stopped: Stopped) -> str:
    """Where the run goes on; of a program also in which step, and with what."""
    from stackmem.cli.screen.solving import readable
    from stackmem.core.requests import InvokeTool

    program, at = stopped.state.program, f"record {stopped.end.count:,}, step {stopped.state.step:,}"
    if program is None:
        return at
    asked = stopped.program.asked if stopped.program is not None else None
    under_way = f", whose call of {asked.tool} is made again" if isinstance(asked, InvokeTool) else ""
    last = ", at what it asked last" if program.halted is not None else ""
    step = f", in {readable(program.path)}" if program.path else ""
    return f"{at}{step}{under_way}{last}; its variables are those of the recorded answers"


def _resume_and_show(
    folder: Path,
    wanted: dict[str, str | None],
    told: Callable[[Stopped], object],
    answers: tuple[list[str], str | None],
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    import os
    import sys

    from stackmem.cli.screen.live import open_screen, stop_at_once
    from stackmem.cli.screen.running import program_talk, show_program
    from stackmem.run.resume import resume

    talk = program_talk(folder, *answers, as_json=as_json, quiet=quiet)
    if talk is not None:
        shown, person = talk
        resumed = resume(folder, wanted, os.environ, person.observe, stop_at_once, told, person)
        if resumed.program is not None:
            show_program(resumed.program, shown, as_json=as_json)
        _show(resumed, folder.name, as_json=as_json)
        sys.exit(0)
    with open_screen(quiet=quiet, asks=_asks(folder)) as screen:
        resumed = resume(folder, wanted, os.environ, screen, stop_at_once, told)
    _show(resumed, folder.name, as_json=as_json)
    sys.exit(resumed.result.exit_code if resumed.played and resumed.result else 0)


def _asks(folder: Any) -> bool:
    """Whether a person is the model, who needs the screen for herself."""
    from stackmem.errors import TraceError
    from stackmem.run.request import read_request

    try:
        return bool(read_request(folder).flags.get("model") == "human")
    except TraceError:  # said by what needs it more
        return False


def _show(resumed: ResumeResult, run: str, *, as_json: bool) -> None:
    import msgspec

    from stackmem.cli.screen.solving import readable, say, show_result

    result = resumed.result
    if result is not None and result.failure:
        say(f"stackmem: {readable(result.failure)}")
    if as_json:
        told = result if result is not None else {"run": run, "outcome": resumed.outcome, "resumed": False}
        typer.echo(msgspec.json.encode(told).decode())
        return
    if not resumed.played:
        typer.echo(f"nothing to resume: {run} is over ({resumed.outcome})")
    if result is not None:
        show_result(result, folder=bool(resumed.folder), checked=resumed.checked)
