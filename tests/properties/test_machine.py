"""A random model and a random world against the machine: invariants after every fact."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from stackmem.core.requests import AskModel
from stackmem.memory import STRATEGIES
from tests.conftest import CAMPAIGN
from tests.properties.watched_run import WatchedRun
from tests.spellings import SHORT

SPELLED = sorted({*STRATEGIES, *SHORT, *(f"stackheap:index={place}" for place in ("delta", "tail", "system"))})
ENDED = {
    "finished", "solved", "unsolved", "stalled", "model_error", "limit:steps", "limit:tokens", "limit:usd",
    "limit:seconds",
}  # fmt: skip
LONG_FACTS = 150
seeds = st.randoms(use_true_random=True)


class Machine(RuleBasedStateMachine):
    """A state machine that adds one fact at a time, so that a failure shrinks to the few that matter."""

    @initialize(spelled=st.sampled_from(SPELLED), rng=seeds)
    def start(self, spelled, rng):
        self.run = WatchedRun(spelled, rng)

    @precondition(lambda self: isinstance(self.run.upcoming, AskModel))
    @rule(rng=seeds)
    def the_model_answers(self, rng):
        self.run.answered(rng)

    @precondition(lambda self: not isinstance(self.run.upcoming, AskModel | None))
    @rule(rng=seeds)
    def the_world_answers(self, rng):
        self.run.answered(rng)

    @precondition(lambda self: self.run.upcoming is None)
    @rule()
    def a_run_that_is_over_has_an_outcome(self):
        assert self.run.state.outcome in ENDED

    def teardown(self):
        if hasattr(self, "run"):
            self.run.finish()


TestMachine = Machine.TestCase
TestMachine.settings = settings() if CAMPAIGN else settings(max_examples=15, stateful_step_count=40)


@given(st.sampled_from(SPELLED), st.integers(0, 2**32))
@settings(max_examples=1_000 if CAMPAIGN else 40)
def test_long_runs_hold_every_rule(spelled, seed):
    rng = Random(seed)
    run = WatchedRun(spelled, rng)
    for _ in range(LONG_FACTS):
        run.answered(rng)
    run.finish()
