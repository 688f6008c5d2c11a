"""``stackmem man``."""

from __future__ import annotations

import typer

from stackmem.cli.catalog import EXAMPLES, EXIT_CODES, GROUPS
from stackmem.core.version import VERSION


def command() -> None:
    """Print the manual page with all commands, examples and exit codes."""
    lines = [f'.TH STACKMEM 1 "" "stackmem {_roff(VERSION)}"', ".SH NAME"]
    lines += [r"stackmem \- a coding agent that manages its own working memory"]
    lines += [".SH SYNOPSIS", r".B stackmem", r"[\-\-version] [\-\-help] COMMAND [ARGS]..."]
    lines += [".SH DESCRIPTION", r"COMMAND \-\-help lists the options of a command."]
    for group, commands in GROUPS.items():
        lines += [f".SS {group}"]
        for name, says in commands.items():
            lines += [".TP", f".B {_roff(name)}", _roff(says)]
            lines += [line for example in EXAMPLES[name] for line in (".br", _roff(example))]
    lines += [".SH EXIT STATUS", _roff(" ".join(EXIT_CODES.partition(": ")[2].split()))]
    typer.echo("\n".join(lines))


def _roff(text: str) -> str:
    """Escape text so that roff reads nothing as a request, an escape, or a typographic dash or quote."""
    marked = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("~", r"\(ti")
    return rf"\&{marked}" if marked[:1] in (".", "\\") else marked
