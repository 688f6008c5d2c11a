"""``adaptive`` clears old results if the run recorded that or its name says so; otherwise it only appends."""

from itertools import pairwise

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from stackmem.core.budgets import Limits
from stackmem.core.messages import Thinking, ToolResult
from stackmem.core.strategy import clearing_of, keeps_thinking
from stackmem.memory import open_strategy
from stackmem.review.measure.cache import CacheRequest, simulate
from tests.build import play, started
from tests.memory.long_runs import chars, commands, results, whole, worked

CLEARS = "adaptive:read=0.25,results=cleared"
BOTH = f"{CLEARS},standing=counted"
KEEPS = "adaptive:read=0.25,results=kept"


def texts(view):
    return [(message.role, [repr(part) for part in message.parts]) for message in view.messages]


def test_the_default_clears_in_new_runs():
    assert clearing_of(open_strategy("adaptive")) == "paying"
    assert clearing_of(open_strategy("full")) is UNSET
    named, recorded = worked(BOTH, 80, 4_000), worked("adaptive:read=0.25", 80, 4_000, clearing="paying")
    assert texts(recorded.view) == texts(named.view)
    assert whole(recorded.view, 4_000)[0] > 1


@pytest.mark.parametrize(("spelled", "recorded"), [("adaptive:read=0.25", UNSET), (KEEPS, "paying")])
def test_older_runs_and_those_that_keep_results_only_append(spelled, recorded):
    asked = [texts(each.view) for each in worked(spelled, 80, 4_000, clearing=recorded).asked]
    for before, after in pairwise(asked):
        assert after[: len(before)] == before


def test_the_parameter_decides_about_the_prefix():
    assert open_strategy(KEEPS).prefix_stable
    assert not open_strategy("adaptive").prefix_stable


def test_thinking_is_sent_back_until_the_text_before_it_changes():
    assert keeps_thinking(open_strategy("adaptive"))
    assert not keeps_thinking(open_strategy("clear_paying"))
    said, world = commands(80, 4_000)
    thoughts = [replace(one, parts=(Thinking({"thinking": str(n)}), *one.parts)) for n, one in enumerate(said)]
    start = started("adaptive:read=0.25", limits=Limits(steps=None), clearing="paying")
    views = [asked.view for asked in play(*thoughts, start=start, world=world).asked]
    moved = [
        number for number, (old, new) in enumerate(pairwise(views), 1) if texts(new)[: len(old.messages)] != texts(old)
    ]
    assert moved
    last = 0
    for number, view in enumerate(views):
        last = number if number in moved else last
        sent = [
            part.raw["thinking"] for message in view.messages for part in message.parts if isinstance(part, Thinking)
        ]
        assert sent == [str(each) for each in range(last, number)]


def test_old_results_are_cleared_and_the_last_ones_stay():
    assert not open_strategy(CLEARS).prefix_stable
    run = worked(CLEARS, 80, 4_000)
    assert whole(run.view, 4_000)[-3:] == [78, 79, 80]
    assert "[cleared: 4,000 characters of output; call again if you need them]" in results(run.view)
    assert len(results(run.view)) == 80


def test_a_short_run_is_the_same():
    shown, kept = worked(CLEARS, 8, 400), worked("adaptive:read=0.25", 8, 400)
    assert [texts(asked.view) for asked in shown.asked] == [texts(asked.view) for asked in kept.asked]


def test_calls_keep_their_answers():
    for asked in worked(CLEARS, 80, 4_000).asked:
        calls = [part.id for message in asked.view.messages for part in message.parts if hasattr(part, "arguments")]
        answers = [
            part.call_id for message in asked.view.messages for part in message.parts if isinstance(part, ToolResult)
        ]
        assert answers == calls


def test_every_clearing_reads_what_the_one_before_left():
    run = worked(CLEARS, 120, 4_000)
    requests = [CacheRequest(10.0 * number, asked.view) for number, asked in enumerate(run.asked)]
    broken = [found for found in list(simulate(requests, 0, chars))[1:] if found.broken]
    assert broken
    assert all(found.read for found in broken)
    assert all(len(asked.view.breakpoints) <= 4 for asked in run.asked)


def test_a_pause_clears_what_would_be_written_again():
    asked, world = commands(40, 4_000)

    class Paused(type(world)):
        def perform(self, effect):
            self.tick_seconds = 400 if self.seconds == 30 else 1
            return super().perform(effect)

    limits = Limits(steps=None, seconds=100_000)
    spelled = "adaptive:read=0.025,results=cleared"
    run = play(*asked[:36], start=started(spelled, limits=limits), world=Paused(outputs=world.outputs))
    assert whole(run.view, 4_000)[0] > 1
    run = play(*asked[:36], start=started(spelled, limits=limits), world=world)
    assert whole(run.view, 4_000)[0] == 1


@pytest.mark.parametrize("spelled", ["adaptive", "adaptive:results=cleared", "adaptive:standing=counted"])
def test_equal_names_open_equal_strategies(spelled):
    assert open_strategy(spelled) == open_strategy(spelled)
    assert open_strategy(spelled).name == spelled
