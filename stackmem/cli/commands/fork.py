"""``stackmem fork``."""

from __future__ import annotations

from typing import Annotated

import typer

from stackmem.cli.options import flag


def _limit(word: str) -> str | None:
    made: str | None = typer.Option(
        None, f"--max-{word}", metavar="N|+N", show_default=False,
        help=f"Limit of {word}: N counts from the oldest start, +N from the limit the run had.",
    )  # fmt: skip
    return made


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, id, unique prefix of one, or 'last'.")],
    at: Annotated[
        int, typer.Option("--at", metavar="N", help="The step after which the new run begins; 0: the start.")
    ],
    strategy: str | None = flag("strategy"),
    model: str | None = flag("model"),
    base_url: str | None = flag("base_url"),
    window_tokens: str | None = flag("window_tokens"),
    prompt: str | None = flag("prompt"),
    isolation: str | None = flag("isolation"),
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="heap.NAME=TEXT|@FILE", help="Puts a chunk on the heap; several times for more."),
    ] = None,
    drops: Annotated[
        list[str] | None,
        typer.Option("--drop", metavar="heap.NAME", help="Takes a chunk from the heap; several times for more."),
    ] = None,
    max_steps: str | None = _limit("steps"),
    max_usd: str | None = _limit("usd"),
    max_tokens: str | None = _limit("tokens"),
    max_seconds: str | None = _limit("seconds"),
    runs_dir: str | None = flag("runs_dir"),
    json: Annotated[bool, typer.Option("--json", help="Print one result object on stdout, and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Go on in a new run from where a run stood after a step, with another memory, model or prompt."""
    given = {
        "strategy": strategy, "model": model, "base_url": base_url, "window_tokens": window_tokens, "prompt": prompt,
        "isolation": isolation, "max_steps": max_steps, "max_usd": max_usd, "max_tokens": max_tokens,
        "max_seconds": max_seconds,
    }  # fmt: skip
    from stackmem.cli.finding import run_folder
    from stackmem.cli.screen.forking import fork_and_show

    fork_and_show(run_folder(run, runs_dir), at, given, (sets or [], drops or []), as_json=json, quiet=quiet)
