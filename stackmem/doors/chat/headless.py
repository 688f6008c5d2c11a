"""Work without a terminal: a conversation of one request."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from stackmem.cli.screen.event_stream import EventStream
from stackmem.cli.screen.live import open_screen, stop_at_once
from stackmem.cli.screen.result import ask_about_size
from stackmem.cli.screen.standard_input import STDIN, read_stdin
from stackmem.cli.screen.text import echo_json, readable, say
from stackmem.core import facts
from stackmem.core.conversation.permissions import without_user
from stackmem.core.errors import UsageError
from stackmem.core.person_facts import PersonAccepted, PersonDecided, PersonSteppedIn, PersonStopped, TurnEnded
from stackmem.core.requests import AskPermission, AskUser
from stackmem.core.state import State
from stackmem.run.opened import Observe, Person
from stackmem.run.ports import Left, UserChoice, UserFile
from stackmem.run.request import Request
from stackmem.run.result import RunResult
from stackmem.run.resume import resume
from stackmem.run.solve import solve
from stackmem.run.stored_request import read_request

from .mentions import mentions


def request_from(prompt: str) -> str:
    """Return the request of ``-p``. Data that is piped or redirected into the command follows it.

    A terminal, ``/dev/null`` and sockets are not read, because they have no end or no content.
    """
    if prompt == STDIN:
        return read_stdin("-p -")
    if not prompt.strip():
        raise UsageError("-p has an empty text; pass the request, or - to read it from standard input")
    if not _is_data():
        return prompt
    data = read_stdin("-p", may_be_empty=True)
    return f"{prompt}\n\n<standard-input>\n{data}\n</standard-input>" if data.strip() else prompt


def _is_data() -> bool:
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


class OneRequest:
    """A user who makes one request, answers an open question with it, and then leaves."""

    def __init__(self, words: str, attend: Callable[[Path], object], attached: list[UserFile]) -> None:
        self._words, self._attend, self._attached = words, attend, attached

    def attend(self, run_dir: Path) -> object:
        return self._attend(run_dir)

    def request(self) -> str:
        words = self._take()
        command, _, plan = words.strip().partition("\n")
        if command.strip() == "/accept":
            raise UserChoice(PersonAccepted(plan.strip()))
        return words or self._leave()

    def answer(self, request: AskUser) -> str | None:
        return self._take() or None

    def decide(self, request: AskPermission) -> PersonDecided:
        words = without_user(request.rule) if request.rule else "nobody can be asked; work without this call"
        return PersonDecided(allow=False, words=words)

    def poll_user(self) -> PersonSteppedIn | PersonStopped | None:
        if self._attached and not self._words:
            raise self._attached.pop(0)
        return None

    def _take(self) -> str:
        words, self._words = self._words, ""
        return words

    def _leave(self) -> str:
        raise Left


class _Answer:
    """Remembers what the agent answered, while the events go to the screen."""

    def __init__(self, screen: Observe) -> None:
        self._screen = screen
        self.text, self.forced = "", ""

    def __call__(self, event: facts.Event, state: State) -> None:
        match event:
            case facts.FramePopped() | TurnEnded() if state.session is not None and len(state.stack) == 1:
                self.text, self.forced = event.result, event.forced
            case facts.RunEnded() if event.ending == "input_needed":
                self.text = event.result
        self._screen(event, state)


def play_request(words: str, first: Request | Path, *, json: bool, stream: bool, quiet: bool) -> int:
    """Play one request in a new conversation, or in the one in a folder. Print the answer, return the exit code."""
    events = EventStream() if stream else None
    person = OneRequest(words, events.start if events is not None else str, _mentioned(words, first))
    with events or open_screen(quiet=quiet, asks=False) as screen:
        answer = _Answer(screen)
        if isinstance(first, Path):
            user = Person(port=person, observe_frame=screen.observe_frame, observe_reading=screen.observe_reading)
            result = resume(first, {}, os.environ, answer, stop_at_once, person=user).result
        else:
            agree = partial(ask_about_size, as_json=json or stream)
            result = solve(
                first, os.environ, answer, stop_at_once, agree, say, person, observe_frame=screen.observe_frame,
                observe_reading=screen.observe_reading,
            )  # fmt: skip
    if result is None:
        raise UsageError("the conversation has ended; start a new one without --continue and --resume")
    return _show(result, answer, events, as_json=json)


def _mentioned(words: str, first: Request | Path) -> list[UserFile]:
    """Return the files of the folder that the request mentions, with a message about those that are not attached."""
    folder = Path(read_request(first).subject) if isinstance(first, Path) else first.subject.folder
    if folder is None:
        return []
    files, messages = mentions(words, folder, frozenset[str]().__contains__)
    for message in messages:
        say(message)
    return files


def _show(result: RunResult, answer: _Answer, events: EventStream | None, *, as_json: bool) -> int:
    code = result.exit_code or (1 if answer.forced else 0)
    if result.failure:
        say(f"stackmem: {readable(result.failure)}")
    if answer.forced:
        say(f"the request ended: {readable(answer.forced)}")
    if events is not None:
        events.end(result, answer.text, code)
    elif as_json:
        echo_json(replace(result, result=answer.text))
    else:
        sys.stdout.write(f"{readable(answer.text)}\n" if answer.text else "")
        if result.changed:
            say(f"changed: {', '.join(map(readable, result.changed[:40]))}")
            say(f"apply the changes with: stackmem apply {result.run}")
        say(f"continue with: stackmem chat --resume {result.run}")
    return code
