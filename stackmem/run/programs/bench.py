"""What the built-in tools of programs work with."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from stackmem.history.ignored import IgnoreRules
from stackmem.workspace.workspace import Workspace

from .python_process import PythonCalls

LITERAL_BYTES = 10 * 1024 * 1024
"""``Bench.literal_bytes`` where no setting says otherwise."""


class Bench(Struct):
    """What the tools work with.

    Attributes:
        snapshot: Keeps the workspace as it is now, and names it.
        scrub: Takes secrets out of what becomes a fact.
        rules: A new conversation about what ``.gitignore`` leaves out.
        literal_bytes: Most bytes of a file that is read, and of each of a command's two outputs.
        python: Processes of functions that wait for an answer.

    """

    workspace: Workspace
    snapshot: Callable[[], str]
    scrub: Callable[[str], str]
    command_seconds: float
    rules: Callable[[], IgnoreRules]
    literal_bytes: int = LITERAL_BYTES
    python: PythonCalls = field(default_factory=PythonCalls)
