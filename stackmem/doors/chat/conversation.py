"""One terminal conversation, which may span several runs: undo and fork continue in a new run."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NoReturn

from stackmem.cli.screen.live import stop_at_once
from stackmem.cli.screen.result import show_copy
from stackmem.cli.screen.text import one_line, readable, say
from stackmem.core.compaction import why_no_summary
from stackmem.core.conversation.standing import memory_line
from stackmem.core.errors import StackmemError
from stackmem.core.facts import RunEnded
from stackmem.core.person_facts import PersonAccepted, PersonCompacted, PersonPlanned
from stackmem.core.requests import AskUser
from stackmem.core.state import State
from stackmem.doors.tool_servers.questions import answered_by
from stackmem.foreign.files import read_start
from stackmem.memory import open_strategy
from stackmem.models.spoken import listening, watching
from stackmem.run.fork import ForkChanges, fork, requests_of
from stackmem.run.limits import LIMITS
from stackmem.run.opened import Person
from stackmem.run.ports import Left, UserChoice, UserCommand
from stackmem.run.repeats import MayRepeat
from stackmem.run.request import Request
from stackmem.run.result import RunResult
from stackmem.run.resume import resume
from stackmem.run.solve import solve
from stackmem.trace.open_run import Run

from .chat import ChatScreen
from .command_files import FileCommands, find_commands
from .commands import Look, shell_command
from .committing import apply_order
from .line_editor import LineEditor
from .mentions import ChatCompleter
from .person import TerminalPerson

_HISTORY = ".chat_history"

Next = Callable[[], RunResult | None]


class ChatSession:
    """A conversation, and what happens after each run."""

    def __init__(
        self,
        screen: ChatScreen,
        editor: LineEditor,
        folder: Path,
        files: FileCommands,
        prepare: Callable[[Callable[..., object]], Request],
    ) -> None:
        self.screen, self.editor = screen, editor
        self.person = TerminalPerson(screen, editor, self._obey, self._looks, folder)
        self.then: Next | None = None  # the next action for the run that the user left; None if the user quit
        self._undone: list[tuple[Path, int]] = []  # runs that /undo left, with the number of requests that remained
        self._files = files.commands
        self._prepare = partial(prepare, screen.tell)
        self._look = Look(screen.say, screen.tell, screen.diff, files.help)

    def play(self, first: Next) -> int:
        """Play runs until the user quits; return the exit code."""
        step: Next | None = first
        code, commanded = 0, False
        while step is not None:
            self.then, by_command, commanded = _nothing(), commanded, False
            try:
                with listening(self.screen.hear), watching(self.screen.read), answered_by(self._answer):
                    result = step()
            except StackmemError as error:
                self.screen.tell(str(error), color="yellow")
                code = error.exit_code
                step = self._resumed() if by_command else self._after_failure()
                continue
            if result is None:
                code, step = 0, self._resumed()
            elif self.then is not None:
                step, commanded = self.then, True
            elif result.ending == "left" or result.signal:
                return result.exit_code
            else:
                code = result.exit_code
                if result.failure:
                    self.screen.tell(result.failure, color="yellow")
                self.screen.tell(f"(the run ended: {result.ending})", color="yellow")
                step = self._after_failure()
        return code

    def _answer(self, question: str, options: tuple[str, ...]) -> str | None:
        """Ask the user a server's question; return None if the user quit."""
        while True:
            try:
                return self.person.answer(AskUser(question, options))
            except Left:
                return None
            except UserCommand:
                self.screen.running = ""
                self.screen.tell("a tool waits for this answer; run commands afterwards", color="yellow")

    def _after_failure(self) -> Next | None:
        """Ask what to do after a run has ended early; None if the user quits or no run had started."""
        if self.person.run_dir is None:
            return None
        self.screen.tell("Enter tries again; text is sent first; /budget raises a limit", color="dim")
        self.then = None
        try:
            line = self._line()
        except Left:
            return self.then
        return self._resumed({"said": line} if line.strip() else {})

    def _line(self) -> str:
        self.screen.busy = ""
        while True:
            line = self.editor.ask("stopped> ")
            if line is None:
                raise Left
            if shell_command(line):
                self.screen.tell("the run has stopped; press Enter to continue it, then use !", color="yellow")
                continue
            if not line.startswith("/") or memory_line(line) is not None:
                return line
            try:
                self._obey(line)
            except UserChoice:
                self.screen.tell(f"the run has stopped; press Enter to continue it, then use {line}", color="yellow")

    def _resumed(self, settings: dict[str, str] | None = None) -> Next:
        return partial(self.resume, self._run_dir(), settings or {})

    def resume(self, run_dir: Path, settings: dict[str, str]) -> RunResult | None:
        person = Person(port=self.person, observe_frame=self.screen.observe_frame)
        try:
            return resume(run_dir, settings, os.environ, self.screen, stop_at_once, person=person).result
        except MayRepeat as error:
            self.screen.tell(str(error), color="yellow")
            answer = self.editor.ask("repeat it? (y) ", confirms=True)
            if answer is None or answer.strip().lower() not in ("y", "yes"):
                raise
            return resume(
                run_dir, {**settings, "yes": "true"}, os.environ, self.screen, stop_at_once, person=person
            ).result

    def _fork(self, changes: ForkChanges, record: int | None = None) -> RunResult:
        run_dir = self._run_dir()
        last = record or max(each.seq for each in Run(run_dir).records() if not isinstance(each.event, RunEnded))
        return fork(
            run_dir, 0, changes, os.environ, self.screen, stop_at_once, self.person, record=last,
            observe_frame=self.screen.observe_frame,
        ).result  # fmt: skip

    def _run_dir(self) -> Path:
        if self.person.run_dir is None:
            raise TypeError("no run has begun")
        return self.person.run_dir

    def _obey(self, line: str) -> None:
        """Execute a command; if it needs another run, leave this one.

        Raise Left if the command ends the conversation.
        """
        if self._looks(line):
            return
        name, _, rest = line.strip().partition(" ")
        rest, state = rest.strip(), self.screen.state
        if state is None:
            return
        match name:
            case "/quit" | "/exit":
                self._leave(None)
            case "/apply":
                self._leave(partial(self._apply, rest))
            case "/fork":
                self._leave(partial(self._fork, ForkChanges()))
            case "/model" if rest:
                self._leave(partial(self._fork, ForkChanges(model=rest)))
            case "/strategy" if rest:
                self._leave(partial(self._fork, ForkChanges(strategy=rest)))
            case "/undo" | "/rewind" | "/redo":
                self._go_back(name, rest, state)
            case "/plan" | "/accept" | "/compact":
                self._choose(name, rest, state)
            case "/new":
                self._leave(self._begin_new)
            case "/budget":
                self._set_budget(rest)
            case "/model" | "/strategy":
                self.screen.tell(f"{name} needs a name; current: {one_line(state.begun.model)}, {state.begun.strategy}")
            case _ if name.removeprefix("/") in self._files:
                pass  # the reason why it cannot be used was shown
            case _:
                self.screen.tell(f"no command {one_line(name)}; /help lists all commands")

    def _go_back(self, name: str, rest: str, state: State) -> None:
        if name == "/undo":
            self._undo(int(rest) if rest.isdecimal() and len(rest) < 6 else 1)
        elif name == "/rewind":
            self._rewind(rest)
        else:
            self._redo(state.session.requests if state.session else 0)

    def _begin_new(self) -> RunResult:
        """Start a new conversation with the settings of this one."""
        request, earlier = self._prepare(), self._run_dir().name
        self.screen.tell(f"a new conversation; stackmem chat --resume {earlier} continues the earlier one", color="dim")
        self._undone.clear()
        return begin(request, self)

    def _looks(self, line: str) -> bool:
        name, _, rest = line.strip().partition(" ")
        state, run_dir = self.screen.state, self.person.run_dir
        return state is not None and run_dir is not None and self._look(name, rest.strip(), state, run_dir)

    def _leave(self, then: Next | None) -> NoReturn:
        self.then = then
        raise Left

    def _apply(self, rest: str) -> RunResult | None:
        def ask(text: str, question: str) -> str | None:
            self.screen.say(*(readable(line) for line in text.splitlines()))
            return self.editor.ask(question, confirms=True)

        self.screen.tell(*apply_order(self._run_dir(), rest, ask))
        return None

    def _undo(self, count: int) -> None:
        requests = requests_of(Run(self._run_dir()).records())
        if not 0 < count <= len(requests):
            self.screen.tell("no such request to undo")
            return
        record, words = requests[-count]
        if self._undone and self._undone[-1][1] != len(requests):
            self._undone.clear()
        self._undone.append((self._run_dir(), len(requests) - count))
        self.person.draft = words
        self.screen.tell(f"undone: {one_line(words)}; changes already applied to your folder or sent elsewhere remain")
        self._leave(partial(self._fork, ForkChanges(), record))

    def _redo(self, requests: int) -> None:
        """Return to the run that the last ``/undo`` left, unless a request was made since."""
        if not self._undone or self._undone[-1][1] != requests:
            self.screen.tell("nothing to redo: no /undo since the last request")
            return
        run_dir, _ = self._undone.pop()
        self.person.draft = ""  # the words that /undo put on the line
        self.screen.tell("redone; the conversation is as it was before /undo")
        self._leave(partial(self.resume, run_dir, {}))

    def _rewind(self, rest: str) -> None:
        requests = requests_of(Run(self._run_dir()).records())
        if rest.isdecimal() and len(rest) < 6 and 0 < int(rest) <= len(requests):
            self._undo(len(requests) - int(rest) + 1)
        self.screen.tell(*(f"{number:>3}  {one_line(words)}" for number, (_, words) in enumerate(requests, 1)))
        self.screen.tell("/rewind N goes back to before request N" if requests else "no request yet")

    def _choose(self, name: str, rest: str, state: State) -> None:
        """Turn plan mode on or off, accept the plan, or ask for a summary; the run goes on with that."""
        if name == "/compact":
            self._compact(state)
            return
        planning = state.session is not None and state.session.planning
        if name == "/plan":
            self.screen.tell(f"plan mode is {'off' if planning else 'on: the agent changes nothing'}", color="dim")
            raise UserChoice(PersonPlanned(not planning))
        if not planning or not state.result or (state.session is not None and state.session.working):
            self.screen.tell("no plan to accept; /plan turns plan mode on, and the next answer is a plan")
            return
        plan = self.editor.ask("plan> ", draft=state.result) if rest == "edit" else state.result
        if not plan or not plan.strip():
            self.screen.tell("nothing was accepted")
            return
        raise UserChoice(PersonAccepted(plan if plan != state.result else ""))

    def _compact(self, state: State) -> None:
        """Let the model summarize the conversation before its next reply, or now if it waits for a request."""
        if reason := why_no_summary(state, open_strategy(state.begun.strategy)):
            self.screen.tell(reason, color="yellow")
            return
        self.screen.busy = "summarizing"
        raise UserChoice(PersonCompacted())

    def _set_budget(self, rest: str) -> None:
        name, _, value = rest.partition(" ")
        if name not in LIMITS.values() or not value.strip():
            self.screen.tell(f"usage: /budget {'|'.join(LIMITS.values())} N, or +N")
            return
        self._leave(self._resumed({f"max_{name}": value.strip()}))


