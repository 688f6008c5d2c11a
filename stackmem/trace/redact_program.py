"""What a redacted copy does with the facts of a program's run.

Rule 1: the texts that the program was made of are masked like all else, but for those that stackmem brings itself.
Rule 2: what the interpreter derives is derived again from the masked texts; its words may be cut elsewhere, so that
    only its kind, its frame and its sizes must be as they were.
Rule 3: where a derived text still holds a match, it was put together of parts that hold none: there is no copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from stackmem.core.facts import ContextCompacted, Event, FramePushed, ModelFailed, ModelReplied, RunEnded
from stackmem.core.frames import partial_result
from stackmem.core.program_facts import ChunkKept, PhaseEnded, ProgramStarted, SourceLoaded, ToolAnswered, VariableSet
from stackmem.core.requests import AskModel, AskUser, Compact, Effect, answered
from stackmem.core.state import State
from stackmem.core.text import mark_cut
from stackmem.errors import UsageError
from stackmem.languages.frame.task_text import task_text
from stackmem.languages.operations import RunFrame

SourceOf = Callable[[str, bool], str]
"""The digest that a source has in the copy, by its digest; True where its text is left as it is."""
Masked = Callable[[Any], Any]

PACKAGED = "stackmem:"
_SAME = frozenset({"frame", "forced", "verified", "kind", "ending"})
_QUESTION_CHARS = 4_000
_LABELS = ("HINTS", "RETURN")


def unchanged(digest: str, packaged: bool) -> str:
    """For records that name no sources."""
    return digest


def masked_fact(event: Event, masked: Masked, source_of: SourceOf) -> Event:
    """A fact of a run with every text in it masked; words of ours that only a program's facts have are left."""
    if isinstance(event, SourceLoaded) and event.path.startswith(PACKAGED):
        return replace(event, digest=source_of(event.digest, True)) if event.digest else event
    found: Event = masked(event)
    match found, event:
        case ProgramStarted(), ProgramStarted():
            options = {name: masked(value) for name, value in event.options.items()}
            digest = source_of(event.digest, False)
            return replace(found, language=event.language, options=options, digest=digest)
        case SourceLoaded(), SourceLoaded(digest=digest) if digest:
            return replace(found, digest=source_of(digest, False))
        case ToolAnswered(), ToolAnswered():
            return replace(found, failed=event.failed)
        case _:
            return found


def outside_answer(event: Event, effect: Effect, state: State, number: int) -> Event:
    """The answer of the world, for the prompt that the copy's program asks with.

    Raises:
        UsageError: With the matches replaced the program asks for something else.

    """
    if isinstance(event, RunEnded):
        return stopped(event, effect, state)
    asked = answered(effect, event)
    if asked is None:
        raise UsageError(
            f"record {number}: with the matches replaced the program asks for something else than "
            f"{type(event).__name__} answers; use a narrower pattern"
        )
    return with_prompt(event, asked)


def with_prompt(event: Event, asked: object) -> Event:
    """A model's answer with the digest of the prompt that is asked in the copy; any other answer as it is."""
    ask = asked.ask if isinstance(asked, Compact) else asked
    if isinstance(event, ModelReplied | ModelFailed | ContextCompacted) and isinstance(ask, AskModel):
        return replace(event, prompt_digest=ask.view.digest)
    return event


def stopped(event: RunEnded, upcoming: Event | Effect | None, state: State) -> RunEnded:
    """How a run that was stopped from outside ends in the copy."""
    if event.ending == "interrupted":
        return replace(event, result=partial_result(state))
    if event.ending == "input_needed" and isinstance(upcoming, AskUser):
        return replace(event, result=mark_cut(upcoming.question, _QUESTION_CHARS))
    return event


def derived_again(event: Event, derived: Event | None, masked: Masked, number: int) -> Event:
    """What the program derives in the copy, in place of the fact that it derived then.

    Raises:
        UsageError: It is another fact, or one that still holds a match.

    """
    if derived is None or _shape(derived) != _shape(event):
        told = "nothing" if derived is None else type(derived).__name__
        raise UsageError(
            f"record {number}: with the matches replaced the program goes another way ({type(event).__name__} would "
            f"become {told}); use a pattern that leaves its words and names apart"
        )
    seen = _searched(derived)
    if masked(seen) != seen:
        raise UsageError(
            f"record {number}: {type(event).__name__} would still hold a match, in words of the language or put "
            "together of parts that hold none; use a narrower --pattern, or one for the parts"
        )
    return derived


def _searched(derived: Event) -> Event:
    """The fact without its digests, and without what stackmem itself adds to a task."""
    if isinstance(derived, PhaseEnded):
        return replace(derived, digests=dict.fromkeys(derived.digests, ""))
    if isinstance(derived, FramePushed) and derived.program is not UNSET:
        own = task_text(RunFrame("", ""), "").strip().removesuffix(".")
        lines = [line for line in derived.program.task.splitlines() if line not in _LABELS and not line.startswith(own)]
        told = "\n".join(line.removeprefix("INPUT ") for line in lines)
        return replace(derived, program=replace(derived.program, task=told))
    return derived


class ProgramNames:
    """The names of a program's chunks and variables, each of which is another one's in the copy, too."""

    def __init__(self) -> None:
        self._was: dict[tuple[type, str], str] = {}

    def refuse_alike(self, event: Event, now: Event, number: int) -> None:
        """Take note of a name.

        Raises:
            UsageError: It has become one with another.

        """
        if not isinstance(event, ChunkKept | VariableSet) or not isinstance(now, ChunkKept | VariableSet):
            return
        if self._was.setdefault((type(now), now.name), event.name) != event.name:
            raise UsageError(
                f"record {number}: {type(event).__name__} would have the name {now.name[:80]!a} of another one, as "
                "matches that differ are alike once replaced; use a pattern that leaves names apart"
            )


def is_stop(event: Event, upcoming: Event | Effect | None, state: State) -> bool:
    """Whether the fact is a run's end that came from outside, between two facts of its program."""
    if not isinstance(event, RunEnded) or state.end is not None or isinstance(upcoming, Effect):
        return False
    return event.ending in ("interrupted", "workspace_error") and not isinstance(upcoming, RunEnded)


def _shape(value: Any) -> Any:
    """What of a derived fact must hold: kinds, ids and sizes, and no text or digest."""
    match value:
        case str():
            return ""
        case Struct():
            names = value.__struct_fields__
            inner = {name: getattr(value, name) for name in names}
            return type(value), {name: one if name in _SAME else _shape(one) for name, one in inner.items()}
        case dict() | tuple():
            return len(value)
        case _:
            return value
