"""``stackmem languages``."""

from __future__ import annotations

from typing import Annotated

import typer


def command(json: Annotated[bool, typer.Option("--json", help="Print a list of objects.")] = False) -> None:
    """List the languages of programs, with their suffixes."""
    from stackmem.languages.language import INTERPRETERS
    from stackmem.trace.languages import open_language

    languages = [open_language(name) for name in sorted(set(INTERPRETERS.values()))]
    if json:
        import msgspec

        rows = [
            {"name": each.name, "says": each.says, "suffixes": each.suffixes, "main": each.main} for each in languages
        ]
        typer.echo(msgspec.json.encode(rows).decode())
        return
    for each in languages:
        typer.echo(f"{each.name:<12} {', '.join(each.suffixes):<28} {each.says}")
