"""The machine, explored exhaustively for a few model facts: every path behaves as docs/machine.md says."""

import pytest

from stackmem.core.budgets import Limits
from stackmem.memory import STRATEGIES
from tests.campaigns import LONG, Campaign
from tests.conftest import CAMPAIGN
from tests.properties.exhaustive import Exploration, Found

OTHERS = sorted({*STRATEGIES} - {"stackheap"})
SHORT = Limits(steps=2, tokens=34_000, seconds=50.0)
STOPPED = {"interrupted", "workspace_error"}


def explored(name: str, exploration: Exploration) -> Found:
    """Explore everything; in a campaign piece by piece, so that a stopped one can resume."""
    pieces = exploration.pieces(2)
    campaign = Campaign(name, len(pieces), saved_every=1)
    states, facts = campaign.progress.counts.get("states", 0), campaign.progress.counts.get("facts", 0)
    for number in campaign:
        exploration.explore_from(pieces[number])
        found = exploration.found
        campaign.progress.counts = {"states": states + found.states, "facts": facts + found.facts}
    return exploration.found


@LONG
@pytest.mark.parametrize("facts", (5, 6) if CAMPAIGN else (3,))
def test_every_sequence_under_stackheap_with_each_fault_and_each_state_rendered_by_another_strategy(facts):
    found = explored(f"sequences of {facts} facts", Exploration("stackheap", facts, faults=True, others=True))
    assert found.states >= (1_000_000 if CAMPAIGN else 9_000)
    assert found.codes >= {
        "chunk_exists", "constraint", "heap_refused", "no_call", "no_chunk", "pop_refused", "push_refused",
        "several_calls", "too_deep", "unknown_tool", "window",
    }  # fmt: skip
    assert found.endings.keys() == {"popped", "stalled", "model_error", *STOPPED}
    assert found.endings["popped"] == ("pop",)


@LONG
def test_every_sequence_under_limits_and_checks_with_each_fault():
    facts = 5 if CAMPAIGN else 2
    exploration = Exploration("stackheap", facts, limits=SHORT, checked=True, faults=True)
    found = explored(f"sequences of {facts} facts under limits and checks", exploration)
    assert found.endings.keys() == {
        "popped", "stalled", "model_error", "limit:steps", "limit:tokens", "limit:seconds", *STOPPED,
    }  # fmt: skip


@pytest.mark.parametrize("spelled", OTHERS)
def test_every_sequence_under_the_other_strategies(spelled):
    found = Exploration(spelled, 5 if CAMPAIGN else 2).explore()
    assert found.endings.keys() == {"popped", "stalled", "model_error"}
