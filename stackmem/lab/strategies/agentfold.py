"""``agentfold``: the task, summaries of earlier steps at several scales, and the last reply with its answer in full.

Each reply folds the interaction before it, in the text before its call. ``FOLD 12`` and a text make it a separate
block; ``FOLD 7-12`` and a text merge it with all blocks from step 7 on. An interaction that is not folded stays in full
until a later reply folds it.

Parameters: ``chars`` (4,000): the requested maximum length of a block.

Source: AgentFold (2025): multi-scale state summaries and the latest interaction; granular condensation and deep
consolidation. Its model is trained to fold; here it is only instructed to.
"""

from __future__ import annotations

import re

from msgspec import Struct

from stackmem.core.messages import Message, Text
from stackmem.core.state import State
from stackmem.memory.shared.linear import Cut, Exchange, Linear, OneConversation, Rules
from stackmem.memory.shared.parameters import Count, Partial
from stackmem.memory.shared.parameters import parameters as parse

_FOLD = re.compile(r"^FOLD (\d{1,9})(?:-\d{1,9})?[:\s]*$\n?", re.MULTILINE)


class Block(Struct, frozen=True):
    """Steps that a text replaces."""

    first: int
    last: int
    text: str


class Folds(Struct, frozen=True):
    """blocks: Oldest first.
    unfolded: Steps without a block, oldest first; the last one is the latest interaction.
    """

    blocks: tuple[Block, ...] = ()
    unfolded: tuple[int, ...] = ()


def _fold(folds: Folds, exchange: Exchange) -> Folds:
    """Apply the folding in the exchange's reply, which covers all earlier steps."""
    directive = _directive(exchange.said)
    if directive is None or not folds.unfolded:
        return Folds(folds.blocks, (*folds.unfolded, exchange.step))
    first, text = min(directive[0], folds.unfolded[0]), directive[1]
    remaining = tuple(block for block in folds.blocks if block.last < first)
    first = next((block.first for block in folds.blocks if block.last >= first), first)
    return Folds((*remaining, Block(first, folds.unfolded[-1], text)), (exchange.step,))


def _directive(reply: Message) -> tuple[int, str] | None:
    """Return the step from which a reply folds and the text that replaces the steps, or None if it does not fold."""
    for part in reply.parts:
        match = _FOLD.search(part.text) if isinstance(part, Text) else None
        if match and isinstance(part, Text) and part.text[match.end() :].strip():
            return int(match[1]), part.text[match.end() :].strip()
    return None


def _folds(linear: Linear) -> Folds:
    return linear.past.fold(_fold, Folds(), "agentfold")


def _cut(linear: Linear) -> Cut:
    folded = len(linear.past) - len(_folds(linear).unfolded)
    return Cut(folded, folded)


def _blocks(linear: Linear) -> str:
    """Return the blocks, once the exchanges that they replace are hidden."""
    blocks = [block for block in _folds(linear).blocks if linear.cut.dropped]
    texts = [f"[steps {block.first:,} to {block.last:,}]\n{block.text}" for block in blocks]
    return "\n".join(["SUMMARIES of steps that are no longer shown:", *texts]) if texts else ""


def _without_directive(reply: Message) -> Message:
    """Return a reply without its fold directive, as shown once the block exists."""
    parts = [
        Text(part.text[: match.start()].rstrip() or "(folded)")
        if isinstance(part, Text) and (match := _FOLD.search(part.text))
        else part
        for part in reply.parts
    ]
    return Message(reply.role, tuple(parts))


def _due(chars: int, state: State, linear: Linear) -> str:
    folds = _folds(linear)
    if not folds.unfolded:
        return ""
    first, last = folds.unfolded[0], folds.unfolded[-1]
    oldest = folds.blocks[0].first if folds.blocks else first
    return (
        f"FOLD DUE: steps {first} to {last}, behind {len(folds.blocks)} blocks that begin with step {oldest}. With "
        f"the call, write below FOLD {first}-{last} (or from an earlier step) what later steps need of them; at "
        f"most {chars:,} characters."
    )


def agentfold(parameters: str) -> OneConversation:
    parsed = parse("agentfold", parameters, (Count("chars", 4_000, low=200),))
    rules = Rules(_cut, _blocks, say=_without_directive)
    return OneConversation(parsed.name, rules, prompt="full+fold", tail=Partial(_due, (parsed.counts["chars"],)))
