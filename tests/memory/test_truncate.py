"""As much of the newest history as fits."""

from stackmem.memory import open_strategy
from tests.memory.long_runs import bill, cached, head, results, whole, worked


def history(view):
    return sum(len(text) for text in results(view))


def test_fitting_history_is_shown_in_full():
    assert whole(worked("truncate", 30).view) == list(range(1, 31))


def test_the_history_never_holds_more_than_its_tokens_and_a_cut_leaves_half():
    played = worked("truncate:1000", 100, 240)
    sizes = [history(asked.view) for asked in played.asked]
    assert max(sizes) <= 2_500
    cuts = [now for now, before in zip(sizes[1:], sizes, strict=False) if now < before]
    assert len(cuts) > 5
    assert all(800 < size <= 1_250 for size in cuts)


def test_the_last_turn_stays_whole_however_long_it_is():
    view = worked("truncate:10", 5, 4_000).view
    assert whole(view, 4_000) == [5]
    assert head(view).startswith("[Steps up to 4 ")


def test_to_says_what_a_cut_leaves_and_half_is_the_default():
    # The rule is written as (most, to), in tokens.
    assert open_strategy("truncate:3000").rules.cut.arguments[1] == 1_500
    assert open_strategy("truncate:3000,to=1000").rules.cut.arguments[1] == 1_000
    assert open_strategy("truncate:100,to=5000").rules.cut.arguments[1] == 100


def test_cutting_to_half_costs_less_than_cutting_to_the_brim():
    half, brim = (cached(worked(f"truncate:2000,to={to}", 100, 240)) for to in (1_000, 2_000))
    assert bill(half) < bill(brim) * 0.7
