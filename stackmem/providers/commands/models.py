"""``stackmem models``."""

from __future__ import annotations

from typing import Annotated

import typer

from stackmem.cli.options import JsonArray
from stackmem.cli.screen.text import echo_json
from stackmem.models.catalog import rows
from stackmem.models.local_servers import LOCAL_SERVERS
from stackmem.models.registry import kinds
from stackmem.providers.running_servers import running_servers
from stackmem.run.plugins.loading import load_plugins


def command(
    json: JsonArray = False,
    local: Annotated[
        bool, typer.Option("--local", help="List the model servers on this machine and their models.")
    ] = False,
) -> None:
    """List the known models with their prices, and the forms of model names."""
    load_plugins()
    if local:
        _list_local(json=json)
        return
    if json:
        echo_json(rows())
        return
    typer.echo(
        "USD per million tokens; write5m, write1h and read are cache writes for 5 minutes and 1 hour, and cache reads\n"
    )
    typer.echo(f"{'model':<22}{'window':>10}{'input':>8}{'output':>8}{'write5m':>9}{'write1h':>9}{'read':>8}")
    for row in rows():
        price = row.price
        if price is None:
            typer.echo(f"{row.name:<22}{row.window_tokens:>10,}  price unknown")
            continue
        typer.echo(
            f"{row.name:<22}{row.window_tokens:>10,}{price.input:>8g}{price.output:>8g}{price.cache_write_5m:>9g}"
            f"{price.cache_write_1h:>9g}{price.cache_read:>8g}"
            + (
                f"  x{price.tier_factor:g} above {price.tier_above_tokens:,} prompt tokens"
                if price.tier_above_tokens
                else ""
            )
        )
    sources = sorted({row.price.source for row in rows() if row.price})
    typer.echo("\n" + "\n".join(f"source: {source}" for source in sources))
    typer.echo(
        f"\nforms of model names: {kinds()}; claude-… is short for anthropic/claude-…, openai/ works with any "
        "compatible server (--base-url), gemini/ is Google's, demo is a task's own script, sim/ is a simulated agent "
        "for worlds, human is you at the terminal"
    )


def _list_local(*, json: bool) -> None:
    servers = list(running_servers())
    if json:
        echo_json(
            [
                {"model": f"{server.kind}/{name}", "base_url": server.url, "window_tokens": model.window_tokens}
                for server in servers
                for name, model in server.models.items()
            ]
        )
        return
    for server in servers:
        typer.echo(f"{server.url}")
        for name, model in server.models.items():
            window = f"{model.window_tokens:,} tokens" if model.window_tokens else "window unknown"
            typer.echo(f"  {server.kind}/{name}  {window}")
        if not server.models:
            typer.echo("  (no models listed; load one first)")
    if not servers:
        usual = ", ".join(f"{kind} {port}" for kind, port in LOCAL_SERVERS.items())
        typer.echo(f"No model server found on this machine (ports tried: {usual}).")
        typer.echo("Start one, or pass its address: --model openai/NAME --base-url http://127.0.0.1:PORT/v1")
