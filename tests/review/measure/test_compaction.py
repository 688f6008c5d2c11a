"""Summaries in measurements: their requests, tokens and cost count, but they are not steps."""

import pytest

from stackmem.core.facts import ContextCompacted, ModelReplied
from stackmem.core.messages import Usage
from stackmem.core.pricing import cost_usd
from stackmem.review.measure.cached_steps import bill, cached_steps
from stackmem.review.measure.frames import frames
from stackmem.review.measure.metrics import measure
from stackmem.review.measure.prefix import text_of
from stackmem.review.measure.timeline import timeline
from stackmem.trace.record import Record
from stackmem.trace.steps import frame_spans, steps, total_usd
from tests.build import PRICE, SPENT
from tests.trace.stories import compacted

from .runs import seen


@pytest.fixture(scope="module")
def played():
    return compacted()


@pytest.fixture(scope="module")
def records(played):
    return [Record(number, float(number), event) for number, event in enumerate(played.events, 1)]


@pytest.fixture(scope="module")
def counts(played):
    return len(played.of(ModelReplied)), len(played.of(ContextCompacted))


def test_the_metrics_count_requests_tokens_and_cost_but_no_steps(played, counts):
    replies, summaries = counts
    found = measure(seen(played))
    assert summaries > 1
    assert found["steps"] == replies
    assert found["model_calls"] == replies + summaries
    assert found["output_tokens"] == SPENT.output * (replies + summaries)
    assert found["cost_usd"] == pytest.approx(played.state.usd)
    assert found["model_seconds"] == replies + summaries


def test_a_row_has_what_the_summaries_before_its_reply_took(played, counts):
    replies, summaries = counts
    rows = list(timeline(seen(played)))
    assert [row.step for row in rows] == list(range(1, replies + 1))
    assert sum(row.compactions for row in rows) == summaries
    assert sum((row.usage for row in rows), Usage()) == played.state.usage
    assert sum(row.usd for row in rows) == pytest.approx(played.state.usd)
    late = next(row for row in rows if row.compactions)
    assert (late.attempts, late.model_seconds) == (2, 2.0)
    assert late.usage == SPENT + SPENT


def test_frames_and_spans_hold_all_that_was_spent_in_them(played, records, counts):
    (root,) = frames(seen(played))
    (span,) = frame_spans(records)
    assert (root.steps, span.steps) == (counts[0], counts[0])
    assert root.usage == span.usage == played.state.usage
    assert root.usd == pytest.approx(span.usd) == pytest.approx(played.state.usd)
    assert total_usd(records) == pytest.approx(played.state.usd)
    assert len(list(steps(records))) == counts[0]


def test_the_simulated_cache_sees_the_request_for_a_summary_as_it_was_sent(played, counts):
    found = list(cached_steps(seen(played), 64, lambda block: len(text_of(block))))
    assert [one.compaction for one in found].count(True) == counts[1]
    assert all(one.sent for one in found)
    first = next(place for place, one in enumerate(found) if one.compaction)
    assert found[first].cached.read > 0, "the request extends the cached prompt"
    assert found[first].usage.output == SPENT.output
    whole = bill(found, PRICE)
    assert whole.requests == sum(counts)
    assert whole.usd == pytest.approx(sum(cost_usd(one.usage, PRICE) for one in found), abs=1e-6)
