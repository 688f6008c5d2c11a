"""A run's size depends on the option, the model and the strategy."""

import pytest
from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.memory import open_strategy
from stackmem.run.models import is_small


class Served(Struct, frozen=True):
    name: str
    window_tokens: int = 32_768
    price: None = None
    parameters: int | None = None


@pytest.mark.parametrize(
    ("model", "strategy", "small"),
    [
        (Served("llamacpp/coder", parameters=1_777_088_000), "adaptive", True),
        (Served("llamacpp/coder", parameters=70_000_000_000), "adaptive", False),
        (Served("ollama/qwen2.5-coder:1.5b"), "full", True),
        (Served("ollama/qwen2.5-coder:32b"), "full", False),
        (Served("openai/coder", window_tokens=4_096), "stackheap", True),
        (Served("openai/coder"), "stackheap", False),
        (Served("claude-sonnet-5-5", parameters=1), "adaptive", False),
        (Served("script:1.5b.yaml", window_tokens=4_096), "adaptive", False),
        (Served("llamacpp/coder", parameters=1_777_088_000), "mem1", False),
    ],
)
def test_auto_goes_by_the_model_and_takes_scripts_at_full_size(model, strategy, small):
    assert is_small("auto", model, open_strategy(strategy)) is small


def test_the_option_overrides_the_detected_size():
    large, tiny = Served("openai/x"), Served("llamacpp/coder", parameters=10**9)
    assert is_small("small", large, open_strategy("adaptive"))
    assert not is_small("full", tiny, open_strategy("adaptive"))


def test_a_strategy_without_a_small_size_is_refused_if_that_was_asked_for():
    with pytest.raises(UsageError, match=r"mem1 has no small size; leave --size out, or choose one of adaptive, full"):
        is_small("small", Served("openai/x"), open_strategy("mem1"))
