"""Measure how much of the previous prompt each request reused, by the cached tokens that the server reported."""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from stackmem.core.facts import ModelReplied
from stackmem.review.kept.cache_bill import moments_of
from stackmem.review.measure.cached_steps import with_prompts
from stackmem.review.measure.prefix import PromptBlock, text_of

CHARS_PER_TOKEN, MARKS = 2, 20
"""Upper limit for the tokens of a message: one per two characters, plus the template's marks around it."""


class PrefixUse(Struct, frozen=True):
    """How many tokens of the frame's previous prompt a request found in the server's cache.

    Attributes:
        due: The previous prompt without its last message, which a strategy may rewrite.
    """

    step: int
    frame: str
    cached: int
    last: int
    due: int

    @property
    def broken(self) -> bool:
        return self.cached < self.due

    def __str__(self) -> str:
        return (
            f"step {self.step} in {self.frame}: {self.cached:,} of {self.last:,} tokens reused, {self.due:,} expected"
        )


def prefix_uses(run_dir: Path) -> Iterator[PrefixUse]:
    """Yield the reuse of every request, except the first of each frame and those without reported tokens."""
    last: dict[str, tuple[int, int]] = {}
    for moment in with_prompts(moments_of(run_dir)):
        reply, view = moment.event, moment.view
        if not isinstance(reply, ModelReplied) or view is None or reply.usage.estimated:
            continue
        frame = moment.before.running.id
        if frame in last:
            tokens, due = last[frame]
            yield PrefixUse(moment.after.step, frame, reply.usage.cache_read, tokens, due)
        message = view.messages[-1]
        chars = sum(len(text_of(PromptBlock(message.role, part))) for part in message.parts)
        last[frame] = reply.usage.prompt, max(0, reply.usage.prompt - chars // CHARS_PER_TOKEN - MARKS)
