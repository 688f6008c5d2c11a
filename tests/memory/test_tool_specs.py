"""Each strategy's tool names, descriptions and schemas for the model, byte for byte.

A changed digest means a changed prompt: recorded runs no longer verify.
"""

from hashlib import sha256

import pytest
from msgspec import json
from msgspec.structs import asdict

from stackmem.core.budgets import Budgets
from stackmem.core.messages import ToolCall
from stackmem.core.tool_schemas import parse, spec
from stackmem.core.tools import OPTIONAL_TOOLS, Refusal, tool_name
from stackmem.memory import STRATEGIES, open_strategy

SLOTS = {name: f"{value:,}" for name, value in asdict(Budgets()).items()} | {"command_seconds": "30"}
SPELLED = (
    *sorted(STRATEGIES),
    "stackheap:index=listed", "stackheap:descriptions=off", "stackheap:registers=off", "stackheap:store=off",
    "stackheap:registers=off,store=off", "stackheap_lossless:index=listed", "stackheap_lossless:registers=off",
)  # fmt: skip
SPECS = {
    "adaptive": "69d1f84f48fd7e09",
    "agentfold": "c83f522970ada881",
    "boundary": "c83f522970ada881",
    "clear": "c83f522970ada881",
    "clear_cold": "c83f522970ada881",
    "clear_paying": "c83f522970ada881",
    "compact": "c83f522970ada881",
    "compact_provider": "c83f522970ada881",
    "condenser": "c83f522970ada881",
    "context_editing": "c83f522970ada881",
    "dashboard": "900302764bdd78fb",
    "episodes": "c83f522970ada881",
    "expandable": "900302764bdd78fb",
    "fold": "4be12937e6c7201a",
    "full": "c83f522970ada881",
    "handoff": "89904b9134aa84c5",
    "heap": "03a57c47330c15ff",
    "hierarchical": "c83f522970ada881",
    "isolated": "7e210e58f0b9fc7c",
    "letta": "f6252ebb461b5c7f",
    "mask": "c83f522970ada881",
    "mem1": "c83f522970ada881",
    "memory_dir": "73e61b3a8380762f",
    "memory_files": "73e61b3a8380762f",
    "notes": "567a66e542785c3b",
    "rag": "c83f522970ada881",
    "rlm": "c83f522970ada881",
    "rolling_summary": "c83f522970ada881",
    "self_compact": "00032ec28ac656f0",
    "stack": "fcc9e1ccc11db662",
    "stackheap": "c600fc72166293e6",
    "stackheap_fork": "aa2ae5a6fadde64b",
    "stackheap_lossless": "96d08d077a26dde9",
    "structured_summary": "c83f522970ada881",
    "summary": "c83f522970ada881",
    "truncate": "c83f522970ada881",
    "window": "c83f522970ada881",
    "stackheap:index=listed": "090df18c5f47e7d2",
    "stackheap:descriptions=off": "c600fc72166293e6",
    "stackheap:registers=off": "3e87202fa3e53c2d",
    "stackheap:store=off": "8db746223fa50956",
    "stackheap:registers=off,store=off": "1205434e9d7c2289",
    "stackheap_lossless:index=listed": "3ccdb288e164faf3",
    "stackheap_lossless:registers=off": "8091d53fc970ad10",
}