def _nothing() -> Next | None:
    return None


def talk(
    folder: Path,
    runs_dir: Path,
    first: Callable[[ChatSession], RunResult | None],  # starts the conversation or continues an earlier one
    prepare: Callable[[Callable[..., object]], Request],  # prepares a new conversation, with a function for notices
    *,
    vim: bool = False,
    plain: bool = False,
) -> int:
    """Run a conversation about a folder; return the exit code."""
    color = not (plain or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb")
    screen = ChatScreen(color=color, plain=plain, styled=color)
    screen.location = place_of(folder)
    files = find_commands(folder, os.environ)
    with LineEditor(ChatCompleter(folder, files.help), runs_dir / _HISTORY, screen.status, vim=vim) as editor:
        screen.say, screen.live = editor.say, editor.show_live
        editor.format_live = screen.format_tail if color else None
        talking = ChatSession(screen, editor, folder, files, prepare)
        screen.tell(*files.notes, color="yellow")
        screen.tell("Type a request; /help lists commands; Ctrl-D leaves.", color="dim")
        code = talking.play(partial(first, talking))
    if talking.person.run_dir is not None:
        say(f"continue with: stackmem chat --resume {talking.person.run_dir.name}")
    return code


def place_of(folder: Path) -> str:
    """Return the folder and the branch that it is on."""
    try:
        head = read_start(folder / ".git" / "HEAD", 400).decode("utf-8", "replace")
    except OSError:
        return one_line(str(folder))
    branch = head.removeprefix("ref: refs/heads/").strip() if head.startswith("ref: ") else f"commit {head[:10]}"
    return f"{one_line(str(folder))} on {one_line(branch)}"


def begin(request: Request, talking: ChatSession) -> RunResult:
    """Play the first run of a new conversation."""

    def agrees(question: str) -> bool:
        return (talking.editor.ask(f"{question} (y) ", confirms=True) or "").strip().lower() in ("y", "yes")

    def agree(plan: Request) -> None:
        show_copy(plan, talking.screen.tell, agrees)

    screen = talking.screen
    return solve(
        request, os.environ, screen, stop_at_once, agree, screen.tell, talking.person,
        observe_frame=screen.observe_frame,
    )  # fmt: skip


def take_up(run_dir: Path, talking: ChatSession) -> RunResult | None:
    """Continue an earlier conversation, after showing its last three requests."""
    talking.person.attend(run_dir)
    state = Run(run_dir).state
    for done in [each for each in state.popped if each.frame.request][-3:]:
        talking.screen.tell(f"> {done.frame.task}", color="bold")
        talking.screen.tell(done.result, "")
    return talking.resume(run_dir, {})
