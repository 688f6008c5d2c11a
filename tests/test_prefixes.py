"""Tests the check in benchmarks/real_models.py that each request extends the previous prompt."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from benchmarks._prefixes import prefix_uses
from stackmem.core.facts import ModelReplied
from stackmem.core.messages import Usage
from tests.build import do, play, pop, push, started
from tests.review.kept.test_cache_bill import kept


def run_of(tmp_path: Path, usages: list[Usage], *calls) -> Path:
    given = iter(usages)
    events = [
        replace(event, usage=next(given)) if isinstance(event, ModelReplied) else event
        for event in play(*calls, start=started("stackheap")).events
    ]
    return kept(tmp_path / "run", events)


def test_a_request_that_reuses_the_previous_prompt_passes(tmp_path: Path) -> None:
    usages = [Usage(3_000), Usage(50, 3_000), Usage(900, 2_000)]
    run = run_of(tmp_path, usages, do("list_files"), do("list_files"), pop())
    second, third = prefix_uses(run)
    assert (second.broken, second.cached, second.last) == (False, 3_000, 3_000)
    assert third.broken
    assert str(third).startswith("step 3 in frame-0: 2,000 of 3,050 tokens reused, ")


def test_only_the_last_message_may_be_read_again(tmp_path: Path) -> None:
    run = run_of(tmp_path, [Usage(9_000), Usage(9_000)], do("list_files"), pop())
    (second,) = prefix_uses(run)
    assert 0 < second.due < 9_000
    assert second.broken


def test_the_first_request_of_a_frame_has_no_prompt_before_it(tmp_path: Path) -> None:
    usages = [Usage(3_000), Usage(3_000), Usage(60, 3_000)]
    run = run_of(tmp_path, usages, push(), pop(), pop())
    assert [(use.step, use.frame, use.broken) for use in prefix_uses(run)] == [(3, "frame-0", False)]


def test_unreported_usage_is_not_judged(tmp_path: Path) -> None:
    estimated = Usage(3_000, estimated=True)
    run = run_of(tmp_path, [estimated, estimated, estimated], do("list_files"), do("list_files"), pop())
    assert list(prefix_uses(run)) == []
