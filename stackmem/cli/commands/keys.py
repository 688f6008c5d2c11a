"""``stackmem keys``: this machine's signing key, and other people's trusted keys."""

from __future__ import annotations

import os

import typer

from stackmem.cli.options import Json, argument
from stackmem.cli.screen.text import echo_json, one_line
from stackmem.settings.keys import signing_key, trust_key, trusted_keys

app = typer.Typer(help="The keys that sign runs: this machine's own, and those you trust.", no_args_is_help=True)

_KEY = argument("KEY", "The key, as stackmem keys export prints it.")


@app.command("list", short_help="List the keys whose signatures count here.")
def list_command(json: Json = False) -> None:
    """List the keys whose signatures count here; this machine's own is made with its first run."""
    keys = trusted_keys(os.environ)
    if json:
        echo_json([{"key": key, "name": name} for key, name in keys.items()])
        return
    typer.echo("\n".join(f"{key} {one_line(name)}" for key, name in keys.items()) or "no key yet")


@app.command("export", short_help="Print this machine's public key.")
def export_command() -> None:
    """Print this machine's public key, for people who should trust its runs."""
    typer.echo(signing_key(os.environ).public)


@app.command("trust", short_help="Trust a key.")
def trust_command(key: str = _KEY, name: str = argument("NAME", "Whose it is.")) -> None:
    """Trust runs that a key signed; get it from its owner by a way that nobody else can change."""
    trust_key(os.environ, key, name)
    typer.echo(f"{key} is trusted as {one_line(name)}")


@app.command("distrust", short_help="Trust a key no more.")
def distrust_command(key: str = _KEY) -> None:
    """Trust runs that a key signed no more."""
    trust_key(os.environ, key, None)
    typer.echo(f"{key} is trusted no more")
