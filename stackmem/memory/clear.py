"""``clear:TOKENS``: once the prompt reaches TOKENS, all tool results but the last ``keep`` are cleared.

Until the trigger it is ``full``. A clearing is one new writing of what follows the first cleared result; it waits until
it frees at least a tenth of the trigger, so that a history which is long without its results is not cleared again at
every step.

Parameters: ``tokens`` (100,000), ``keep`` (3).

Source: Anthropic's context editing, ``clear_tool_uses_20250919`` (trigger, keep, clear_at_least), done by the client.
Tokens are estimated: characters / 2.5, of the whole prompt.
"""

from __future__ import annotations

from .shared.linear import CHARS_PER_TOKEN, Cut, Linear, OneConversation, Rules, freed, one_line
from .shared.parameters import Count, Partial
from .shared.parameters import parameters as parse

_AT_LEAST = 10  # the part of the trigger that a clearing frees: one tenth


def cleared(trigger: int, keep: int) -> Rules:
    """All results but the last ``keep`` are a line each, once the whole prompt has ``trigger`` tokens."""
    return Rules(Partial(_cut, (trigger, keep)), shorten=Partial(one_line, ("cleared",)))


def _cut(trigger: int, keep: int, conversation: Linear) -> Cut:
    short = len(conversation.past) - keep
    if conversation.tokens < trigger or short <= conversation.cut.short:
        return conversation.cut
    saved = sum(freed(conversation, number) for number in range(conversation.cut.short, short))
    worth = saved * _AT_LEAST >= trigger * CHARS_PER_TOKEN
    return Cut(0, short) if worth else conversation.cut


def clear(parameters: str) -> OneConversation:
    chosen = parse("clear", parameters, (Count("tokens", 100_000), Count("keep", 3)))
    return OneConversation(chosen.name, cleared(*chosen.counts.values()))
