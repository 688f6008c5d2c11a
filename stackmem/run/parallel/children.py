"""The parallel frames of a run: starts them in threads, waits for them in push order, and merges their files.

Rule 1: The main thread alone talks to the user, whatever frame asks, one question at a time.
Rule 2: The facts of the parent are recorded in push order. So they are equal in every order of completion.
Rule 3: A frame that is cancelled ends as ``interrupted`` and can be resumed.
Rule 4: What happens in a frame is shown from its own thread, so that it is seen while the main thread asks the user.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.facts import Event
from stackmem.core.parallel.facts import FrameReturned
from stackmem.core.person_facts import PersonDecided, PersonSteppedIn, PersonStopped
from stackmem.core.requests import AskPermission, AskUser, MergeFrames, RunFrames
from stackmem.core.state import State
from stackmem.settings.tools.bounded_calls import next_of
from stackmem.settings.tools.own_tools import TOOLS

from ..opened import ObserveFrame, Opened, Person
from ..play import Play
from ..ports import Left, PersonPort, Unattended
from .child import ChildRun
from .interrupts import ThreadInterrupts
from .merging import merge_frames

T = TypeVar("T")

_LOOK_SECONDS = 0.1
_END_SECONDS = 20.0
"""How long a cancelled frame may take to end. A request to a model that does not answer may take longer."""


class _ChildAsks(Struct):
    """A question of a frame to the user, and the queue that receives the answer or what was raised instead."""

    ask: Callable[[], Any]
    answer: SimpleQueue[Any]


class _FrameEnd(Struct, frozen=True):
    """The end of a frame: what it returned, or what its thread raised."""

    frame: str
    outcome: FrameReturned | BaseException


class Children:
    """The parallel frames of one run. ``play`` plays an open run."""

    def __init__(self, opened: Opened, play: Play) -> None:
        self._opened, self._play = opened, play
        self._news: SimpleQueue[_ChildAsks | _FrameEnd] = SimpleQueue()
        self._threads: dict[str, tuple[threading.Thread, ThreadInterrupts]] = {}
        self._returned: dict[str, FrameReturned] = {}
        self._outside = threading.Lock()  # for tools that must not run twice at the same time

    def perform(self, effect: RunFrames | MergeFrames, state: State) -> Event:
        """Return the fact that answers the effect, or a message of the user that came before it.

        Raise WorkspaceError if a frame has no workspace, or the files cannot be merged. Raise KeyboardInterrupt if the
        run was interrupted. All frames have ended, or end soon.
        """
        if isinstance(effect, MergeFrames):
            self._returned = {}
            return merge_frames(effect, self._opened)
        try:
            for frame in effect.frames:
                if frame not in self._threads and frame not in self._returned:
                    self._start(frame, state)
            return self._wait(effect.frames[0], state)
        except BaseException:
            self.cancel()
            raise

    def _start(self, frame: str, state: State) -> None:
        interrupts = ThreadInterrupts()
        child = ChildRun(self._opened, state, frame)
        group = state.parallel.group
        name = next((each.name for each in (group.frames if group else ()) if each.frame == frame), frame)
        thread = threading.Thread(target=self._work, args=(child, name, interrupts), name=f"frame {name}", daemon=True)
        interrupts.thread = thread
        self._threads[frame] = thread, interrupts
        thread.start()

    def _work(self, child: ChildRun, name: str, interrupts: ThreadInterrupts) -> None:
        parent = self._opened.person
        observer = _Observer(name, parent.observe_frame)
        person = Person(
            observe=observer.observe,
            port=_User(observer, self._news, interrupts, self._opened.world.person),
            clock=parent.clock,
        )
        try:
            outcome: FrameReturned | BaseException = child.play(self._guarded, person, interrupts)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits for the frames
            outcome = error
        self._news.put(_FrameEnd(child.frame, outcome))

    def _guarded(self, first: Event, state: State, opened: Opened) -> object:
        """Play a frame. Tools outside the sandbox run one at a time, unless they allow more."""
        own_tool = opened.world.own_tool

        def call(name: str, arguments: dict[str, Any]) -> Any:
            tool = TOOLS.get(name)
            if tool is not None and tool.parallel:
                return own_tool(name, arguments)
            with self._outside:
                return own_tool(name, arguments)

        opened.world.own_tool = call
        return self._play(first, state, opened)

    def _wait(self, frame: str, state: State) -> Event:
        """Wait for one frame. Meanwhile pass on the questions of all frames, and listen to the user."""
        while frame not in self._returned:
            if state.session is not None and state.end is None:
                message = self._opened.world.person.poll_user()
                if isinstance(message, PersonStopped):
                    self.cancel()
                if message is not None:
                    return self._scrubbed(message)
            try:
                self._take(next_of(self._news, _LOOK_SECONDS))
            except Empty:
                continue
        return self._returned[frame]

    def _scrubbed(self, message: PersonSteppedIn | PersonStopped) -> Event:
        scrub = self._opened.world.scrub
        return replace(message, text=scrub(message.text)) if isinstance(message, PersonSteppedIn) else message

    def _take(self, news: _ChildAsks | _FrameEnd) -> None:
        match news:
            case _ChildAsks():
                try:
                    news.answer.put(news.ask())
                except BaseException as error:
                    news.answer.put(error)
                    if not isinstance(error, Left):
                        raise
            case _FrameEnd():
                del self._threads[news.frame]
                if isinstance(news.outcome, BaseException):
                    raise news.outcome
                self._returned[news.frame] = news.outcome

    def cancel(self) -> None:
        """End all frames, and forget what they returned: their runs have it."""
        for _, interrupts in self._threads.values():
            interrupts.cancel()
        deadline = time.monotonic() + _END_SECONDS
        for thread, interrupts in self._threads.values():
            while thread.is_alive() and time.monotonic() < deadline:
                interrupts.cancel()  # again, because the thread may have begun another call since
                thread.join(_LOOK_SECONDS)
        self._threads, self._returned, self._news = {}, {}, SimpleQueue()


class _Observer:
    """Passes what happens in a frame, and what it asks, to the screen of the parent's run."""

    def __init__(self, name: str, show: ObserveFrame | None) -> None:
        self.name = name
        self._show, self._state = show, State()

    def observe(self, event: Event, state: State) -> None:
        self._state = state
        self._tell(event)

    def ask(self, question: AskUser | AskPermission) -> None:
        self._tell(question)

    def _tell(self, news: Event | AskUser | AskPermission) -> None:
        if self._show is not None:
            self._show(self.name, news, self._state)


class _User(Unattended):
    """The user as a frame sees them: questions go to the main thread, and name the frame."""

    def __init__(
        self, observer: _Observer, news: SimpleQueue[Any], interrupts: ThreadInterrupts, person: PersonPort
    ) -> None:
        self._observer, self._news, self._interrupts, self._person = observer, news, interrupts, person

    def answer(self, question: AskUser) -> str | None:
        self._observer.ask(question)
        labeled = replace(question, question=f"[{self._observer.name}] {question.question}")
        return self._through(lambda: self._person.answer(labeled))

    def decide(self, question: AskPermission) -> PersonDecided:
        labeled = replace(question, frame=self._observer.name)
        self._observer.ask(labeled)
        return self._through(lambda: self._person.decide(labeled))

    def _through(self, ask: Callable[[], T]) -> T:
        """Let the main thread ask, and return the answer or raise what was raised there."""
        answer: SimpleQueue[T | BaseException] = SimpleQueue()
        self._news.put(_ChildAsks(ask, answer))
        while True:
            if self._interrupts.signal:
                raise KeyboardInterrupt
            try:
                reply = next_of(answer, _LOOK_SECONDS)
            except Empty:
                continue
            if isinstance(reply, BaseException):
                raise reply
            return reply
