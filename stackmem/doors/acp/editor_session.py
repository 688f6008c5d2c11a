"""One conversation with an editor: passes the user's words, permissions and cancellations to the run.

The editor's thread adds words and cancels; the main thread plays the run and reads them. A lock guards the shared
state.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from stackmem.cli.screen.frames import FrameBoard, FrameNews
from stackmem.core.conversation.session import is_question
from stackmem.core.errors import TraceError
from stackmem.core.facts import Event, ModelFailed, ModelReplied, RunForked, RunStarted
from stackmem.core.frames import last_words
from stackmem.core.person_facts import (
    Approve,
    PersonAccepted,
    PersonCompacted,
    PersonDecided,
    PersonPlanned,
    PersonSteppedIn,
    PersonStopped,
)
from stackmem.core.requests import AskPermission, AskUser
from stackmem.core.state import State
from stackmem.core.tools import AskQuestion, EditFile, RunCommand, WriteFile, tool_name
from stackmem.doors.chat.commands import shell_command
from stackmem.foreign.files import read_start
from stackmem.run.fork import ForkChanges
from stackmem.run.ports import Left, UserChoice, UserCommand, UserFile
from stackmem.run.run_folder import HISTORY
from stackmem.trace.snapshot import Snapshot

from .updates import (
    Shown,
    Update,
    call_of_frame,
    call_shown,
    frame_begins,
    frame_goes_on,
    message,
    updates,
)

_MAX_BYTES = 1 << 20
_WRITES = frozenset({tool_name(WriteFile), tool_name(EditFile)})
_ASKS: dict[Approve, frozenset[str]] = {
    "never": frozenset(),
    "writes": _WRITES,
    "commands": _WRITES | {tool_name(RunCommand)},
}
"""Tools that need permission in each mode; in ``all`` every tool does."""


class Editor(Protocol):
    """Sends updates and permission requests to the editor; called from the main thread, and blocks until written."""

    def update(self, session: str, update: Update) -> None: ...
    def permit(self, session: str, call: dict[str, Any], *, once: bool = False) -> str:
        """Return the option that the user chose, or an empty string if none. ``once`` offers no lasting permission."""


class EditorSession:
    """One conversation between a user and the agent, through an editor."""

    def __init__(self, name: str, folder: Path, mode: Approve, editor: Editor) -> None:
        # mode: which sandboxed calls need permission; may change at any time
        self.name, self.folder, self.mode = name, folder, mode
        self.run_dir: Path | None = None  # the folder of the run; None before the first prompt
        self.state: State | None = None  # the latest state; None before the first event
        self.queued = False  # whether a turn is running or waiting to run
        self.models: list[str] = []  # the names of the models that the session used, the current one last
        self.strategy = ""  # its name, as chosen for the next prompt
        self.settings: dict[str, str] = {}  # the user's choices before the first prompt
        # the changes with which the next turn forks the run; None continues the run itself
        self.changes: ForkChanges | None = None
        # the runs that ``/undo`` left, with the number of requests that remained
        self.undone: list[tuple[Path, int]] = []
        self.on_run: Callable[[Path], object] = _nothing
        self.on_options: Callable[[EditorSession], object] = _nothing  # called when an option has another value
        self._editor = editor
        self._lock = threading.Lock()
        self._words: list[str] = []
        self._choices: list[PersonPlanned | PersonAccepted | PersonCompacted] = []
        self._attached: list[UserFile] = []
        self._waiting: list[Future[str]] = []
        self._cancelled: list[Future[str]] = []
        self._stops = self._closed = False
        self._streamed = ""
        self._board = FrameBoard()
        self._frame_asks = False  # whether a parallel frame waits for an answer of the user

    @property
    def model(self) -> str:
        """The name of the model."""
        return self.models[-1] if self.models else ""

    def use_model(self, name: str) -> None:
        """Make a model the current one; the earlier ones stay known."""
        self.models = [*(each for each in self.models if each != name), name]

    # Called from the editor's thread.

    def prompt(self, words: str, attached: Iterable[UserFile] = ()) -> tuple[Future[str], bool]:
        """Queue words. Return a future with the stop reason, and whether the caller must start a turn."""
        answer: Future[str] = Future()
        with self._lock:
            self._words.append(words)
            self._attached += attached
            self._waiting.append(answer)
            begins, self.queued = not self.queued, True
        return answer, begins

    def choose(self, event: PersonPlanned | PersonAccepted | PersonCompacted) -> None:
        """Queue a choice of the user, which the run reads next."""
        with self._lock:
            self._choices.append(event)

    @property
    def planning(self) -> bool:
        """Whether plan mode is on, or will be once the run reads the queued choices."""
        with self._lock:
            choices = list(self._choices)
        session = self.state.session if self.state is not None else None
        before = session is not None and session.planning
        return next((isinstance(each, PersonPlanned) and each.on for each in reversed(choices)), before)

    def cancel(self) -> None:
        """Stop the current request and drop words that the run has not read yet."""
        with self._lock:
            self._cancelled += self._waiting
            self._waiting, self._words, self._attached = [], [], []
            self._stops = self.queued

    def set_option(self, *, model: str = "", strategy: str = "") -> None:
        """Choose a model or strategy for the next prompt; a run that has begun continues in a fork."""
        self.use_model(model or self.model)
        self.strategy = strategy or self.strategy
        if self.run_dir is None:
            self.settings |= {"model": self.model} if model else {}
            self.settings |= {"strategy": self.strategy} if strategy else {}
        else:
            was = self.changes or ForkChanges()
            self.changes = replace(was, model=model or was.model, strategy=strategy or was.strategy)

    def reset_options(self) -> None:
        """Show the values of the run again, after a change of them failed."""
        start = self.state.begun if self.state is not None and self.state.start is not None else None
        if start is not None and (self.model, self.strategy) != (start.model, start.strategy):
            self.use_model(start.model)
            self.strategy = start.strategy
            self.on_options(self)

    def close(self) -> None:
        """Record that the editor is gone."""
        with self._lock:
            self._closed = True

    # Called from the main thread.

    def take_words(self) -> str:
        """Return and clear the queued words up to the next command of the user; empty if there are none."""
        with self._lock:
            count = next((index for index, each in enumerate(self._words) if shell_command(each)), len(self._words))
            words, self._words = "\n\n".join(self._words[:count]), self._words[count:]
        return words

    def next_words(self) -> str:
        """Return the first queued words without removing them; empty if there are none."""
        with self._lock:
            return self._words[0] if self._words else ""

    def finish(self, reason: str, failure: str = "") -> bool:
        """Resolve the prompts of this turn. Return whether later prompts are waiting for another turn."""
        with self._lock:
            remaining = len(self._words)
            done = self._waiting[: len(self._waiting) - remaining]
            self._waiting = self._waiting[len(done) :]
            cancelled, self._cancelled = self._cancelled, []
            self._stops, self._streamed = False, ""
            self.queued = bool(remaining)
        for each in cancelled:
            each.set_result("cancelled")
        for each in done:
            if failure:
                each.set_exception(TurnFailed(failure))
            else:
                each.set_result(reason)
        return bool(remaining)

    def say(self, text: str) -> None:
        self._editor.update(self.name, message(text))

    def hear(self, words: str) -> None:
        """Forward part of a reply that is still streaming."""
        self._streamed += words
        self.say(words)

    def observe(self, event: Event, state: State) -> None:
        """Send the editor the updates for an event and the state after it."""
        before, self.state = self.state or State(), state
        if isinstance(event, RunStarted | RunForked):
            is_new = (self.model, self.strategy) != (state.begun.model, state.begun.strategy)
            self.use_model(state.begun.model)
            self.strategy = state.begun.strategy
            if is_new:
                self.on_options(self)
        if isinstance(event, PersonStopped):
            self._stops = False
        for each in updates(event, before, state, self.view(streamed=self._streamed)):
            self._editor.update(self.name, each)
        self._show_frames(event, state)
        if isinstance(event, PersonPlanned | PersonAccepted):
            self.on_options(self)
            mode = "plan" if self.planning else self.mode
            self._editor.update(self.name, {"sessionUpdate": "current_mode_update", "currentModeId": mode})
        if isinstance(event, ModelReplied | ModelFailed):
            self._streamed = ""

    def _show_frames(self, event: Event, state: State) -> None:
        group, run, now = state.parallel.group, self.view().run, self._board.clock()
        intents = {each.frame: each.intent for each in group.frames} if group is not None else {}
        for line in self._board.observe(event, state):
            begins = line.frame in intents
            update = frame_begins(line, run, intents[line.frame]) if begins else frame_goes_on(line, run, now)
            self._editor.update(self.name, update)

    def observe_frame(self, name: str, news: FrameNews, state: State) -> None:
        """Send the editor the line of a parallel frame. Called from the frame's thread."""
        if isinstance(news, AskPermission) and not self._must_ask(news):
            return
        line = self._board.observe_frame(name, news, state)
        if line is not None:
            self._editor.update(self.name, frame_goes_on(line, self.view().run, self._board.clock()))

    def show_again(self, event: Event, before: State, after: State) -> list[Update]:
        """Return the updates that replay a past event."""
        self.state = after
        return updates(event, before, after, self.view(history=True))

    def take_up(self, run_dir: Path, state: State) -> None:
        """Continue an earlier run."""
        self.run_dir, self.state = run_dir, state
        self.use_model(state.begun.model)
        self.strategy = state.begun.strategy

    def view(self, *, streamed: str = "", history: bool = False) -> Shown:
        return Shown(
            str(self.folder), self._text_before, streamed, self.run_dir.name[-6:] if self.run_dir else "", history
        )

    def attend(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.on_run(run_dir)

    def request(self) -> str:
        self._must_be_there()
        self._read_choice()
        self._run_if_asked()
        return self._next_words()

    def answer(self, request: AskUser) -> str | None:
        self._run_if_asked()
        of_frame = self.state is not None and not _is_asking(self.state)
        self._frame_asks = of_frame  # what the user writes next is the answer
        if of_frame and not self.next_words():
            self.say("\n".join([f"\n\n{request.question}", *(f"- {option}" for option in request.options)]))
        words = self._next_words()
        self._frame_asks = False
        if words.strip().isdecimal() and 1 <= int(words.strip()[:6]) <= len(request.options):
            return request.options[int(words.strip()[:6]) - 1]
        return words

    def decide(self, request: AskPermission) -> PersonDecided:
        self._must_be_there()
        if not self._must_ask(request):
            return PersonDecided(allow=True)
        if self.state is None:
            raise TypeError("a call is decided in a run")
        call = call_of_frame(request) if request.frame else call_shown(self.state, self.view())
        option = self._editor.permit(self.name, call)
        self._must_be_there()  # an editor that disconnected did not deny the call
        if option in ("allow_once", "allow_always"):
            return PersonDecided(allow=True, scope="once" if option == "allow_once" else "session")
        return PersonDecided(allow=False)

    def _must_ask(self, question: AskPermission) -> bool:
        """Return whether the mode leaves the call to the user."""
        return question.outside or bool(question.rule) or self.mode == "all" or question.tool in _ASKS[self.mode]

    def permits(self, question: str) -> bool:
        """Ask the user a yes-or-no question that does not belong to a tool call."""
        self._must_be_there()
        call = {"toolCallId": "again", "title": question, "kind": "other", "status": "pending"}
        return self._editor.permit(self.name, call, once=True) == "allow_once"

    def poll_user(self) -> PersonSteppedIn | PersonStopped | None:
        self._must_be_there()
        works = self.state is not None and self.state.session is not None and self.state.session.working
        if not works:
            return None
        self._read_choice()
        if self._stops:
            return PersonStopped()
        self._run_if_asked()
        if self._frame_asks or (self.state is not None and _is_asking(self.state)):
            return None  # the words answer the agent's question
        with self._lock:
            if self._attached and not self._words:
                raise self._attached.pop(0)
        words = self.take_words()
        return PersonSteppedIn(words) if words else None

    def _next_words(self) -> str:
        self._must_be_there()
        words = self.take_words()
        if not words:
            raise Left
        return words

    def _run_if_asked(self) -> None:
        """Leave the question for a command of the user in the sandbox; the run asks again afterwards."""
        with self._lock:
            command = shell_command(self._words[0]) if self._words else ""
            if command:
                self._words.pop(0)
        if command:
            raise UserCommand(command)

    def has_file(self, path: str) -> bool:
        """Return whether the agent's copy has a file or folder."""
        if self.run_dir is None or self.state is None or not self.state.tree:
            return False
        return path.rstrip("/") in Snapshot(self.run_dir / HISTORY, self.state.tree).entries

    def _must_be_there(self) -> None:
        if self._closed:
            raise Left

    def _read_choice(self) -> None:
        with self._lock:
            choice = self._choices.pop(0) if self._choices else None
        if choice is not None:
            raise UserChoice(choice)

    def _text_before(self, state: State, path: str) -> str | None:
        """Return a file's text from the run's history, or from the user's folder if the history does not store it."""
        try:
            if self.run_dir is None or not state.tree:
                return None
            files = Snapshot(self.run_dir / HISTORY, state.tree)
            if path in files:
                content = files[path]
            elif files.of_layer:
                content = self._of_folder(path)
            else:
                return None
            return content.decode() if len(content) <= _MAX_BYTES else None
        except (TraceError, OSError, UnicodeDecodeError):
            return None

    def _of_folder(self, path: str) -> bytes:
        file = (self.folder / path).resolve()
        if not file.is_relative_to(self.folder) or not file.is_file():
            raise OSError("not a file in the folder")
        return read_start(file, _MAX_BYTES + 1)


class TurnFailed(Exception):  # noqa: N818 - reported as the answer to a prompt
    """A turn failed; the message says why."""


def _is_asking(state: State) -> bool:
    """Return whether the last reply is a question to the user that is still unanswered."""
    pending = state.pending
    if pending is None:
        return False
    return isinstance(pending.call, AskQuestion) or (not pending.calls and is_question(last_words(state.running)))


def _nothing(_: object) -> None:
    """Do nothing."""
