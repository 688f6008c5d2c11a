"""Local token counts from ranks in the package."""

from __future__ import annotations

import pytest
import tiktoken

from stackmem.models.tokens import LearnedCount, TokenCount, count, learned_count, o200k_tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("hello world", 2), ("tiktoken is great!", 6), ("<|endoftext|>", 7)],
)
def test_the_counts_are_those_of_o200k(text: str, tokens: int) -> None:
    assert o200k_tokens(text) == tokens


def test_tiktoken_finds_the_encoding_as_a_plug_in_and_downloads_nothing() -> None:
    encoding = tiktoken.get_encoding("stackmem_o200k_base")
    text = "Naïve 漢字 \U0001f600 and   spaces\n\n\tcode()"
    assert encoding.decode(encoding.encode_ordinary(text)) == text
    assert len(encoding.encode_ordinary(text)) == o200k_tokens(text)
    assert encoding.n_vocab == 200_019


def test_each_figure_says_how_it_was_come_by() -> None:
    text = "hello world " * 100
    plain = o200k_tokens(text)
    assert count(text, "openai/gpt-5") == TokenCount(plain, "o200k")
    assert count(text, "anthropic/claude-sonnet-5-5") == TokenCount(round(plain * 1.55), "o200k × 1.55")
    assert count(text, "claude-haiku-4-5-20251001") == TokenCount(round(plain * 1.19), "o200k × 1.19")
    assert count(text, "openai/qwen3") == TokenCount(480, "characters / 2.5")
    learned = count(text, "openai/qwen3", LearnedCount(1.2))
    assert learned == TokenCount(round(plain * 1.2), "o200k × 1.20, learned from this model's usage")


def test_prompts_of_one_length_tell_only_a_factor_their_median() -> None:
    assert learned_count([(100, 150), (100, 160), (100, 900), (0, 5), (5, 0)]) == LearnedCount(1.6)
    assert learned_count([(0, 10)]) is None


def test_prompts_of_several_lengths_tell_the_factor_and_what_every_request_has_besides() -> None:
    exact = [(counted, 100 + round(counted * 0.9)) for counted in (900, 1_000, 1_300, 1_500)]
    assert learned_count(exact) == LearnedCount(pytest.approx(0.9), 100)
    strange = [*exact, (1_400, 9_000)]
    assert learned_count(strange) == LearnedCount(pytest.approx(0.9, rel=0.2), pytest.approx(100, abs=200))
    assert count("", "openai/qwen3", learned_count(exact)).source.startswith("o200k × 0.90 + 100 a request")


@pytest.mark.parametrize("pairs", [[(900, 1_000), (1_500, 900)], [(900, 1_000), (1_500, 9_000)]])
def test_a_slope_that_no_tokenizer_has_is_not_believed(pairs: list[tuple[int, int]]) -> None:
    found = learned_count(pairs)
    assert found is not None
    assert found.base == 0


@pytest.mark.parametrize("text", [" " * 3_000_000, "a" * 400_000, "\n" * 400_000, "\ud800" * 1_000, "\x00" * 1_000])
def test_no_text_breaks_the_count(text: str) -> None:
    assert 0 < o200k_tokens(text) <= len(text) * 3
