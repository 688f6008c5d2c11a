"""``stackmem replay``."""

from __future__ import annotations

from typing import Annotated

import typer

from stackmem.cli.options import flag


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, id, prefix, or 'last'; or a packed run.")],
    step: Annotated[int | None, typer.Option("--step", metavar="N", help="Show one step whole.")] = None,
    frame: Annotated[
        str | None, typer.Option("--frame", metavar="NAME", help="Show the last step of a frame, named by id or name.")
    ] = None,
    play: Annotated[bool, typer.Option("--play", help="Walk through the run as it happened.")] = False,
    speed: Annotated[
        float | None, typer.Option("--speed", metavar="X", help="With --play: X times as fast as it was. Default: 1.")
    ] = None,
    tools: Annotated[
        str | None, typer.Option("--tools", metavar="live", help="Execute the calls again, and compare their results.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="recorded", help="With --from: play again with the recorded replies."),
    ] = None,
    first: Annotated[
        int | None, typer.Option("--from", metavar="N", help="With --tools or --model: begin at this step.")
    ] = None,
    runs_dir: str | None = flag("runs_dir"),
    json: Annotated[bool, typer.Option("--json", help="Print one object on stdout, and nothing else.")] = False,
) -> None:
    """Verify every event and prompt of a run against today's rules, or look at one step, or do it again."""
    from stackmem.cli.screen.replaying import Wanted, kept_or_packed, replay_and_show

    wanted = Wanted(step=step, frame=frame, play=play, speed=speed, tools=tools, model=model, first=first)
    with kept_or_packed(run, runs_dir) as folder:
        replay_and_show(folder, wanted, as_json=json)
