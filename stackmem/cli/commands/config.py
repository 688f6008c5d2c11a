"""``stackmem config``."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    task: Annotated[str | None, typer.Argument(metavar="TASK", help="Also heed what this task sets.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one array on stdout, and nothing else.")] = False,
) -> None:
    """Show every setting and where its value comes from."""
    import os
    from pathlib import Path

    from stackmem.cli.screen.config_rows import config_json, config_rows, config_text, one_line
    from stackmem.run.prepare import find_subject, task_settings
    from stackmem.settings.settings import resolve
    from stackmem.tools.plugins import load_plugins

    for warning in load_plugins():
        typer.echo(one_line(warning), err=True)
    cwd = Path.cwd()
    own = task_settings(find_subject(task, None, cwd)) if task else {}
    resolved = resolve({}, os.environ, cwd, own)
    rows = config_rows(resolved, os.environ)
    typer.echo(config_json(rows) if json else config_text(rows))
