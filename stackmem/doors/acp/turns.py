"""Plays the turns of all conversations in the main thread, where a signal can interrupt the work in progress.

Only one turn runs at a time. Between turns a run has ended with ``left``, so killing the process loses no work.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import SimpleQueue
from types import FrameType

from msgspec.structs import replace

from stackmem.cli.screen.text import one_line
from stackmem.core.compaction import why_no_summary
from stackmem.core.conversation.standing import memory_line
from stackmem.core.errors import StackmemError
from stackmem.core.facts import RunEnded
from stackmem.core.person_facts import PersonAccepted, PersonCompacted, PersonPlanned
from stackmem.core.state import State
from stackmem.doors.chat.commands import IN_EDITORS
from stackmem.doors.chat.committing import apply_order
from stackmem.memory import open_strategy
from stackmem.models.spoken import listening
from stackmem.run.fork import ForkChanges, fork, requests_of
from stackmem.run.limits import LIMITS
from stackmem.run.opened import Person
from stackmem.run.repeats import MayRepeat
from stackmem.run.request import Request
from stackmem.run.result import RunResult
from stackmem.run.resume import resume
from stackmem.run.solve import solve
from stackmem.trace.open_run import Run

from .editor_session import EditorSession

_GONE_SECONDS = 5.0

Look = Callable[[str, str, State, Path], str]
"""Returns the output of a read-only command from its name with the slash, its arguments, the state and run folder."""


def command_of(text: str) -> tuple[str, str]:
    """Split a prompt into a command and its arguments; both are empty if the prompt is not a command.

    A line that changes the kept words is a message of the user, which the run records.
    """
    if memory_line(text) is not None:
        return "", ""
    name, _, rest = text.strip().removeprefix("/").partition(" ")
    return (name, rest.strip()) if text.lstrip().startswith("/") and name in IN_EDITORS else ("", "")


class Turns:
    """Queue of turns from all conversations."""

    def __init__(
        self, prepare: Callable[[Path, Mapping[str, str]], Request], look: Look, environ: Mapping[str, str]
    ) -> None:
        self.prepare = prepare  # prepares the first run of a conversation about a folder, with other settings by name
        self._look, self._environ = look, environ
        self._queue: SimpleQueue[EditorSession | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._playing: EditorSession | None = None
        self._sent = self._closed = False
        self._main = threading.main_thread()

    def begin(self, conversation: EditorSession) -> None:
        """Queue a turn; callable from any thread."""
        self._queue.put(conversation)

    def interrupt(self, conversation: EditorSession) -> None:
        """Interrupt the conversation if its turn is running; callable from any thread."""
        with self._lock:
            if self._playing is conversation and self._main.ident is not None:
                self._sent = True
                signal.pthread_kill(self._main.ident, signal.SIGINT)

    def close(self) -> None:
        """Handle the editor's exit: end the current turn and then ``play_all``; callable from any thread."""
        self._closed = True
        self._queue.put(None)
        last = threading.Timer(_GONE_SECONDS, os._exit, (1,))
        last.daemon = True
        last.start()
        playing = self._playing
        if playing is not None:
            playing.close()
            self.interrupt(playing)

    def play_all(self) -> int:
        """Play turns until the editor is gone; return the exit code."""
        before = signal.signal(signal.SIGINT, self._came_between)
        try:
            while (conversation := self._queue.get()) is not None and not self._closed:
                with self._lock:
                    self._playing = conversation
                try:
                    code = self._play(conversation)
                finally:
                    with self._lock:
                        self._playing = None
                if code:
                    return code
        finally:
            signal.signal(signal.SIGINT, before)
        return 0

    def _came_between(self, number: int, frame: FrameType | None) -> None:
        """Handle Ctrl-C between turns. Ignore a signal of our own that arrived after its turn had ended."""
        if self._sent:
            self._sent = False
            return
        raise SystemExit(128 + number)

    def _play(self, conversation: EditorSession) -> int:
        """Play a turn and answer its prompts. Return an exit code if a signal ends the program, else 0."""
        reason, failure, code = "end_turn", "", 0
        try:
            with listening(conversation.hear):
                reason, failure, code = self._outcome(conversation)
        except KeyboardInterrupt:
            reason = "cancelled"
        except StackmemError as error:
            failure = str(error)
        except Exception as error:  # noqa: BLE001 - an error in one conversation must not end the others
            failure = f"this turn failed ({type(error).__name__}: {error})"
        if failure:
            conversation.reset_options()
        if conversation.finish(reason, failure):
            self.begin(conversation)
        return code

    def _outcome(self, conversation: EditorSession) -> tuple[str, str, int]:
        """Return the stop reason, the failure message, and the exit code of an outside signal."""
        words = conversation.next_words()
        if not words:
            return "cancelled", "", 0
        name, rest = command_of(words)
        if name:
            conversation.take_words()
        result = self._obey(name, rest, conversation) if name else self._run(conversation)
        if result is None:
            return "end_turn", "" if name else "the run of this conversation has ended; start a new conversation", 0
        if result.signal not in (0, signal.SIGINT):
            return "cancelled", "", result.exit_code
        if result.ending == "left":
            return "end_turn", "", 0
        if result.ending.startswith("limit:"):
            conversation.say(f"\n\nThe run ended: {result.ending}. /budget raises a limit.")
            return "max_turn_requests", "", 0
        return "end_turn", result.failure or f"the run ended: {result.ending}", 0

    def _run(self, conversation: EditorSession) -> RunResult | None:
        if conversation.run_dir is None:
            request = self.prepare(conversation.folder, conversation.settings)
            return solve(
                request, self._environ, conversation.observe, _second, person=conversation,
                observe_frame=conversation.observe_frame,
            )  # fmt: skip
        return self._resume(conversation, conversation.run_dir, {})

    def _resume(self, conversation: EditorSession, run_dir: Path, settings: dict[str, str]) -> RunResult | None:
        if conversation.changes is not None:
            forked = self._fork(conversation, run_dir, ForkChanges())
            if not settings or conversation.run_dir is None:
                return forked
            run_dir = conversation.run_dir
        person = Person(port=conversation, observe_frame=conversation.observe_frame)
        try:
            return resume(run_dir, settings, self._environ, conversation.observe, _second, person=person).result
        except MayRepeat as error:
            if not conversation.permits(str(error)):
                raise
            settings = {**settings, "yes": "true"}
            return resume(run_dir, settings, self._environ, conversation.observe, _second, person=person).result

    def _obey(self, name: str, rest: str, conversation: EditorSession) -> RunResult | None:
        """Execute a command. Return the result of the run that it started, or None."""
        if name == "plan":
            conversation.choose(PersonPlanned(not conversation.planning))
            conversation.say(f"plan mode is {'on' if conversation.planning else 'off'}")
            return None
        run_dir, state = conversation.run_dir, conversation.state
        if run_dir is None or state is None:
            conversation.say("no requests yet")
            return None
        match name:
            case "apply":
                conversation.say("\n\n".join(apply_order(run_dir, rest)))
            case "accept" if not conversation.planning or not state.result:
                conversation.say("no plan to accept; /plan turns plan mode on, and the next answer is a plan")
            case "accept":
                conversation.choose(PersonAccepted(rest if rest != "edit" else ""))
                return self._resume(conversation, run_dir, {})
            case "compact" if reason := why_no_summary(state, open_strategy(state.begun.strategy)):
                conversation.say(reason)
            case "compact":
                conversation.choose(PersonCompacted())
                return self._resume(conversation, run_dir, {})
            case "undo" | "rewind" | "redo":
                return self._go_back(name, rest, conversation, run_dir)
            case "model" if rest:
                return self._fork(conversation, run_dir, ForkChanges(model=rest))
            case "strategy" if rest:
                return self._fork(conversation, run_dir, ForkChanges(strategy=rest))
            case "model" | "strategy":
                conversation.say(f"/{name} needs a name; current: {state.begun.model}, {state.begun.strategy}")
            case "budget":
                limit, _, value = rest.partition(" ")
                if limit in LIMITS.values() and value.strip():
                    return self._resume(conversation, run_dir, {f"max_{limit}": value.strip()})
                conversation.say(f"usage: /budget {'|'.join(LIMITS.values())} N, or +N")
            case _:
                conversation.say(self._look(f"/{name}", rest, state, run_dir))
        return None

    def _go_back(self, name: str, rest: str, conversation: EditorSession, run_dir: Path) -> RunResult | None:
        number = int(rest) if rest.isdecimal() and len(rest) < 6 else 0
        requests = requests_of(Run(run_dir).records())
        undone = conversation.undone
        if undone and undone[-1][1] != len(requests):
            undone.clear()
        if name == "redo":
            if not undone:
                conversation.say("nothing to redo: no /undo since the last request")
                return None
            conversation.say("redone; the conversation is as it was before /undo")
            return self._resume(conversation, undone.pop()[0], {})
        if name == "rewind" and not 0 < number <= len(requests):
            lines = [f"{index}. {one_line(words)}" for index, (_, words) in enumerate(requests, 1)]
            conversation.say(
                "\n".join([*lines, "", "/rewind N goes back to before request N" if requests else "no request"])
            )
            return None
        count = len(requests) - number + 1 if name == "rewind" else number or 1
        if count > len(requests):
            conversation.say("no such request to undo")
            return None
        record, words = requests[-count]
        undone.append((run_dir, len(requests) - count))
        conversation.say(f"undone: {words}\n\nChanges already applied to your folder or sent elsewhere remain.")
        return self._fork(conversation, run_dir, ForkChanges(), record)

    def _fork(
        self, conversation: EditorSession, run_dir: Path, changes: ForkChanges, record: int | None = None
    ) -> RunResult:
        """Continue in a fork, with the changes that were chosen in the session's options and these."""
        last = record or max(each.seq for each in Run(run_dir).records() if not isinstance(each.event, RunEnded))
        options, conversation.changes = conversation.changes or ForkChanges(), None
        changes = replace(
            changes, model=changes.model or options.model, strategy=changes.strategy or options.strategy
        )  # fmt: skip
        before, conversation.state = conversation.state, None
        try:
            return fork(
                run_dir, 0, changes, self._environ, conversation.observe, _second, conversation, record=last,
                observe_frame=conversation.observe_frame,
            ).result  # fmt: skip
        finally:
            conversation.state = conversation.state or before


def _second(code: int) -> None:
    """End the program on a second SIGTERM or SIGHUP; ignore a second SIGINT, which only repeats a cancel."""
    if code != 128 + signal.SIGINT:
        os._exit(code)
