"""A recorded run told again as another strategy would have held it: the same replies and results, another state.

Rule 1: the actions stand. Nothing is asked of a model, and no reply becomes another.
Rule 2: where the strategy has frames, they are those of the recording.
Rule 3: where it has none, all frames are one conversation. A push is answered at once, as a chat answers each call
        before the next reply; what the frame returned answers its pop, or follows as a notice where nothing popped it.
Rule 4: summaries of the recorded strategy are left out; they are no part of what the model did. What a program asked a
        model in its own words is no part of a conversation.
"""

from __future__ import annotations

from msgspec.structs import replace

from stackmem.core import frames
from stackmem.core.facts import ContextCompacted, Event, FramePopped, FramePushed, ModelReplied, RunForked, RunStarted
from stackmem.core.machine import evolve
from stackmem.core.messages import Usage
from stackmem.core.state import Notice, Result, State, Turn

from .moments import Moment

_NOTHING = Usage()
_NOT_DONE = "not executed: the frame was ended first"


class OtherStrategy:
    """The state of the run as the other strategy has it, moment by moment."""

    def __init__(self, start: RunStarted, *, framed: bool) -> None:
        """``start`` is the recorded one with the other strategy's name, prompt and tools."""
        self._start = start
        self._framed = framed
        self.state = State()

    def take(self, moment: Moment, usage: Usage = _NOTHING) -> None:
        """Go on by one moment.

        Args:
            usage: Of a reply: what it used under the other strategy.
        """
        match moment.event:
            case RunStarted():
                self.state = evolve(State(), self._start)
            case RunForked() as event:
                start = replace(self._start, task=event.start.task, limits=event.start.limits)
                self._go_on(moment, replace(event, start=start))
            case ModelReplied() as event if self._framed or moment.before.running.program != "steps":
                self.state = evolve(self.state, replace(event, usage=usage))
            case ContextCompacted() | ModelReplied():
                pass
            case event:
                self._go_on(moment, event)

    def compacted(self, event: ContextCompacted) -> None:
        """Take in a summary that the other strategy asked for."""
        self.state = evolve(self.state, event)

    def _go_on(self, moment: Moment, event: Event) -> None:
        if self._framed:
            self.state = evolve(self.state, event)
            return
        for turn in _turns(moment):
            self.state = frames.tell(self.state, turn)
        after, pending = moment.after, self.state.pending if moment.after.pending else None
        self.state = replace(self.state, heap=after.heap, notes=after.notes, directory=after.directory, pending=pending)


def _turns(moment: Moment) -> list[Turn]:
    """What the moment adds to the one conversation that all frames are."""
    before, after = moment.before, moment.after
    calls = before.pending.calls if before.pending else ()
    new = list(moment.new_turns)
    match moment.event:
        case FramePushed(name=name):
            text = f"frame {name!r} begins; what it returns follows"
            return [Result(one.id, text, failed=False, heap=after.heap, step=after.step) for one in calls[:1]]
        case FramePopped() if calls:
            told = new[-1] if new else None
            if not isinstance(told, Result):
                return []  # the root's end, which nobody is told of
            rest = [replace(told, call_id=one.id, text=_NOT_DONE, failed=True) for one in calls[1:]]
            return [replace(told, call_id=calls[0].id), *rest]
        case FramePopped():
            return [Notice(turn.text, turn.heap) for turn in new if isinstance(turn, Result)]
        case _:
            return new
