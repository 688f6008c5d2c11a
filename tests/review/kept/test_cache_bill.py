"""The bill of a run with a model from the table."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from stackmem.core.errors import TraceError, UsageError
from stackmem.core.facts import Event, ModelReplied
from stackmem.core.messages import Usage
from stackmem.core.pricing import cost_usd
from stackmem.models.catalog import lookup
from stackmem.review.kept.cache_bill import cache_bill
from stackmem.review.measure.cached_steps import bill
from stackmem.review.trace_tables import cache_lines
from stackmem.trace.store import TraceWriter
from tests.build import alloc, play, pop, push, started


def kept(folder: Path, events: list[Event]) -> Path:
    """Create a run folder with these events in its trace, a second apart."""
    folder.mkdir()
    seconds = iter(range(1_000, 9_000))
    writer = TraceWriter(folder / "trace.jsonl", lambda: float(next(seconds)))
    for event in events:
        writer.append(event)
    writer.close()
    return folder


def reported(events: list[Event], factor: int) -> list[Event]:
    """Return the same events by a model whose usage is this multiple of the o200k count."""
    found = []
    for event in events:
        usage = Usage(uncached=factor * 1_000, output=20)
        found.append(replace(event, usage=usage) if isinstance(event, ModelReplied) else event)
    return found


def test_the_bill_is_the_sum_of_its_steps_by_the_prices_of_the_row(tmp_path):
    run = kept(tmp_path / "run", play(push(), alloc("a"), pop(), pop()).events)
    found, row = cache_bill(run, "claude-sonnet-5-5"), lookup("claude-sonnet-5-5")
    assert row is not None
    assert row.price is not None
    assert found.bill.usd == pytest.approx(sum(cost_usd(one.usage, row.price) for one in found.steps), abs=1e-6)
    assert found.bill.usd_without_cache is not None
    assert found.bill.usd < found.bill.usd_without_cache
    assert (found.bill.requests, found.minimum_tokens, found.bill.usage.output) == (4, 512, 80)


def test_a_model_is_counted_by_the_known_factor_unless_the_run_is_its_own(tmp_path):
    events = play(alloc("a"), pop()).events
    assert cache_bill(kept(tmp_path / "script", events), "claude-sonnet-5-5").counted == "o200k × 1.55"
    own = reported(play(alloc("a"), pop(), start=started(model="anthropic/claude-sonnet-5-5")).events, factor=7)
    told = cache_bill(kept(tmp_path / "own", own), "claude-sonnet-5-5")
    assert "learned" in told.counted
    assert told.bill.usage.prompt == pytest.approx(14_000, rel=0.1)


def test_estimated_usage_is_not_used_for_calibration(tmp_path):
    events = play(alloc("a"), pop(), start=started(model="claude-sonnet-5-5")).events
    guessed = [
        replace(one, usage=replace(one.usage, estimated=True)) if isinstance(one, ModelReplied) else one
        for one in events
    ]
    assert cache_bill(kept(tmp_path / "run", guessed), "claude-sonnet-5-5").counted == "o200k × 1.55"


def test_prompts_that_were_not_sent_teach_nothing_and_are_counted(tmp_path):
    events = reported(play(alloc("a"), pop(), start=started(model="claude-sonnet-5-5")).events, factor=7)
    other = [replace(one, prompt_digest="") if isinstance(one, ModelReplied) else one for one in events]
    found = cache_bill(kept(tmp_path / "run", other), "claude-sonnet-5-5")
    assert (found.counted, found.bill.not_sent) == ("o200k × 1.55", 2)
    assert "2 of 2 prompts" in "\n".join(cache_lines(found))
    assert cache_bill(kept(tmp_path / "own", events), "claude-sonnet-5-5").bill.not_sent == 0


def test_nothing_costs_nothing():
    row = lookup("claude-sonnet-5-5")
    assert row is not None
    assert bill([], row.price).usd == 0.0
    assert bill([], None).usd is None


def test_a_model_that_the_table_lacks_is_named(tmp_path):
    run = kept(tmp_path / "run", play(pop()).events)
    with pytest.raises(UsageError, match="no model 'gpt'"):
        cache_bill(run, "gpt")


def test_a_run_without_a_first_record_has_no_bill(tmp_path):
    with pytest.raises(TraceError, match="never began"):
        cache_bill(kept(tmp_path / "run", []), "claude-sonnet-5-5")
    with pytest.raises(TraceError, match="not RunStarted"):
        cache_bill(kept(tmp_path / "other", play(pop()).events[1:]), "claude-sonnet-5-5")


def test_a_run_that_only_began_has_an_empty_bill(tmp_path):
    assert cache_bill(kept(tmp_path / "run", play().events[:1]), "claude-sonnet-5-5").bill.requests == 0
