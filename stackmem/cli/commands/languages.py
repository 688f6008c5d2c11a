"""``stackmem languages``."""

from __future__ import annotations

from typing import Annotated

import typer

from stackmem.cli.screen.text import echo_json
from stackmem.languages.language import INTERPRETERS
from stackmem.trace.program import open_language


def command(json: Annotated[bool, typer.Option("--json", help="Print a list of objects.")] = False) -> None:
    """List the languages of programs, with their suffixes."""
    languages = [open_language(name) for name in sorted(set(INTERPRETERS.values()))]
    if json:
        rows = [
            {"name": each.name, "says": each.says, "suffixes": each.suffixes, "main": each.main} for each in languages
        ]
        echo_json(rows)
        return
    for each in languages:
        typer.echo(f"{each.name:<12} {', '.join(each.suffixes):<28} {each.says}")
