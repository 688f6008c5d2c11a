"""``stackmem models``."""

from __future__ import annotations

import typer

from stackmem.cli.options import JsonArray
from stackmem.cli.screen.text import echo_json
from stackmem.models.catalog import rows
from stackmem.models.registry import kinds
from stackmem.tools.plugins import load_plugins


def command(
    json: JsonArray = False,
) -> None:
    """List the known models with their prices, and the kinds of models there are."""
    load_plugins()
    if json:
        echo_json(rows())
        return
    typer.echo("USD per million tokens; a write to the cache for 5 minutes and for 1 hour, a read from it\n")
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
                f"  x{price.tier_factor:g} above {price.tier_above_tokens:,} tokens of prompt"
                if price.tier_above_tokens
                else ""
            )
        )
    sources = sorted({row.price.source for row in rows() if row.price})
    typer.echo("\n" + "\n".join(f"source: {source}" for source in sources))
    typer.echo(
        f"\nmodels are named {kinds()}; claude-… alone is anthropic/, openai/ is any compatible server "
        "(--base-url), gemini/ Google's, demo a task's own script, sim/ a simulated agent for worlds, human you"
    )
