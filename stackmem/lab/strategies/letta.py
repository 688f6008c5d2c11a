"""``letta:TOKENS``: memory blocks in the system prompt, and a search of the whole conversation.

The model edits its blocks with the tool ``memory``. Every edit changes the system prompt and so invalidates the
provider's cache. Once the prompt reaches TOKENS, at least the oldest 40 % of the turns are summarized, and more of them
until the prompt is down to seven tenths of TOKENS. ``conversation_search`` still finds passages of the evicted turns.

Parameters: ``tokens`` (32,000).

Source: Letta (formerly MemGPT): memory blocks in the context, recall memory, sliding-window summary. Letta also
searches by embeddings, we only by words (BM25). Archival memory and shared blocks are not implemented.
"""

from __future__ import annotations

from stackmem.core.conversation.calls import ConversationSearch
from stackmem.core.memory_directory import Memory
from stackmem.core.messages import View
from stackmem.core.state import State
from stackmem.core.tools import Offer
from stackmem.memory.shared.linear import CHARS_PER_TOKEN, Linear
from stackmem.memory.shared.offers import ONE_FRAME
from stackmem.memory.shared.parameters import Count, Partial
from stackmem.memory.shared.parameters import parameters as parse

from .compacting import CompactionRequest, Summarizing, summary_rules

REQUEST = CompactionRequest("summary", "compaction", 8_000, "cold")
EDIT_BLOCKS = Offer(
    Memory,
    text="Edit your memory blocks, text files under /memories shown in full in every prompt: at most 64 with "
    "100,000 characters in all.\nview: a block with line numbers. create: a new block with file_text. str_replace: "
    "old_str, which must occur once, with new_str. insert: insert_text after line insert_line (0 for the start). "
    "delete: a block. rename: old_path to new_path.",
)
_EVICTED, _MORE, _REMAINING = 4, 1, 7  # tenths


def _due(most: int, window_tokens: int, linear: Linear) -> int | None:
    """Return how many of the oldest exchanges are evicted, or None."""
    most = min(most, window_tokens * 4 // 5)
    if linear.tokens < most:
        return None
    past, dropped = linear.past, linear.cut.dropped
    for tenths in range(_EVICTED, 10, _MORE):
        turns = dropped + round((len(past) - dropped) * tenths / 10)
        evicted = sum(exchange.chars for exchange in past[dropped:turns])
        if linear.tokens - evicted / CHARS_PER_TOKEN <= most * _REMAINING / 10:
            break
    return turns


def with_blocks(state: State) -> str:
    """Return the system prompt with every block after it."""
    files = state.directory.files
    blocks = [f"- {path} ({len(files[path]):,} characters)\n{files[path].rstrip()}" for path in sorted(files)]
    return "\n".join([state.begun.system, "", f"MEMORY BLOCKS: {len(blocks) or 'none yet'}", *blocks])


class Blocks(Summarizing, frozen=True):
    """A summarizing strategy whose system prompt contains the files of the memory tool."""

    def render(self, state: State) -> View:
        view = super().render(state)
        return View(with_blocks(state), view.tools, view.messages, view.breakpoints)


def letta(parameters: str) -> Blocks:
    parsed = parse("letta", parameters, (Count("tokens", 32_000),))
    tools = (*ONE_FRAME[:-1], EDIT_BLOCKS, ConversationSearch, ONE_FRAME[-1])
    due = Partial(_due, (parsed.counts["tokens"],))
    return Blocks(parsed.name, REQUEST, due, summary_rules(REQUEST), tools, "full+blocks+search")
