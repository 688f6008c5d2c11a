"""``stackmem keys``: this machine's signing key, and other people's trusted keys."""

from __future__ import annotations

import os

import typer

from stackmem.cli.options import Json, argument
from stackmem.cli.screen.text import echo_json, one_line
from stackmem.run.companion.keys import signing_key, trust_key, trusted_keys

app = typer.Typer(help="Manage the keys that sign runs: this machine's own and those you trust.", no_args_is_help=True)

_KEY = argument("KEY", "The key, as printed by stackmem keys export.")


@app.command("list", short_help="List the trusted keys.")
def list_command(json: Json = False) -> None:
    """List the trusted keys. This machine's own key is created by its first run."""
    keys = trusted_keys(os.environ)
    if json:
        echo_json([{"key": key, "name": name} for key, name in keys.items()])
        return
    typer.echo("\n".join(f"{key} {one_line(name)}" for key, name in keys.items()) or "no keys yet")


@app.command("export", short_help="Print this machine's public key.")
def export_command() -> None:
    """Print this machine's public key, for people who want to trust its runs."""
    typer.echo(signing_key(os.environ).public)


@app.command("trust", short_help="Trust a key.")
def trust_command(key: str = _KEY, name: str = argument("NAME", "The name of the key's owner.")) -> None:
    """Trust runs signed with a key. Get the key from its owner over a channel that others cannot change."""
    trust_key(os.environ, key, name)
    typer.echo(f"{key} is trusted as {one_line(name)}")


@app.command("distrust", short_help="Stop trusting a key.")
def distrust_command(key: str = _KEY) -> None:
    """Stop trusting runs signed with a key."""
    trust_key(os.environ, key, None)
    typer.echo(f"{key} is no longer trusted")
