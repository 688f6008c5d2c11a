"""Compaction: replaces a frame's conversation by a summary that the model writes.

Rule 1: A compaction is not a step, a stall or a call. Its tokens and cost count, and the limits apply.
Rule 2: No turn is deleted. The summary is one more turn, and the strategy decides how to render it.
Rule 3: Between two compactions of a frame, the model replies at least once.
"""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from . import limits
from .facts import ContextCompacted
from .guidance import reading, sizing
from .images import image_chars
from .messages import ReplyPart, Text, View
from .requests import AskModel, Compact, Effect
from .retries import wait_seconds
from .state import Compaction, Frame, Notice, Reply, Result, State, Turn
from .strategy import MemoryStrategy, SummaryStrategy


def model_request(state: State, view: View) -> AskModel:
    """Return the request that sends ``view`` to the model."""
    frame, start = state.running, state.begun
    return AskModel(
        view=view,
        step=state.step + 1,
        facts=state.facts,
        attempt=len(state.failures) + 1,
        wait_seconds=wait_seconds(state.failures),
        frame=frame.name,
        depth=frame.depth,
        chunks=tuple(state.heap.chunks),
        model=frame.model,
        left_seconds=limits.left_seconds(state),
        expects="any" if _takes_answers(state) else "call",
        reply_tokens=None if start.small is UNSET else sizing.reply_tokens(state, start.small),
        announced=() if start.small is UNSET else sizing.announced_tools(state, start.small),
        reads_together=reading.allows(start),
        parallel=state.parallel.name,
        facts_before=state.parallel.facts,
    )


def _takes_answers(state: State) -> bool:
    """Return whether a reply without a call would be the result of a user's request, as in a conversation."""
    if state.session is None:
        return False
    return state.running.request or (state.session.rules.policy == "flat" and not state.running.depth)


def compact(state: State, view: View, up_to_step: int) -> Compact:
    """Return the request to summarize the running frame's conversation up to the given reply and its answer.

    Args:
        view: The prompt, which ends with the message that asks for the summary.
    """
    return Compact(replace(model_request(state, view), expects="text"), state.running.id, up_to_step)


def turns_after(frame: Frame, up_to_step: int) -> list[Turn]:
    """Return the turns after the reply of that step and its answer, without compactions."""
    newest: list[Turn] = []
    for turn in reversed(frame.turns):
        if isinstance(turn, Reply) and turn.step <= up_to_step:
            break
        newest.append(turn)
    newest.reverse()
    first = next((index for index, turn in enumerate(newest) if isinstance(turn, Reply)), len(newest))
    return [turn for turn in newest[first:] if not isinstance(turn, Compaction)]


def upkeep_effect(state: State, effect: Effect | None) -> Effect | None:
    """Return the strategy's effect, or None for a compaction that would directly follow another one."""
    if not isinstance(effect, Compact):
        return effect
    for turn in reversed(state.running.turns):
        if isinstance(turn, Reply | Compaction):
            return None if isinstance(turn, Compaction) else effect
    return effect


def requested_summary(state: State, strategy: MemoryStrategy) -> Effect | None:
    """Return the request for the summary that the user asked for. None if the strategy has no summaries, or if there
    is nothing to summarize yet.
    """
    is_due = state.session is not None and state.session.compacting
    return upkeep_effect(state, strategy.summary(state)) if is_due and isinstance(strategy, SummaryStrategy) else None


def why_no_summary(state: State, strategy: MemoryStrategy) -> str:
    """Return why the user cannot ask for a summary now. Empty if it is possible."""
    if not isinstance(strategy, SummaryStrategy):
        return f"the strategy {strategy.name} has no summaries; /strategy compact continues with one that has"
    if state.session is None or not state.stack or upkeep_effect(state, strategy.summary(state)) is None:
        return "nothing to summarize yet"
    return ""


def apply_compaction(state: State, event: ContextCompacted) -> State:
    """Return the state with the summary in place of the turns that it covers."""
    frame = state.running
    shorter = replace(
        frame,
        turns=frame.turns.append(Compaction(event.text, event.up_to_step, state.step, state.heap, event.block or None)),
        prompt_tokens=0,
        chars=frame.opened_chars + len(event.text) + sum(map(turn_chars, turns_after(frame, event.up_to_step))),
        told=frame.told - {"window"},
        standing_seen=-1 if frame.standing_seen else 0,
    )
    session = replace(state.session, compacting=False) if state.session is not None else None
    after = replace(state.with_cost(event), stack=(*state.stack[:-1], shorter), session=session)
    if limits.closing_refusal(after) is not None:
        return after
    return replace(after, stack=(*after.stack[:-1], replace(shorter, refused=0)))


def turn_chars(turn: Turn) -> int:
    """Estimate the characters that a turn adds to a prompt."""
    if isinstance(turn, Reply):
        return reply_chars(turn.parts)
    return len(turn.text) + (image_chars(turn.images) if isinstance(turn, Result | Notice) else 0)


def reply_chars(parts: tuple[ReplyPart, ...]) -> int:
    return sum([len(part.text) if isinstance(part, Text) else len(repr(part)) for part in parts])
