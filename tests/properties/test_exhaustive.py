"""The machine, explored to the end of a few model facts: every way leads where docs/machine.md says."""

import pytest

from stackmem.core.budgets import Limits
from stackmem.memory import STRATEGIES
from tests.conftest import CAMPAIGN
from tests.properties.exhaustive import Exploration

OTHERS = sorted({*STRATEGIES} - {"stackheap"})


def test_every_sequence_under_stackheap():
    found = Exploration("stackheap", 6 if CAMPAIGN else 3).explore()
    assert found.states >= (1_000_000 if CAMPAIGN else 3_000)
    assert found.codes >= {
        "chunk_exists", "constraint", "heap_refused", "no_call", "no_chunk", "pop_refused", "push_refused",
        "several_calls", "too_deep", "unknown_tool", "window",
    }  # fmt: skip
    assert found.endings == {"popped": ("pop",), "stalled": ("window",), "model_error": ("no key",)}


def test_every_sequence_under_limits_and_checks():
    limits = Limits(steps=2, tokens=34_000, seconds=50.0)
    found = Exploration("stackheap", 5 if CAMPAIGN else 2, limits=limits, checked=True).explore()
    assert found.endings.keys() == {
        "popped", "stalled", "model_error", "limit:steps", "limit:tokens", "limit:seconds",
    }  # fmt: skip


@pytest.mark.parametrize("spelled", OTHERS)
def test_every_sequence_under_the_other_strategies(spelled):
    found = Exploration(spelled, 5 if CAMPAIGN else 2).explore()
    assert found.endings.keys() == {"popped", "stalled", "model_error"}
