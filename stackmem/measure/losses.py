"""What a run did twice because a frame ended, and what it called done that was not."""

from __future__ import annotations

from hashlib import sha256

from stackmem.core.facts import ChecksReturned, FramePopped, ToolReturned
from stackmem.core.frames import NOT_VERIFIED
from stackmem.core.messages import ToolCall
from stackmem.core.tools import ReadFile, RunCommand, tool_name, tools_that

from .moments import Moment

_LOOKING = tools_that(lambda behavior: behavior.reads_files)
_PASSED = ("", NOT_VERIFIED, "exit 0")

_Asked = tuple[str, ...]


class Rereads:
    """Reads of a file, or of the same lines of it, that showed again what a read of this run had shown last.

    What a frame still has, or had and lost, is paid for twice.
    """

    def __init__(self) -> None:
        self.value = 0
        self._shown: dict[_Asked, bytes] = {}

    def add(self, moment: Moment) -> None:
        call = _answered(moment)
        if call is None or call.name != tool_name(ReadFile) or not isinstance(moment.event, ToolReturned):
            return
        if moment.event.failed:
            return
        asked, text = _asked(call), _digest(moment.event.text)
        self.value += self._shown.get(asked) == text
        self._shown[asked] = text


class Rediscoveries:
    """Commands that had failed to the last in a frame that is over, and were tried again in another frame.

    This is the cost that the heap exists to remove. A command counts once for each frame that tries it again.
    """

    def __init__(self) -> None:
        self.value = 0
        self._failing: dict[str, set[_Asked]] = {}
        self._lost: set[_Asked] = set()
        self._tried: dict[str, set[_Asked]] = {}

    def add(self, moment: Moment) -> None:
        if isinstance(moment.event, FramePopped):
            self._lost |= self._failing.pop(moment.event.frame, set())
            self._tried.pop(moment.event.frame, None)
        call = _answered(moment)
        if call is None or call.name != tool_name(RunCommand) or not isinstance(moment.event, ToolReturned):
            return
        frame, asked = moment.before.running.id, _asked(call)
        tried = self._tried.setdefault(frame, set())
        self.value += asked in self._lost and asked not in tried
        tried.add(asked)
        failing = self._failing.setdefault(frame, set())
        if moment.event.failed:
            failing.add(asked)
        else:
            failing.discard(asked)


class FoundAgain:
    """Looks at the workspace that told, to the letter, what the same call had told a frame that is over.

    A fact was lost with that frame and found again. Calls that failed count among the rediscoveries instead.
    """

    def __init__(self) -> None:
        self.value = 0
        self._seen: dict[str, set[tuple[_Asked, bytes]]] = {}
        self._lost: set[tuple[_Asked, bytes]] = set()

    def add(self, moment: Moment) -> None:
        if isinstance(moment.event, FramePopped):
            self._lost |= self._seen.pop(moment.event.frame, set())
        call = _answered(moment)
        if call is None or call.name not in _LOOKING or not isinstance(moment.event, ToolReturned):
            return
        if moment.event.failed:
            return
        fact = (_asked(call), _digest(moment.event.text))
        seen = self._seen.setdefault(moment.before.running.id, set())
        self.value += fact in self._lost and fact not in seen
        seen.add(fact)


class RepeatedLooks:
    """Looks at the workspace that told to the letter what the same call had told before, or failed as it had before.

    Whether a frame, a window or a summary lost it, it was paid for again: strategies without frames show here too.
    """

    def __init__(self) -> None:
        self.value = 0
        self._told: dict[_Asked, bytes | None] = {}

    def add(self, moment: Moment) -> None:
        call = _answered(moment)
        if call is None or call.name not in _LOOKING or not isinstance(moment.event, ToolReturned):
            return
        asked, told = _asked(call), None if moment.event.failed else _digest(moment.event.text)
        self.value += asked in self._told and self._told[asked] == told
        self._told[asked] = told


def false_pops(moment: Moment) -> int:
    """Frames that said they were done while their verify command failed, and roots whose run the checks then failed."""
    match moment.event:
        case FramePopped(forced="", verified=verified):
            return int(verified not in _PASSED)
        case ChecksReturned(error=""):
            end = moment.after.end
            return int(moment.after.solved is False and end is not None and end.ending == "popped")
        case _:
            return 0


def _answered(moment: Moment) -> ToolCall | None:
    """The call that a tool's return answers."""
    pending = moment.before.pending
    if not isinstance(moment.event, ToolReturned) or pending is None or not pending.calls:
        return None
    return pending.calls[0]


def _asked(call: ToolCall) -> _Asked:
    """What a call asks for, told apart from others; blanks around it and a path's leading ``./`` do not matter."""
    given = call.arguments if isinstance(call.arguments, dict) else {}
    said = {name: str(value).strip() for name, value in given.items() if value is not None}
    if "path" in said:
        said["path"] = said["path"].removeprefix("./")
    return (call.name, *(f"{name}={said[name]}" for name in sorted(said)))


def _digest(text: str) -> bytes:
    return sha256(text.encode(errors="replace")).digest()
