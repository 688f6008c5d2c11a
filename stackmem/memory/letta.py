"""``letta:TOKENS``: blocks of memory that stand in the system prompt, and a search of the whole conversation.

The model edits its blocks with the tool ``memory``; every edit writes the system prompt anew, and with it the
provider's cache. Once the prompt reaches TOKENS, at least the oldest 40 % of the turns are summed up, and more of them
until seven tenths of TOKENS are left. What is evicted stays in recall: ``conversation_search`` finds passages of it.

Parameters: ``tokens`` (32,000).

Source: Letta (formerly MemGPT): memory blocks in the context, recall memory, sliding-window summary. Its search is over
embeddings too, ours over words (BM25). Archival memory and shared blocks are not here.
"""

from __future__ import annotations

from stackmem.core.messages import View
from stackmem.core.state import State
from stackmem.core.tools import ConversationSearch, Memory, Offer

from .shared.compacting import CompactionRequest, Summarizing, summary_rules
from .shared.linear import CHARS_PER_TOKEN, Linear
from .shared.offers import ONE_FRAME
from .shared.parameters import Count, Partial
from .shared.parameters import parameters as parse

REQUEST = CompactionRequest("summary", "compaction", 8_000, "cold")
EDIT_BLOCKS = Offer(
    Memory,
    text="Edit your memory blocks, text files under /memories that stand whole in every prompt: at most 64 with "
    "100,000 characters together.\nview: a block with line numbers. create: a new block with file_text. str_replace: "
    "old_str, which occurs once, by new_str. insert: insert_text after line insert_line (0 for the start). delete: a "
    "block. rename: old_path to new_path.",
)
_EVICTED, _MORE, _LEFT = 4, 1, 7  # tenths


def _due(most: int, window_tokens: int, shown: Linear) -> int | None:
    """How many of the oldest exchanges are evicted."""
    most = min(most, window_tokens * 4 // 5)
    if shown.tokens < most:
        return None
    past, dropped = shown.past, shown.cut.dropped
    for tenths in range(_EVICTED, 10, _MORE):
        turns = dropped + round((len(past) - dropped) * tenths / 10)
        evicted = sum(exchange.chars for exchange in past[dropped:turns])
        if shown.tokens - evicted / CHARS_PER_TOKEN <= most * _LEFT / 10:
            break
    return turns


def with_blocks(state: State) -> str:
    """The system prompt with every block behind it."""
    files = state.directory.files
    said = [f"- {path} ({len(files[path]):,} characters)\n{files[path].rstrip()}" for path in sorted(files)]
    return "\n".join([state.begun.system, "", f"MEMORY BLOCKS: {len(said) or 'none yet'}", *said])


class Blocks(Summarizing, frozen=True):
    """A summarizing strategy whose system prompt holds the files of the memory tool."""

    def render(self, state: State) -> View:
        shown = super().render(state)
        return View(with_blocks(state), shown.tools, shown.messages, shown.breakpoints)


def letta(parameters: str) -> Blocks:
    chosen = parse("letta", parameters, (Count("tokens", 32_000),))
    tools = (*ONE_FRAME[:-1], EDIT_BLOCKS, ConversationSearch, ONE_FRAME[-1])
    due = Partial(_due, (chosen.counts["tokens"],))
    return Blocks(chosen.name, REQUEST, due, summary_rules(REQUEST), tools, "full+blocks+search")
