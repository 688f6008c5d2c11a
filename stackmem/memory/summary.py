"""``summary:TOKENS``: once the prompt reaches TOKENS, the model sums up, and a new conversation begins.

The new one holds the task, the summary, and the last ``keep`` turns as they were. ``prefix=shared`` (default) asks in
the very conversation that is summed up, ``prefix=cold`` hands the old turns over as text, which costs more. At half of
the model's window a summary is due in any case.

A summary waits until it replaces at least a quarter of the threshold: long turns that stay would otherwise bring the
next one at once.

Parameters: ``tokens`` (24,000), ``keep`` (3), ``prefix`` (``shared``).

Source: auto-compact in Claude Code and Codex; the LLM summarising condenser of OpenHands.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.messages import ToolResult
from stackmem.core.state import State

from .shared.compacting import PREFIXES, THRESHOLD, Request, Summarising, standing_for, worth
from .shared.linear import Cut, Linear
from .shared.parameters import Choice, Count
from .shared.parameters import parameters as parse

REQUEST = Request("summary", "compaction", 8_000)
_REPLACES = 0.25  # of the threshold


class Summary(Struct, frozen=True):
    """Attributes:
    threshold: Tokens of the whole prompt at which a summary is due.
    keep: Turns that stay as they were.
    request: What is asked for, and how.
    """

    threshold: int = THRESHOLD
    keep: int = 3
    request: Request = REQUEST

    def due(self, state: State, shown: Linear) -> int | None:
        threshold = min(self.threshold, state.window_tokens // 2)
        turns = len(shown.past) - self.keep
        if shown.tokens < threshold or not worth(shown, turns, threshold * _REPLACES):
            return None
        return turns

    def cut(self, conversation: Linear) -> Cut:
        return conversation.cut

    def head(self, conversation: Linear) -> str:
        return standing_for(conversation, self.request.most)

    def shorten(self, result: ToolResult, step: int) -> ToolResult:
        return result


def summary(parameters: str) -> Summarising:
    known = (Count("tokens", THRESHOLD), Count("keep", 3), Choice("prefix", PREFIXES))
    chosen = parse("summary", parameters, known)
    request = replace(REQUEST, prefix=chosen.words["prefix"])
    return Summarising(chosen.name, Summary(chosen.counts["tokens"], chosen.counts["keep"], request))
