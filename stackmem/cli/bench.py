"""``stackmem bench``."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import flag


def command(
    subjects: Annotated[
        list[str] | None,
        typer.Argument(metavar="TASK|WORLD|SUITE.toml...", help="What is solved; none goes on with the bench in DIR."),
    ] = None,
    output: Annotated[str, typer.Option("-o", "--output", metavar="DIR", help="Where the bench is kept.")] = "",
    strategies: Annotated[
        list[str] | None, typer.Option("--strategies", metavar="NAMES", help="Strategies with commas between, or all.")
    ] = None,
    models: Annotated[
        list[str] | None, typer.Option("--models", metavar="NAMES", help="Models with commas between.")
    ] = None,
    trials: Annotated[int | None, typer.Option("--trials", help="Trials of each cell: seeds 1 to this.")] = None,
    horizon: Annotated[
        str | None,
        typer.Option("--horizon", metavar="NUMBERS", help="Steps of necessary work in a world. Default: 60."),
    ] = None,
    noise: Annotated[
        str | None, typer.Option("--noise", metavar="NUMBERS", help="Noise in a world's outputs. Default: 1.")
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", help="Trials at once. Default: one for each core.")] = None,
    engine: Annotated[str, typer.Option("--engine", help="local, or dask for more than one machine.")] = "local",
    scheduler: Annotated[
        str | None, typer.Option("--scheduler", metavar="ADDRESS", help="A Dask scheduler, like tcp://HOST:8786.")
    ] = None,
    concurrency: Annotated[
        list[str] | None,
        typer.Option("--concurrency", metavar="PROVIDER=N", help="The most trials that ask a provider at once."),
    ] = None,
    total_usd: Annotated[
        float | None, typer.Option("--total-usd", help="What the whole bench may cost, in USD. Default: no limit.")
    ] = None,
    trial_seconds: Annotated[
        float | None,
        typer.Option("--trial-seconds", help="After which a trial is killed and is a row. Default: never."),
    ] = None,
    price: Annotated[
        str | None, typer.Option("--price", metavar="MODEL", help="Makes the bill. Default: claude-sonnet-5-5.")
    ] = None,
    latency: Annotated[
        float | None, typer.Option("--latency", help="Seconds between two requests, in the bill. Default: 10.")
    ] = None,
    keep_traces: Annotated[
        str | None, typer.Option("--keep-traces", help="The runs that stay: all, failed or none. Default: all.")
    ] = None,
    isolation: str | None = flag("isolation"),
    network: str | None = flag("network"),
    max_steps: str | None = flag("max_steps"),
    max_usd: str | None = flag("max_usd"),
    max_tokens: str | None = flag("max_tokens"),
    max_seconds: str | None = flag("max_seconds"),
    command_seconds: str | None = flag("command_seconds"),
    prompt: str | None = flag("prompt"),
    profile: str | None = flag("profile"),
    base_url: str | None = flag("base_url"),
    window_tokens: str | None = flag("window_tokens"),
    heap_chars: str | None = flag("heap_chars"),
    heap_chunks: str | None = flag("heap_chunks"),
    depth: str | None = flag("depth"),
    fsync: str | None = flag("fsync"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done and what it would cost.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one object on stdout, and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Solve tasks under several memory strategies, many times, and put the results in one SQLite file."""
    given = locals()
    from .benching import Flags, bench_and_show

    settings = {name: given[name] for name in given if name in _SETTINGS}
    own = {name: value for name, value in given.items() if name not in _SETTINGS}
    bench_and_show(Flags(**own, settings=settings))


_SETTINGS = (
    "isolation", "network", "max_steps", "max_usd", "max_tokens", "max_seconds", "command_seconds", "prompt", "profile",
    "base_url", "window_tokens", "heap_chars", "heap_chunks", "depth", "fsync",
)  # fmt: skip
