"""``stackmem solve``."""

from __future__ import annotations

from typing import Annotated

import typer

from stackmem.cli.options import flag


def command(
    subject: Annotated[
        str, typer.Argument(metavar="TASK|DIR", help="A task (folder or name), or a folder of your own.")
    ],
    text: Annotated[str | None, typer.Option("-t", "--text", help="What is to be done in DIR.")] = None,
    model: str | None = flag("model"),
    strategy: str | None = flag("strategy"),
    isolation: str | None = flag("isolation"),
    network: str | None = flag("network"),
    check: str | None = flag("check"),
    include: list[str] | None = flag("include"),
    runs_dir: str | None = flag("runs_dir"),
    sandbox_dir: str | None = flag("sandbox_dir"),
    max_steps: str | None = flag("max_steps"),
    max_usd: str | None = flag("max_usd"),
    max_tokens: str | None = flag("max_tokens"),
    max_seconds: str | None = flag("max_seconds"),
    command_seconds: str | None = flag("command_seconds"),
    prompt: str | None = flag("prompt"),
    profile: str | None = flag("profile"),
    base_url: str | None = flag("base_url"),
    window_tokens: str | None = flag("window_tokens"),
    seed: str | None = flag("seed"),
    heap_chars: str | None = flag("heap_chars"),
    heap_chunks: str | None = flag("heap_chunks"),
    depth: str | None = flag("depth"),
    fsync: str | None = flag("fsync"),
    apply: bool | None = flag("apply"),
    yes: bool | None = flag("yes"),
    json: Annotated[bool, typer.Option("--json", help="Print one result object on stdout, and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Let a model solve a task, or work on a copy of a folder of yours."""
    flags = {name: value for name, value in locals().items() if name not in ("subject", "text", "json", "quiet")}
    from stackmem.cli.screen.solving import solve_and_show

    solve_and_show(subject, text, flags, as_json=json, quiet=quiet)
