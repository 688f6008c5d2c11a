"""How a run's cost is computed, and what whatif reports about a run with a local server's model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from stackmem.core.errors import UsageError
from stackmem.core.facts import Event, ModelReplied
from stackmem.core.messages import Usage
from stackmem.core.pricing import Price
from stackmem.lab.whatif.recorded import WhatIf, WhatIfQuestion, what_if
from stackmem.models.local_servers import FREE
from stackmem.models.tokens import o200k_tokens
from stackmem.providers.openai_messages import chat_body
from stackmem.review.kept.costing import costing_as, own_costing
from stackmem.review.measure.cached_steps import with_prompts
from stackmem.review.measure.moments import moments
from tests.build import do, play, pop, started

from .test_cache_bill import kept

LOCAL = {"model": "llamacpp/qwen", "price": FREE}
PAID = Price(1.0, 2.0, 1.0, 1.0, 0.5, "given by --price 1,2,0.5")


def served(strategy: str, tokens_of, **changes) -> list[Event]:
    """A run of five replies whose server counts each request with ``tokens_of`` and caches what it evaluated."""
    start = started(strategy, **{**LOCAL, **changes})
    events = list(play(*[do("list_files")] * 4, pop(), start=start).events)
    timed = [(float(at), event) for at, event in enumerate(events)]
    sizes = [tokens_of(one.view) for one in with_prompts(moments(timed)) if isinstance(one.event, ModelReplied)]
    held = [0, *sizes[:-1]]
    usages = iter(Usage(size - before, before, output=20) for size, before in zip(sizes, held, strict=True))
    return [replace(event, usage=next(usages)) if isinstance(event, ModelReplied) else event for event in events]


def templated(view) -> int:
    """Count tokens like a server that renders the body with a ChatML template and its own tokenizer."""
    body = chat_body(view, "qwen")
    lines = [CALLING, *(json.dumps(tool) for tool in body["tools"])]
    for message in body["messages"]:
        said = message["content"] or ""
        for call in message.get("tool_calls", ()):
            function = call["function"]
            said += f'<tool_call>\n{{"name": "{function["name"]}", "arguments": {function["arguments"]}}}\n</tool_call>'
        said = f"<tool_response>\n{said}\n</tool_response>" if message["role"] == "tool" else said
        lines.append(f"<|im_start|>{message['role']}\n{said}<|im_end|>")
    return round(1.15 * o200k_tokens("\n".join(lines)))


CALLING = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function "
    "signatures within <tools></tools> XML tags. For each function call, return a json object with function name and "
    "arguments within <tool_call></tool_call> XML tags."
)


def told(tmp_path: Path, events: list[Event], strategies: tuple[str, ...], price: str | None = None) -> WhatIf:
    kept(tmp_path / "run", events)
    (found,) = what_if(str(tmp_path / "run"), tmp_path, WhatIfQuestion(strategies, price, phases=None))
    return found


@pytest.mark.parametrize(("recorded", "other"), [("full", "adaptive"), ("adaptive", "full"), ("full", "stackheap")])
def test_predictions_for_another_strategy_match_the_servers_count(tmp_path, recorded, other):
    found = told(tmp_path, served(recorded, templated), (other,))
    real = [event.usage.prompt for event in served(other, templated) if isinstance(event, ModelReplied)]
    outcome = next(row.outcome for row in found.rows if not row.recorded)
    assert outcome.usage.prompt == pytest.approx(sum(real), rel=0.08)


def test_the_unit_of_a_local_server_is_evaluated_tokens_and_seconds(tmp_path):
    found = told(tmp_path, served("full", templated), ("adaptive",))
    own, other = found.rows
    assert (found.unit, found.price) == ("tokens", "llamacpp/qwen")
    assert (own.outcome.usd, other.outcome.usd) == (None, None)
    assert own.outcome.evaluated_tokens == pytest.approx(own.outcome.usage.uncached)
    assert own.outcome.seconds > 0
    assert other.ratio == pytest.approx(other.outcome.seconds / own.outcome.seconds, rel=0.01)


def test_the_price_that_a_run_recorded_is_its_price(tmp_path):
    found = told(tmp_path, served("full", templated, model="openai/mine", price=PAID), ("adaptive",))
    assert (found.unit, found.price) == ("USD", "openai/mine")
    assert all(row.outcome.usd > 0 for row in found.rows)


def test_a_local_run_is_costed_by_a_model_of_the_table_if_it_is_named(tmp_path):
    found = told(tmp_path, served("full", templated), ("adaptive",), "claude-sonnet-5-5")
    assert (found.unit, found.counted) == ("USD", "o200k × 1.55")


@pytest.mark.parametrize(
    ("model", "changes", "model_and_wire", "free"),
    [
        ("demo", {}, ("claude-sonnet-5-5", "anthropic"), False),
        ("llamacpp/qwen", {"price": FREE}, ("llamacpp/qwen", "openai"), True),
        ("llamacpp/qwen", {"price": FREE, "text_calls": "prompt"}, ("llamacpp/qwen", "text"), True),
        ("openai/mine", {"price": None}, ("openai/mine", "openai"), True),
        ("openai/mine", {"price": PAID}, ("openai/mine", "openai"), False),
        ("responses/mine", {"price": PAID}, ("responses/mine", "responses"), False),
        ("anthropic/claude-opus-4-8", {}, ("claude-opus-4-8", "anthropic"), False),
    ],
)
def test_a_run_is_costed_by_its_own_model_if_known(model, changes, model_and_wire, free):
    found = own_costing(started("full", **{"model": model, **changes}), "claude-sonnet-5-5")
    assert ((found.model, found.wire), found.free) == (model_and_wire, free)


def test_a_name_says_the_wire_and_a_model_without_a_prefix_its_providers():
    start = started("full", text_calls=UNSET)
    wires = {name: costing_as(name, start).wire for name in ("claude-opus-4-8", "gpt-6.1-sol", "responses/gpt-6.1-sol")}
    assert wires == {"claude-opus-4-8": "anthropic", "gpt-6.1-sol": "openai", "responses/gpt-6.1-sol": "responses"}
    with pytest.raises(UsageError, match="no model 'nobody'"):
        costing_as("nobody", start)
