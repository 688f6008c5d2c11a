"""How many trials may call one provider in parallel."""

from stackmem.lab.bench.runner import QUIET_SECONDS, Pace, provider_of


def test_the_provider_is_the_part_before_the_name():
    names = {"claude-sonnet-5-5": "anthropic", "anthropic/x": "anthropic", "openai/q": "openai", "script:a/b": "script"}
    assert {model: provider_of(model) for model in names} == names
    assert (provider_of("demo"), provider_of("")) == ("demo", "")


def test_nothing_is_held_back_before_anybody_complains():
    assert Pace({}).may_start("openai", 1_000)


def test_a_bound_that_was_asked_for_holds():
    pace = Pace({"anthropic": 4})
    assert [pace.may_start("anthropic", running) for running in (0, 3, 4)] == [True, True, False]
    assert pace.may_start("openai", 4)


def test_a_complaint_halves_what_may_run():
    pace = Pace({})
    pace.throttled("anthropic", 8, 0.0)
    assert (pace.allowed("anthropic"), pace.may_start("anthropic", 4)) == (4, False)


def test_complaints_of_one_burst_halve_once():
    pace = Pace({})
    for at in (0.0, 1.0, QUIET_SECONDS - 0.1):
        pace.throttled("anthropic", 8, at)
    assert pace.allowed("anthropic") == 4
    pace.throttled("anthropic", 4, QUIET_SECONDS)
    assert pace.allowed("anthropic") == 2


def test_one_trial_may_always_run():
    pace = Pace({})
    for at in range(20):
        pace.throttled("anthropic", 1, at * QUIET_SECONDS)
    assert pace.may_start("anthropic", 0)


def test_it_grows_back_by_one_a_round_and_never_above_the_bound():
    pace = Pace({"anthropic": 6})
    pace.throttled("anthropic", 6, 0.0)
    for _ in range(4):
        pace.finished("anthropic")
    assert 4 < pace.allowed("anthropic") < 4.5
    for _ in range(100):
        pace.finished("anthropic")
    assert pace.allowed("anthropic") == 6
