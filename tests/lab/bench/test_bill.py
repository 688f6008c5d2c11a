"""What a trial's bill records about the strategy in addition to money."""

import pytest

from stackmem.core.facts import ModelReplied
from stackmem.lab.bench.bill import billed_by_themselves, trial_bill
from stackmem.review.measure.moments import moments
from tests.memory.long_runs import worked
from tests.review.kept.test_costing import served, templated


@pytest.mark.parametrize(
    ("spelled", "acts"),
    [
        ("full", False), ("clear", False), ("clear:9000,keep=1", True), ("compact", False), ("compact:9000", True),
        ("window", True), ("mem1", True), ("agentfold", False), ("condenser", False), ("clear_cold", False),
        ("stackheap", False),
    ],
)  # fmt: skip
def test_rewritten_prompts_and_extra_calls_count_as_actions_of_a_strategy(spelled: str, acts: bool):
    run = list(moments((float(at), event) for at, event in enumerate(worked(spelled, 35, 1_500).events)))
    made = trial_bill(run, "claude-sonnet-5-5", 10.0)
    assert (made.acted > 0) is acts


def test_a_local_model_is_billed_in_the_tokens_that_its_server_evaluates():
    events = served("full", templated)
    run = list(moments((float(at), event) for at, event in enumerate(events)))
    reported = [moment.event.usage for moment in run if isinstance(moment.event, ModelReplied)]
    made = trial_bill(run, "", 10.0)
    assert made.bill_usd is None
    assert made.bill_uncached + made.bill_read == pytest.approx(sum(one.prompt for one in reported), rel=0.02)
    assert reported[0].prompt <= made.bill_uncached * 1.02 <= sum(one.uncached for one in reported)
    assert made.bill_output == sum(one.output for one in reported)
    assert (made.not_sent, made.acted) == (0, 0)
    assert trial_bill(run, "claude-sonnet-5-5", 10.0).bill_usd > 0


def test_a_trial_that_never_began_has_an_empty_bill():
    assert trial_bill([], "", 10.0).bill_uncached == 0


@pytest.mark.parametrize(
    ("models", "by_themselves"),
    [
        (("llamacpp/qwen", "openai/mine"), True), (("llamacpp/qwen", "claude-sonnet-5-5"), False),
        (("sim/bounded-reader",), False), (("demo",), False), (("openai/gpt-6.1-sol",), False),
    ],
)  # fmt: skip
def test_models_of_servers_without_a_price_are_billed_by_themselves(models, by_themselves):
    assert billed_by_themselves(models) is by_themselves
