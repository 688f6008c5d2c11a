"""The table of models and prices."""

from __future__ import annotations

import pytest

from stackmem.core.errors import UsageError
from stackmem.core.messages import Usage
from stackmem.core.pricing import cost_usd
from stackmem.models.catalog import lookup, read_price, rows


def test_every_row_has_a_dated_source_and_sizes_that_fit_each_other() -> None:
    assert len(rows()) >= 15
    for row in rows():
        assert "2026" in row.source, row.name
        assert row.price is None or row.price.input <= row.price.output, row.name
        assert row.min_cache_tokens in {512, 1_024, 2_048, 4_096}, row.name
        assert row.max_output_tokens < row.window_tokens, row.name


def test_a_write_costs_1_25_and_2_times_the_input_and_a_read_a_tenth_of_it_or_less() -> None:
    for row in rows():
        if (price := row.price) is not None and row.provider == "anthropic":
            assert price.cache_write_5m == pytest.approx(1.25 * price.input), row.name
            assert price.cache_write_1h == pytest.approx(2 * price.input), row.name
            assert 0 < price.cache_read <= price.input * 0.100_001, row.name
            assert price.output == pytest.approx(5 * price.input), row.name


def test_a_name_is_found_with_its_provider_before_it_and_its_day_after_it() -> None:
    row = lookup("claude-haiku-4-5")
    assert row is not None
    assert lookup("anthropic/claude-haiku-4-5-20251001") == row
    assert lookup("openai/claude-haiku-4-5") is None
    assert lookup("claude-haiku") is None
    assert lookup("openai/gpt-6-luna") == lookup("gpt-6-luna") is not None
    assert lookup("anthropic/gpt-6-luna") is None


def test_a_model_without_a_published_price_has_none() -> None:
    row = lookup("claude-fable-5-2")
    assert row is not None
    assert row.price is None


def test_haiku_5_5_costs_five_times_as_much_above_100_000_tokens() -> None:
    row = lookup("claude-haiku-5-5")
    assert row is not None
    assert row.price is not None
    assert cost_usd(Usage(uncached=100_000, output=1_000), row.price) == pytest.approx(0.0105)
    assert cost_usd(Usage(uncached=100_001, output=1_000), row.price) == pytest.approx(0.0525005)


def test_above_its_tier_a_model_may_cost_other_times_as_much_for_output() -> None:
    row = lookup("openai/gpt-6-astra")
    assert row is not None
    assert row.price is not None
    assert cost_usd(Usage(uncached=272_000, output=1_000), row.price) == pytest.approx(2.77)
    assert cost_usd(Usage(uncached=272_001, output=1_000), row.price) == pytest.approx(5.51502)


def test_a_price_is_given_in_figures_or_as_another_models() -> None:
    given = read_price("1, 2")
    assert (given.input, given.output, given.cache_read, given.cache_write_5m) == (1, 2, 1, 1)
    given = read_price("1,2,.1,1.25")
    assert (given.cache_read, given.cache_write_5m, given.source) == (0.1, 1.25, "given by --price 1,2,.1,1.25")
    known = lookup("gpt-6-luna")
    assert known is not None
    assert read_price("gpt-6-luna") == known.price


@pytest.mark.parametrize("text", ["", "1", "1,2,3,4,5", "1,-2", "1,nan", "1,inf", "cheap", "gpt-6.2-sol"])
def test_a_price_that_is_none_is_refused_with_the_form_of_one(text: str) -> None:
    with pytest.raises(UsageError, match="write IN,OUT"):
        read_price(text)


def test_one_hundred_steps_with_a_cache_cost_what_was_computed_by_hand() -> None:
    """100 steps, 6,000 tokens at first, 1,500 more per step, 300 output tokens, Sonnet 5.5: $1.47."""
    row = lookup("claude-sonnet-5-5")
    assert row is not None
    assert row.price is not None
    first = Usage(cache_write_5m=6_000, output=300)
    later = [Usage(cache_read=6_000 + 1_500 * n, cache_write_5m=1_500, output=300) for n in range(99)]
    total = sum(cost_usd(usage, row.price) for usage in [first, *later])
    assert total == pytest.approx(1.47, abs=0.02)
