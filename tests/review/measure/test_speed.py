"""The speed of a server, estimated from the times of a run."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stackmem.core.facts import ModelReplied
from stackmem.core.messages import Usage
from stackmem.review.measure.moments import Moment
from stackmem.review.measure.speed import Speed, learned_speed
from tests.build import do, play, pop

from .runs import seen


def timed(usages: list[Usage], speed: Speed) -> list[Moment]:
    """A run whose replies take as long as a server of this speed needs."""
    given = iter(usages)
    found = []
    for moment in seen(play(*[do("list_files")] * (len(usages) - 1), pop())):
        if isinstance(moment.event, ModelReplied):
            usage = next(given)
            at = moment.since + speed.seconds(usage)
            found.append(replace(moment, at=at, event=replace(moment.event, usage=usage)))
        else:
            found.append(moment)
    return found


def test_both_speeds_are_told_apart() -> None:
    speed = Speed(0.02, 0.3)
    usages = [Usage(uncached=1_000, output=40), Usage(50, 1_000, output=90), Usage(80, 1_100, output=10)]
    found = learned_speed(timed(usages, speed))
    assert found is not None
    assert (found.prompt, found.reply) == (pytest.approx(0.02), pytest.approx(0.3))


def test_one_reply_tells_one_speed() -> None:
    found = learned_speed(timed([Usage(uncached=900, output=100)], Speed(0.01, 0.01)))
    assert found is not None
    assert found.prompt == found.reply == pytest.approx(0.01)


def test_estimated_tokens_and_runs_without_times_tell_nothing() -> None:
    assert learned_speed(timed([Usage(uncached=900, output=100, estimated=True)], Speed(0.01, 0.01))) is None
    assert learned_speed([]) is None
