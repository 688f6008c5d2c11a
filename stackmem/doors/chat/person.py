"""The user at the terminal: asked, read and answered on one line."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import UNSET

from stackmem.cli.screen.text import one_line, readable
from stackmem.core.conversation.standing import memory_line
from stackmem.core.errors import UsageError
from stackmem.core.person_facts import PersonDecided, PersonSteppedIn, PersonStopped, Scope
from stackmem.core.requests import AskPermission, AskUser
from stackmem.run.ports import Left, UserCommand, UserFile
from stackmem.run.run_folder import HISTORY
from stackmem.trace.snapshot import Snapshot

from .chat import ChatScreen, folded
from .command_files import request_of
from .commands import shell_command
from .line_editor import LineEditor
from .mentions import mentions

_DETAIL_LINES = 30
_HOW = "y yes  n no (add a reason)  p every call that matches a pattern; then Enter"
_HOW_LONG = "f every {} of this request  s of this session"


class TerminalPerson:
    """The user at the terminal, who answers a run's questions.

    Attributes:
        screen: The screen of the conversation.
        commands: Handles a line that begins with ``/``; it may leave the run.
        look: Handles such a line immediately if it is read-only; returns whether it did.
    """

    def __init__(
        self,
        screen: ChatScreen,
        editor: LineEditor,
        commands: Callable[[str], object],
        look: Callable[[str], bool],
        folder: Path,
    ) -> None:
        self.screen, self.editor, self.commands, self.look = screen, editor, commands, look
        self.run_dir: Path | None = None  # the run's folder; None before it began
        self.draft = ""  # text already in the input line at the next prompt
        self._folder = folder
        self._attached: list[UserFile] = []
        self._typed_lines: list[str] = []
        self._paused = False
        editor.on_line = self._hear
        editor.on_pause = self._pause

    def attend(self, run_dir: Path) -> None:
        self.run_dir = run_dir

    def request(self) -> str:
        while self._typed_lines:
            if words := self._take_heard():
                self.screen.say(self.screen.paint("bold", f"> {readable(words)}"))
                self.screen.busy = "thinking"
                return self._with_mentions(words)
            self._run_if_asked(self._typed_lines[0], self._typed_lines)
            queued = self._typed_lines.pop(0)
            if words := self._from_file(queued):
                return words
            self.commands(queued)
        while True:
            draft, self.draft = self.draft, ""
            line = self._ask("plan> " if self._plans() else "> ", draft=draft)
            if line is None:
                raise Left
            self._run_if_asked(line)
            if words := self._from_file(line):
                return words
            if self._is_command(line):
                self.commands(line)
            elif line.strip():
                self.screen.busy = "thinking"
                return self._with_mentions(line)

    def _from_file(self, line: str) -> str:
        """Return the request of a command from a file; empty for any other line."""
        try:
            words = request_of(line, self._folder, os.environ)
        except UsageError as error:
            self.screen.tell(str(error), color="yellow")
            return ""
        if words:
            self.screen.busy = "thinking"
            self.screen.say(*folded(readable(words).split("\n"), "the model reads"))
        return self._with_mentions(words) if words else ""

    def _with_mentions(self, words: str) -> str:
        """Attach the files that the words mention, before the next request to the model."""
        if memory_line(words) is None:
            files, messages = mentions(words, self._folder, self._is_file_of_agent)
            images, more = self.editor.images.attached(words)
            self._attached += [*files, *images]
            self.screen.tell(*messages, *more, color="yellow")
        return words

    def _is_file_of_agent(self, path: str) -> bool:
        state = self.screen.state
        if state is None or self.run_dir is None or not state.tree:
            return False
        return path.rstrip("/") in Snapshot(self.run_dir / HISTORY, state.tree).entries

    def _run_if_asked(self, line: str, queue: list[str] | None = None) -> None:
        """Leave the question for a command of the user in the sandbox; the run asks again afterwards."""
        command = shell_command(line)
        if command:
            if queue:
                queue.pop(0)
            self.screen.running = command
            raise UserCommand(command)

    def answer(self, request: AskUser) -> str | None:
        if request.question != self.screen.last_reply:
            self.screen.tell(request.question, color="bold")
        for number, option in enumerate(request.options, 1):
            self.screen.say(f"  {number}  {one_line(option)}")
        line = self._ask("answer> ")
        if line is None:
            raise Left
        self._run_if_asked(line)
        choice = line.strip()
        if choice.isdecimal() and 1 <= int(choice[:6]) <= len(request.options):
            return request.options[int(choice) - 1]
        return self._with_mentions(line)

    def decide(self, request: AskPermission) -> PersonDecided:
        location = "outside the sandbox" if request.outside else "in the sandbox"
        frame = f"[{readable(request.frame)}] " if request.frame else ""
        self.screen.say(
            self.screen.paint("bold", f"{frame}allow {request.tool} {location}?"), f"  {readable(request.about)}"
        )
        if request.rule:
            self.screen.tell(f"  {readable(request.rule)} asks", color="dim")
        if request.detail:
            lines = readable(request.detail).split("\n")
            more = [f"[... {len(lines) - _DETAIL_LINES:,} more lines ...]"] if len(lines) > _DETAIL_LINES else []
            self.screen.say(self.screen.diff("\n".join(lines[:_DETAIL_LINES])), *more)
        self.screen.tell(_HOW, _HOW_LONG.format(request.tool), color="dim")
        while True:
            line = self._ask("allow? ", confirms=True)
            if line is None:
                raise Left
            self._run_if_asked(line)
            decided = self._decision(line.strip(), request)
            if decided is not None:
                return decided
            self.screen.tell("not a valid answer; nothing was allowed or denied", color="yellow")
            self.screen.tell(_HOW, _HOW_LONG.format(request.tool), color="dim")

    def _decision(self, line: str, request: AskPermission) -> PersonDecided | None:
        word, _, rest = line.partition(" ")
        scopes: dict[str, Scope] = {"y": "once", "yes": "once", "f": "frame", "s": "session"}
        if word in scopes and not rest:
            return PersonDecided(allow=True, scope=scopes[word])
        if word == "p":
            pattern = rest or self._ask("pattern> ", draft=_pattern(request))
            return PersonDecided(allow=True, scope="session", pattern=pattern) if pattern else None
        if word in ("n", "no"):
            return PersonDecided(allow=False, words=rest)
        return None

    def poll_user(self) -> PersonSteppedIn | PersonStopped | None:
        if not self._works():
            self._paused = False  # the request has ended, so the user is asked anyway
            return None  # text typed so far becomes the next request
        if self._attached:
            raise self._attached.pop(0)
        if self._paused:
            decision = self._menu()
            self._paused = False
            if decision is not None:
                return decision
        if self._typed_lines:
            self._run_if_asked(self._typed_lines[0], self._typed_lines)
        if words := self._take_heard():
            return PersonSteppedIn(self._with_mentions(words))
        self.screen.busy = "working"
        return None

    def _plans(self) -> bool:
        state = self.screen.state
        return state is not None and state.session is not None and state.session.planning

    def _works(self) -> bool:
        state = self.screen.state
        return state is not None and state.session is not None and state.session.working

    def _take_heard(self) -> str:
        """Take the typed lines up to the first command that must wait for the end of the request.

        A line that changes the kept words is taken alone.
        """
        lines = self._typed_lines
        if lines and memory_line(lines[0]) is not None:
            count = 0 if self._is_command(lines[0]) else 1
        else:
            ends = (
                index
                for index, line in enumerate(lines)
                if line.startswith(("/", "!")) or memory_line(line) is not None
            )
            count = next(ends, len(lines))
        words, self._typed_lines = "\n".join(self._typed_lines[:count]), self._typed_lines[count:]
        return words

    def _is_command(self, line: str) -> bool:
        """Return whether a line is a command for this program, and not one that the run records as the user's words."""
        state = self.screen.state
        records_words = state is None or state.session is None or state.session.rules.words is not UNSET
        return line.startswith("/") and not (records_words and memory_line(line) is not None)

    def _menu(self) -> PersonSteppedIn | PersonStopped | None:
        """Ask the user, who has paused, what to do."""
        self.screen.tell("paused: Enter continues; text goes to the agent; /stop ends this request", color="dim")
        while True:
            line = self._ask("paused> ")
            if line is None:
                raise Left
            if line.strip() == "/stop":
                self._typed_lines = []
                return PersonStopped()
            self._run_if_asked(line)
            if words := self._from_file(line):
                return PersonSteppedIn(words)
            if self._is_command(line):
                self.commands(line)
                continue
            return PersonSteppedIn(self._with_mentions(line)) if line.strip() else None

    def _ask(self, prompt: str, *, draft: str = "", confirms: bool = False) -> str | None:
        busy, self.screen.busy = self.screen.busy, ""
        line = self.editor.ask(prompt, draft=draft, confirms=confirms)
        self.screen.busy, self.screen.since = busy, time.monotonic()
        if line is not None:
            lines = folded(f"{prompt}{readable(line)}".split("\n"), "the model reads")
            self.screen.say(*(self.screen.paint("bold", each) for each in lines))
        return line

    def _hear(self, line: str) -> None:
        """Handle a line that was typed while no prompt was waiting; the agent gets it before its next step."""
        if line.strip() == "/stop":
            self._pause()
            return
        if line.startswith("/") and self.look(line):
            return
        self._typed_lines.append(line)
        when = "next request"
        if shell_command(line):
            when = "runs after the current action"
        elif self._works():
            when = "after this request" if self._is_command(line) else "sent before the next step"
        self.screen.tell(f"({when}) {line}", color="dim")

    def _pause(self) -> None:
        """Pause after the current action; interrupt it on the second call."""
        if self._paused:
            os.kill(os.getpid(), signal.SIGINT)
            return
        self._paused = True
        self.screen.tell("(pausing after the current action; press again to interrupt it)", color="dim")


def _pattern(request: AskPermission) -> str:
    """Suggest a pattern to allow: the program with its subcommand, or the path's folder."""
    if request.tool == "run_command":
        return " ".join([*request.about.split()[:2], "*"])
    folder, slash, _ = request.about.rpartition("/")
    return f"{folder}{slash}*" if slash else request.about