REFUSALS = {
    "adaptive": "e9541689a1368d65",
    "agentfold": "a50e302cbbf765ca",
    "boundary": "a50e302cbbf765ca",
    "clear": "a50e302cbbf765ca",
    "clear_cold": "a50e302cbbf765ca",
    "clear_paying": "a50e302cbbf765ca",
    "compact": "a50e302cbbf765ca",
    "compact_provider": "a50e302cbbf765ca",
    "condenser": "a50e302cbbf765ca",
    "context_editing": "a50e302cbbf765ca",
    "dashboard": "c53bb21d3307bca6",
    "episodes": "a50e302cbbf765ca",
    "expandable": "c53bb21d3307bca6",
    "fold": "7824d0f7cb41b187",
    "full": "a50e302cbbf765ca",
    "handoff": "b9d62b52b7155d06",
    "heap": "7218d9b69176e259",
    "hierarchical": "a50e302cbbf765ca",
    "isolated": "9884e3bbd820ad2c",
    "letta": "e4c4e183764ed4de",
    "mask": "a50e302cbbf765ca",
    "mem1": "a50e302cbbf765ca",
    "memory_dir": "f854f883073c5eb7",
    "memory_files": "f854f883073c5eb7",
    "notes": "bdac5630d9b066bf",
    "rag": "a50e302cbbf765ca",
    "rlm": "a50e302cbbf765ca",
    "rolling_summary": "a50e302cbbf765ca",
    "self_compact": "87b220244a5416c2",
    "stack": "bb46cb7d6cb3cd87",
    "stackheap": "f0d1afb2d086ee33",
    "stackheap_fork": "f0d1afb2d086ee33",
    "stackheap_lossless": "0cd4ddba9ccc33df",
    "structured_summary": "a50e302cbbf765ca",
    "summary": "a50e302cbbf765ca",
    "truncate": "a50e302cbbf765ca",
    "window": "a50e302cbbf765ca",
    "stackheap:index=listed": "89ea46f3c49cfa80",
    "stackheap:descriptions=off": "f0d1afb2d086ee33",
    "stackheap:registers=off": "19527beea7c00aef",
    "stackheap:store=off": "c22adf947d9940d7",
    "stackheap:registers=off,store=off": "1e3b76cfb80265a0",
    "stackheap_lossless:index=listed": "337872863a06da0d",
    "stackheap_lossless:registers=off": "d0b8e0e892f80ba5",
}
EVERY_FIELD = dict.fromkeys(
    ("name", "objective", "context", "return_spec", "constraint", "verify", "store", "prompt", "result", "content",
     "description", "source", "query", "start_line", "end_line", "path", "command", "text", "index"), True,
)  # fmt: skip


def digest(value: object) -> str:
    return sha256(json.encode(value)).hexdigest()[:16]


def specs(spelled: str) -> str:
    return digest([spec(tool, SLOTS) for tool in open_strategy(spelled).tools])


def refusals(spelled: str) -> str:
    """Return the model's messages for calls with no argument, with each of a wrong type, and with invalid JSON."""
    tools = open_strategy(spelled).tools
    names = (*map(tool_name, tools), "no_such_tool")
    calls = [
        call
        for name in names
        for call in (
            ToolCall("1", name, {}),
            ToolCall("1", name, EVERY_FIELD),
            ToolCall("1", name, {"store": [{}, 1]}),
            ToolCall("1", name, malformed="{"),
        )
    ]
    return digest([_reason(parse(call, tools)) for call in calls])


def _reason(parsed: object) -> object:
    return (parsed.code, parsed.text) if isinstance(parsed, Refusal) else "accepted"


@pytest.mark.parametrize("spelled", SPELLED)
def test_tool_descriptions_keep_their_bytes(spelled):
    assert specs(spelled) == SPECS[spelled]


@pytest.mark.parametrize("spelled", SPELLED)
def test_a_call_that_cannot_be_one_is_refused_in_the_same_words(spelled):
    assert refusals(spelled) == REFUSALS[spelled]


def test_the_optional_tools_are_told_in_the_same_bytes_and_no_strategy_offers_them_by_itself():
    assert {name: digest(spec(tool, SLOTS)) for name, tool in OPTIONAL_TOOLS.items()} == {
        "edit_file": "98bf623dce017aa4", "search_files": "f2bc35bc131f08bf", "ask_user": "bc2610375f070dc9",
        "heap_load": "389d189f09ec7e80", "remember": "3d6cbd47f44b97c5", "recall": "197d349485d2143e",
        "web_fetch": "33c81fd389a4cb88", "web_search": "91c3d817bec607cd",
    }  # fmt: skip
    offered = {tool_name(tool) for spelled in SPELLED for tool in open_strategy(spelled).tools}
    assert offered.isdisjoint(OPTIONAL_TOOLS)
