"""What the loop needs of the world, as small as it can be said."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from stackmem.core.facts import ChecksReturned, ModelFailed, ModelReplied
from stackmem.core.network import NetworkRequest
from stackmem.core.person_facts import PersonDecided, PersonSteppedIn, PersonStopped
from stackmem.core.requests import AskModel, AskPermission, AskUser
from stackmem.neighbors import neighbor
from stackmem.trace.record import Record


class Clock(Struct, frozen=True):
    """What tells a run the time, all in seconds.

    Attributes:
        elapsed: Never goes back; where it begins means nothing.
        wall: Since 1970, as the machine's owner has set it: it may jump either way.
        sleep: Lets so much of it pass.
    """

    elapsed: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


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
    @property
    def requests(self) -> tuple[NetworkRequest, ...]: ...


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


class Left(Exception):  # noqa: N818 - no error: the person went away
    """The person left; the run ends here and can be taken up again."""


class PersonPort(Protocol):
    """Whom a run asks. Each of its calls but the first may raise ``Left``."""

    def attend(self, run_dir: Path) -> object:
        """Take note of where the run is kept; it is about to begin, or to go on."""

    def request(self) -> str:
        """What is to be done next."""

    def answer(self, asked: AskUser) -> str | None:
        """The answer to a question; None where nobody answers."""

    def decide(self, asked: AskPermission) -> PersonDecided:
        """Whether a call may be made."""

    def meanwhile(self) -> PersonSteppedIn | PersonStopped | None:
        """What came while a request is worked on; asked before each effect, and waits where the person paused."""


class Unattended:
    """Nobody is there: nothing is said, nothing is allowed."""

    def attend(self, run_dir: Path) -> object:
        pass

    def request(self) -> str:
        raise Left

    def answer(self, asked: AskUser) -> str | None:
        return None

    def decide(self, asked: AskPermission) -> PersonDecided:
        return PersonDecided(allow=False, words="nobody is here to allow it")

    def meanwhile(self) -> PersonSteppedIn | PersonStopped | None:
        return None


class AnswersQuestions(Unattended):
    """A person who answers questions, and says nothing by herself."""

    def __init__(self, ask: Callable[[str], str | None]) -> None:
        self._ask = ask

    def answer(self, asked: AskUser) -> str | None:
        return self._ask(asked.question)


class SpanSender(Protocol):
    def take(self, record: Record) -> None:
        """A fact that was recorded; never waits."""

    def close(self) -> str:
        """End what is under way, within seconds; why not all was taken, empty where it was."""


def live_spans(run_dir: Path, url: str | None, environ: Mapping[str, str]) -> SpanSender | None:
    """What sends the run's spans; None where there is no collector.

    Raises:
        UsageError: The address is none, or the extra is not installed.
    """
    if url is None:
        return None
    sender: SpanSender = neighbor("formats: send spans")(run_dir, url, environ)
    return sender


def end_spans(sender: SpanSender | None, notice: Callable[[str], object]) -> None:
    """Send what is left, and tell what was lost."""
    if sender is not None and (lost := sender.close()):
        notice(lost)
