"""The matrix of trials, and the name of a trial."""

import re

from hypothesis import given
from hypothesis import strategies as st

from stackmem.lab.bench.plan import BenchPlan, TrialSubject, Variant, trials

WORLD = TrialSubject("env_trap", "env_trap", horizon=60, noise=1.0)
TASK = TrialSubject("calculator", path="/somewhere/calculator", digest="d1")
TWO = (Variant("full", "full"), Variant("stackheap", "stackheap"))


def plan(**more) -> BenchPlan:
    return BenchPlan(**({"subjects": (WORLD, TASK), "models": ("demo", "sim/x"), "variants": TWO, "trials": 3} | more))


def ids(plan: BenchPlan) -> set[str]:
    return {trial.id for trial in trials(plan)}


def test_every_cell_has_each_seed_once():
    made = list(trials(plan()))
    cells = {(t.subject.task, t.model, t.variant.name, t.seed) for t in made}
    assert len(made) == len(cells) == len(ids(plan())) == plan().count == 2 * 2 * 2 * 3


def test_trials_that_are_compared_with_each_other_stand_next_to_each_other():
    first = list(trials(plan()))[:2]
    assert [(trial.subject.task, trial.seed) for trial in first] == [("env_trap", 1)] * 2
    assert [trial.variant.name for trial in first] == ["full", "stackheap"]


def test_a_plan_that_grows_keeps_the_names_of_its_trials():
    grown = plan(trials=5, variants=(*TWO, Variant("mask:10", "mask:10")), models=("demo", "sim/x", "other"))
    assert ids(plan()) < ids(grown)


def test_whatever_changes_what_a_trial_is_changes_its_name():
    others = [
        plan(settings={"depth": 2}),
        plan(variants=(Variant("full", "full", {"depth": 2}), TWO[1])),
        plan(variants=(Variant("full", "stackheap"), TWO[1])),
        plan(subjects=(TrialSubject("env_trap", "env_trap", horizon=60, noise=2.0), TASK)),
        plan(subjects=(WORLD, TrialSubject("calculator", path=TASK.path, digest="d2"))),
    ]
    for other in others:
        assert ids(other) != ids(plan())


def test_a_folder_that_was_moved_is_still_the_same_task():
    assert ids(plan(subjects=(WORLD, TrialSubject("calculator", path="/elsewhere", digest="d1")))) == ids(plan())


@given(name=st.text(max_size=60), model=st.text(max_size=60))
def test_a_trials_name_is_a_plain_file_name_whatever_it_is_made_of(name, model):
    (trial,) = trials(BenchPlan((TrialSubject(name),), (model,), (Variant(name, name),)))
    assert re.fullmatch(r"[A-Za-z0-9.=_-]{1,200}", trial.id)
    assert not trial.id.startswith(".")
