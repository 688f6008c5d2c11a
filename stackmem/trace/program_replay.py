"""Whether a record answers what a program asked the world."""

from __future__ import annotations

from msgspec import UNSET

from stackmem.core.facts import Event, ModelFailed, ModelReplied
from stackmem.core.program_facts import SourceLoaded, ToolAnswered, UserAnswered, Waited
from stackmem.core.requests import AskModel
from stackmem.errors import RulesDiffer
from stackmem.languages.course import Asked, Outside
from stackmem.languages.effects import AskUser, InvokeTool, LoadSource, Wait

from .difference import differing, prompt_difference
from .record import Record

_ANSWERS: dict[type, tuple[type, ...]] = {
    AskModel: (ModelReplied, ModelFailed),
    InvokeTool: (ToolAnswered,),
    LoadSource: (SourceLoaded,),
    AskUser: (UserAnswered,),
    Wait: (Waited,),
}


def answered(outside: Outside, record: Record, *, same_rules: bool) -> int:
    """How many prompt digests the record proved equal: 1 or 0.

    Raises:
        RulesDiffer: The record answers nothing of what was asked, or another prompt.

    """
    event = record.event
    effect = next((effect for branch, effect in outside.asked if answers(branch, effect, event)), None)
    if effect is None:
        raise RulesDiffer(differing(record.seq, event, outside))
    if not isinstance(effect, AskModel) or not isinstance(event, ModelReplied | ModelFailed) or not same_rules:
        return 0
    if event.prompt_digest != effect.view.digest:
        raise RulesDiffer(prompt_difference(record.seq, event.prompt_digest, effect.view, None))
    return 1


def answers(branch: int | None, effect: Asked, event: Event) -> bool:
    """Whether the fact answers the effect that was asked as ``branch`` of its group."""
    if not isinstance(event, _ANSWERS[type(effect)]):
        return False
    match event:
        case ModelReplied() | ModelFailed():
            return (None if event.branch is UNSET else event.branch) == branch
        case ToolAnswered() | SourceLoaded():
            return event.branch == (branch or 0)
        case _:
            return True
