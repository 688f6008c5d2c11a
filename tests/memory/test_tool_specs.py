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
    "adaptive": "8c5b7dac039fd6c3",
    "agentfold": "88c132f83249f932",
    "boundary": "88c132f83249f932",
    "clear": "88c132f83249f932",
    "clear_cold": "88c132f83249f932",
    "compact": "88c132f83249f932",
    "condenser": "88c132f83249f932",
    "expandable": "724c35b7316a08b8",
    "fold": "4ee702d85f9bc40b",
    "full": "88c132f83249f932",
    "handoff": "cfe617d74da2f0cb",
    "heap": "165507612bbd11ea",
    "hierarchical": "88c132f83249f932",
    "isolated": "2366ee7f9d8e09c6",
    "letta": "1aca72f45831efbd",
    "mask": "88c132f83249f932",
    "mem1": "88c132f83249f932",
    "memory_dir": "e22b5cb1ff7f4829",
    "notes": "fa6905d892c4fd9d",
    "rag": "88c132f83249f932",
    "rolling_summary": "88c132f83249f932",
    "stack": "5c8569d7c576a7e1",
    "stackheap": "30ee7ea0429cfbf3",
    "stackheap_fork": "a14156654c905dcb",
    "stackheap_lossless": "9888e737aad7fa03",
    "structured_summary": "88c132f83249f932",
    "summary": "88c132f83249f932",
    "truncate": "88c132f83249f932",
    "window": "88c132f83249f932",
    "stackheap:index=listed": "8cc191a268fb9632",
    "stackheap:descriptions=off": "30ee7ea0429cfbf3",
    "stackheap:registers=off": "f173e6372770979b",
    "stackheap:store=off": "aabb40deb622a452",
    "stackheap:registers=off,store=off": "8e0d1d40d70e9a2f",
    "stackheap_lossless:index=listed": "dfda765cdb0c8db7",
    "stackheap_lossless:registers=off": "3d0902f1c6ac9ed2",
}


REFUSALS = {
    "adaptive": "bdcda36d338815e4",
    "agentfold": "ff783b58bf62ff38",
    "boundary": "ff783b58bf62ff38",
    "clear": "ff783b58bf62ff38",
    "clear_cold": "ff783b58bf62ff38",
    "compact": "ff783b58bf62ff38",
    "condenser": "ff783b58bf62ff38",
    "expandable": "dbd29a221d1eb0b1",
    "fold": "1d70dacf45de0916",
    "full": "ff783b58bf62ff38",
    "handoff": "44a43315eda8eaa3",
    "heap": "e8a239076d82355f",
    "hierarchical": "ff783b58bf62ff38",
    "isolated": "47444f2531755ba0",
    "letta": "4f3f8028dffe7624",
    "mask": "ff783b58bf62ff38",
    "mem1": "ff783b58bf62ff38",
    "memory_dir": "a0c699a0f9cb7ec8",
    "notes": "09324d41a3393b41",
    "rag": "ff783b58bf62ff38",
    "rolling_summary": "ff783b58bf62ff38",
    "stack": "789ab65551f40f58",
    "stackheap": "61fa1bc33ded6940",
    "stackheap_fork": "61fa1bc33ded6940",
    "stackheap_lossless": "5bd2ad8e11751eb3",
    "structured_summary": "ff783b58bf62ff38",
    "summary": "ff783b58bf62ff38",
    "truncate": "ff783b58bf62ff38",
    "window": "ff783b58bf62ff38",
    "stackheap:index=listed": "1991438f2c746d39",
    "stackheap:descriptions=off": "61fa1bc33ded6940",
    "stackheap:registers=off": "5e97518ae9811aa0",
    "stackheap:store=off": "c0444c38b1cf46db",
    "stackheap:registers=off,store=off": "3b8f7d458734ffdc",
    "stackheap_lossless:index=listed": "1b10895fd30b9f9c",
    "stackheap_lossless:registers=off": "72f9beb86a3c1c5b",
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
        "edit_file": "d8f8a093704e8706", "search_files": "eca50c0905f334f2", "ask_user": "22326ef812e3aef7",
        "heap_load": "414bb7cf38bc0f89",
    }  # fmt: skip
    offered = {tool_name(tool) for spelled in SPELLED for tool in open_strategy(spelled).tools}
    assert offered.isdisjoint(OPTIONAL_TOOLS)
