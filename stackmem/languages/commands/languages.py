"""The ``stackmem languages`` command."""

from __future__ import annotations

import typer

from stackmem.cli.options import switch
from stackmem.cli.screen.text import echo_json
from stackmem.languages.language import INTERPRETERS
from stackmem.languages.running.opening import open_language


def command(json: bool = switch("--json", "Print a list of objects.")) -> None:
    """List the program languages and their file suffixes."""
    languages = [open_language(name) for name in sorted(set(INTERPRETERS.values()))]
    if json:
        rows = [{"name": each.name, "says": each.says, "suffixes": each.suffixes} for each in languages]
        echo_json([{**row, "main": f"main{row['suffixes'][0]}"} for row in rows])
        return
    for each in languages:
        typer.echo(f"{each.name:<12} {', '.join(each.suffixes):<28} {each.says}")
