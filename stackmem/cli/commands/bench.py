"""``stackmem bench``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from stackmem.cli.options import flag


def _own(name: str, says: str, metavar: str | None = None) -> Any:
    return typer.Option(None, name, help=says, show_default=False, metavar=metavar)


def command(
    subjects: Annotated[
        list[str] | None,
        typer.Argument(metavar="TASK|WORLD|SUITE.toml...", help="What is solved; none goes on with the bench in DIR."),
    ] = None,
    output: str | None = typer.Option(None, "-o", "--output", metavar="DIR", help="Where the bench is kept."),
    strategies: list[str] | None = _own("--strategies", "Strategies with commas between, or all.", "NAMES"),
    models: list[str] | None = _own("--models", "Models with commas between.", "NAMES"),
    trials: int | None = _own("--trials", "Trials of each cell: seeds 1 to this. Default: 1."),
    horizon: str | None = _own("--horizon", "Steps of necessary work in a world. Default: 60.", "NUMBERS"),
    noise: str | None = _own("--noise", "Noise in a world's outputs. Default: 1.", "NUMBERS"),
    jobs: int | None = _own("--jobs", "Trials at once. Default: one for each core."),
    engine: str | None = _own("--engine", "local, or dask for more than one machine. Default: local.", "NAME"),
    scheduler: str | None = _own("--scheduler", "A Dask scheduler, like tcp://HOST:8786.", "ADDRESS"),
    concurrency: list[str] | None = _own("--concurrency", "The most trials that ask a provider at once.", "PROVIDER=N"),
    total_usd: float | None = _own("--total-usd", "What the whole bench may cost, in USD. Default: no limit."),
    trial_seconds: float | None = _own("--trial-seconds", "After which a trial is killed. Default: never."),
    retry_errors: bool = typer.Option(False, "--retry-errors", help="Make trials that ended with an error again."),
    price: str | None = _own("--price", "Makes the bill. Default: claude-sonnet-5-5.", "MODEL"),
    latency: float | None = _own("--latency", "Seconds between two requests, in the bill. Default: 10."),
    keep_traces: str | None = _own("--keep-traces", "The runs that stay: all, failed or none. Default: all.", "WHICH"),
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
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what would be done and what it would cost."),
    json: bool = typer.Option(False, "--json", help="Print one object on stdout, and nothing else."),
    quiet: bool = typer.Option(False, "--quiet", help="Show no progress."),
) -> None:
    """Solve tasks under several memory strategies, many times, and put the results in one SQLite file."""
    given = locals()
    from stackmem.cli.screen.benching import Flags, bench_and_show

    settings = {name: value for name, value in given.items() if name in _SETTINGS}
    own = {name: value for name, value in given.items() if name not in _SETTINGS}
    bench_and_show(Flags(**own, settings=settings))


_SETTINGS = (
    "isolation", "network", "max_steps", "max_usd", "max_tokens", "max_seconds", "command_seconds", "prompt", "profile",
    "base_url", "window_tokens", "heap_chars", "heap_chunks", "depth", "fsync",
)  # fmt: skip
