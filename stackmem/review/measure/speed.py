"""The speed at which a server evaluates prompts and writes replies, fitted to the times of a recorded run."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from stackmem.core.facts import ContextCompacted, ModelReplied
from stackmem.core.messages import Usage
from stackmem.core.retries import wait_seconds

from .moments import Moment


class Speed(Struct, frozen=True):
    """Seconds per newly evaluated prompt token, and per reply token."""

    prompt: float
    reply: float

    def seconds(self, usage: Usage) -> float:
        return evaluated_tokens(usage) * self.prompt + usage.output * self.reply


def evaluated_tokens(usage: Usage) -> int:
    """Return the tokens of the prompt that were not found in a cache."""
    return usage.prompt - usage.cache_read


def learned_speed(run: Iterable[Moment]) -> Speed | None:
    """Fit the speeds to the recorded times. Returns one speed for both if the times cannot separate them.

    None if the run has no reply with known usage and time.
    """
    timed = [
        (
            evaluated_tokens(reply.usage),
            reply.usage.output,
            max(0.0, moment.seconds - wait_seconds(moment.before.failures)),
        )
        for moment in run
        if isinstance(reply := moment.event, ModelReplied | ContextCompacted) and not reply.usage.estimated
    ]
    tokens = sum(prompt + written for prompt, written, _ in timed)
    total = sum(seconds for _, _, seconds in timed)
    if not tokens or not total:
        return None
    squares = sum(prompt * prompt for prompt, _, _ in timed), sum(written * written for _, written, _ in timed)
    mixed = sum(prompt * written for prompt, written, _ in timed)
    by_prompt = sum(prompt * seconds for prompt, _, seconds in timed)
    by_reply = sum(written * seconds for _, written, seconds in timed)
    determinant = squares[0] * squares[1] - mixed * mixed
    if determinant > 0:
        speed = Speed(
            (by_prompt * squares[1] - by_reply * mixed) / determinant,
            (by_reply * squares[0] - by_prompt * mixed) / determinant,
        )
        if speed.prompt > 0 and speed.reply > 0:
            return speed
    return Speed(total / tokens, total / tokens)
