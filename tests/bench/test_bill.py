"""What a trial's bill says of the strategy besides money."""

import pytest

from stackmem.bench.bill import trial_bill
from stackmem.measure.moments import moments
from tests.memory.long_runs import worked


@pytest.mark.parametrize(
    ("spelled", "acts"),
    [
        ("full", False), ("clear", False), ("clear:9000,keep=1", True), ("compact", False), ("compact:9000", True),
        ("window", True), ("mem1", True), ("agentfold", False), ("condenser", False), ("clear_cold", False),
        ("stackheap", False),
    ],
)  # fmt: skip
def test_a_strategy_acted_where_it_wrote_a_prompt_anew_or_made_a_call_of_its_own(spelled: str, acts: bool):
    run = list(moments((float(at), event) for at, event in enumerate(worked(spelled, 35, 1_500).events)))
    made = trial_bill(run, "claude-sonnet-5-5", 10.0)
    assert (made.acted > 0) is acts
