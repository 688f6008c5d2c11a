"""A kept request prepared again, to go on from it under other conditions; nothing of today's settings counts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stackmem.errors import UsageError
from stackmem.settings.directories import sandbox_dir
from stackmem.settings.options import OPTIONS
from stackmem.settings.settings import Resolved, Settings, Value

from .prepare import Prepared
from .request import Request
from .subject import Subject, find_subject

_PATHS = ("prompt", "profile", "runs_dir", "sandbox_dir")


def prepare_again(request: Request, runs_dir: Path, changes: Mapping[str, Any], environ: Mapping[str, str]) -> Prepared:
    """The request with ``changes`` over its flags; values are as the settings hold them.

    Raises:
        UsageError: Its task is gone, or the sandbox directory cannot be written.

    """
    cwd = Path(request.cwd)
    given = {**request.flags, **changes, "apply": False, "include": ()}
    for name in _PATHS:
        if given.get(name) is not None:
            given[name] = Path(str(given[name]))
    values = tuple(
        Value(name, given.get(name, option.default), "the run's request", "flag" if name in given else "default")
        for name, option in OPTIONS.items()
    )
    settings = Settings(**{value.name: value.value for value in values})
    model = str(given.get("model") or "demo")
    kind, colon, script = model.partition(":")
    if colon and kind == "script":
        model = f"script:{cwd / script}"
    place = Path(request.workspace).parent.parent
    if not place.is_dir():
        place = sandbox_dir(settings, cwd, environ)
    return Prepared(_subject(request, cwd), Resolved(settings, values), cwd, (runs_dir, place), model, None, ())


def _subject(request: Request, cwd: Path) -> Subject:
    if request.text is None and not (Path(request.subject) / "task.toml").is_file():
        raise UsageError(
            f"the task of the run is gone from {request.subject}; bring it back, as its checks judge what is made"
        )
    return find_subject(request.subject, request.text, cwd)
