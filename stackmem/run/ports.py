"""The minimal interfaces that the loop needs from the outside world."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct, UnsetType

from stackmem.core.facts import ChecksReturned, Event, ModelFailed, ModelReplied
from stackmem.core.images import Images
from stackmem.core.neighbors import neighbor
from stackmem.core.network import NetworkRequest, SearchBill
from stackmem.core.person_facts import (
    PersonAccepted,
    PersonAttached,
    PersonCompacted,
    PersonDecided,
    PersonPlanned,
    PersonSteppedIn,
    PersonStopped,
)
from stackmem.core.requests import AskModel, AskPermission, AskUser, MergeFrames, RunFrames
from stackmem.core.state import State
from stackmem.trace.record import Record


class Clock(Struct, frozen=True):
    """Time source of a run. All values are in seconds."""

    elapsed: Callable[[], float] = time.monotonic  # monotonic time with an arbitrary origin
    # time since 1970 according to the system clock, which can jump in either direction
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep  # blocks for the given time


class ModelPort(Protocol):
    def reply(self, request: AskModel) -> ModelReplied | ModelFailed:
        """Send one request. A provider failure is returned as a ``ModelFailed``, never raised."""


class Returned(Protocol):
    """Result of a workspace call."""

    @property
    def text(self) -> str: ...
    @property
    def failed(self) -> bool: ...
    @property
    def exit_code(self) -> int | None: ...
    @property
    def reason(self) -> str: ...
    @property
    def requests(self) -> tuple[NetworkRequest, ...]: ...
    @property
    def images(self) -> Images: ...
    @property
    def search(self) -> SearchBill | UnsetType: ...


class WorkspacePort(Protocol):
    """The agent's working directory.

    Model mistakes are returned as a ``Returned`` that failed; a sandbox failure raises ``WorkspaceError``.
    """

    def read_file(self, path: str, start_line: int | None, end_line: int | None, shown_bytes: int) -> Returned: ...
    def write_file(self, path: str, content: str) -> Returned: ...
    def edit_file(self, path: str, old: str, new: str, *, every: bool) -> Returned: ...
    def search_files(self, pattern: str, path: str, glob: str, context: int, shown_bytes: int) -> Returned: ...
    def list_files(self, path: str, shown_bytes: int) -> Returned: ...
    def run_command(self, command: str, seconds: float, shown_bytes: int) -> Returned: ...
    def digest(self, path: str) -> str: ...


class Checks(Protocol):
    def judge(self) -> ChecksReturned:
        """Return the verdict on the current workspace, or a result with the reason why there is none."""


class Left(Exception):  # noqa: N818 - not an error: the user left
    """Raised when the user leaves. The run ends here and can be resumed later."""


class UserCommand(Exception):  # noqa: N818 - not an error: the user's command comes before what was asked
    """Raised when the user wants to run a command in the workspace first. The question is asked again afterwards."""

    def __init__(self, command: str) -> None:
        super().__init__(command)
        self.command = command


class UserFile(Exception):  # noqa: N818 - not an error: the user's attachment comes before what was asked
    """Raised when the user attaches a file or folder, which is read before the next request to the model.

    ``raw`` is the content of a file that the user passed directly; ``path`` is then its name. ``recorded`` is the
    attachment of an earlier run.
    """

    def __init__(
        self,
        path: str,
        start_line: int | None = None,
        end_line: int | None = None,
        raw: bytes | None = None,
        recorded: PersonAttached | None = None,
    ) -> None:
        super().__init__(path)
        self.path, self.start_line, self.end_line, self.raw = path, start_line, end_line, raw
        self.recorded = recorded


class UserChoice(Exception):  # noqa: N818 - not an error: the user's choice comes before what was asked
    """Raised when the user turns plan mode on or off, accepts a plan, or asks for a summary. The question is asked
    again afterwards.
    """

    def __init__(self, event: PersonPlanned | PersonAccepted | PersonCompacted) -> None:
        super().__init__(event)
        self.event = event


class PersonPort(Protocol):
    """The user that a run talks to. Methods except ``attend`` may raise ``Left``, ``UserCommand`` or ``UserChoice``."""

    def attend(self, run_dir: Path) -> object:
        """Receive the run directory before the run starts or resumes."""

    def request(self) -> str:
        """Return the user's next request."""

    def answer(self, request: AskUser) -> str | None:
        """Return the answer to a question, or None if nobody can answer."""

    def decide(self, request: AskPermission) -> PersonDecided:
        """Return whether a call is allowed."""

    def poll_user(self) -> PersonSteppedIn | PersonStopped | None:
        """Return user input that arrived during a request.

        The loop calls this before each effect. It may raise ``UserFile``, and blocks while the user has paused the run.
        """


class Unattended:
    """A user who is absent: provides no input and allows nothing."""

    def attend(self, run_dir: Path) -> object:
        pass

    def request(self) -> str:
        raise Left

    def answer(self, request: AskUser) -> str | None:
        return None

    def decide(self, request: AskPermission) -> PersonDecided:
        return PersonDecided(allow=False, words="nobody is here to allow it")

    def poll_user(self) -> PersonSteppedIn | PersonStopped | None:
        return None


class AnswersQuestions(Unattended):
    """A user who only answers questions."""

    def __init__(self, ask: Callable[[str], str | None]) -> None:
        self._ask = ask

    def answer(self, request: AskUser) -> str | None:
        return self._ask(request.question)


class ParallelFrames(Protocol):
    """The parallel frames of a run."""

    def perform(self, effect: RunFrames | MergeFrames, state: State) -> Event:
        """Run the frames or merge their files. Return the answer, or a message of the user that came before it."""

    def cancel(self) -> None:
        """End the frames that run."""


class SpanSender(Protocol):
    def take(self, record: Record) -> None:
        """Receive a recorded event. Must not block."""

    def close(self) -> str:
        """Finish pending work within seconds. Return why spans were lost, or an empty string if none were."""


def live_spans(run_dir: Path, url: str | None, environ: Mapping[str, str]) -> SpanSender | None:
    """Return a sender for the run's spans, or None if no collector is configured.

    Raise UsageError if the address is invalid, or the extra is not installed.
    """
    if url is None:
        return None
    sender: SpanSender = neighbor("formats: send spans")(run_dir, url, environ)
    return sender


def end_spans(sender: SpanSender | None, notice: Callable[[str], object]) -> None:
    """Send the remaining spans and report any that were lost."""
    if sender is not None and (lost := sender.close()):
        notice(lost)
