"""The flags that several commands share, from the table of settings."""

from __future__ import annotations

from typing import Any

import typer

from stackmem.settings.options import OPTIONS


def flag(name: str) -> Any:
    """The typer option of a setting; None where it is not given, so that other sources may speak."""
    option = OPTIONS[name]
    if option.kind == "switch":
        return typer.Option(None, f"{option.flag}/--no-{option.flag[2:]}", help=option.help_text, show_default=False)
    return typer.Option(None, option.flag, help=option.help_text, show_default=False, metavar=option.kind.upper())
