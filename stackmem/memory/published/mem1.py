"""``mem1``: the task, the last reply and its answer, and nothing else; each reply begins with a state of the work.

What a later step needs, the model carries over in the text beside its call, under the heading STATE. A reply that says
none forgets everything but its own call. So the prompt stays as long as a state and an output, however long the run.

Parameters: ``chars`` (4,000): of a state, as it is asked for.

Source: MEM1 (2025), whose model is trained to write its internal state anew at each turn; here it is only told to.
"""

from __future__ import annotations

from stackmem.core.state import State
from stackmem.memory.shared.linear import Linear, OneConversation, Rules, newest_shown
from stackmem.memory.shared.parameters import Count, Partial
from stackmem.memory.shared.parameters import parameters as parse


def _due(chars: int, state: State, shown: Linear) -> str:
    return (
        f"STATE DUE: beside the call, under the heading STATE, what later steps need; at most {chars:,} characters. Of "
        "this conversation only that reply and its answer will be shown."
    )


def mem1(parameters: str) -> OneConversation:
    chosen = parse("mem1", parameters, (Count("chars", 4_000, low=200),))
    rules = Rules(Partial(newest_shown, (1, 1)))
    return OneConversation(chosen.name, rules, prompt="full+state", tail=Partial(_due, (chosen.counts["chars"],)))
