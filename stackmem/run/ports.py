"""What the loop needs of the world, as small as it can be said."""

from __future__ import annotations

from typing import Protocol

from stackmem.core.facts import ChecksReturned, ModelFailed, ModelReplied
from stackmem.core.requests import AskModel


class ModelPort(Protocol):
    def reply(self, request: AskModel) -> ModelReplied | ModelFailed:
        """One attempt; a failure of the provider is an answer, never an exception."""


class Returned(Protocol):
    """What a workspace call came to."""

    @property
    def text(self) -> str: ...
    @property
    def failed(self) -> bool: ...
    @property
    def exit_code(self) -> int | None: ...
    @property
    def reason(self) -> str: ...


class WorkspacePort(Protocol):
    """Where the agent works. A model's mistake is a ``Returned``; a sandbox that fails is a ``WorkspaceError``."""

    def read_file(self, path: str, start_line: int | None, end_line: int | None, shown_bytes: int) -> Returned: ...
    def write_file(self, path: str, content: str) -> Returned: ...
    def edit_file(self, path: str, old: str, new: str, *, every: bool) -> Returned: ...
    def search_files(self, pattern: str, path: str, glob: str, context: int, shown_bytes: int) -> Returned: ...
    def list_files(self, path: str, shown_bytes: int) -> Returned: ...
    def run_command(self, command: str, seconds: float, shown_bytes: int) -> Returned: ...
    def digest(self, path: str) -> str: ...


class Checks(Protocol):
    def judge(self) -> ChecksReturned:
        """The verdict on the workspace as it is now; no verdict is one, with its reason."""
