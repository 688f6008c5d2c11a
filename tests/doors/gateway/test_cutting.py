"""Strategies on third-party conversations: requests are valid, paired, and identical for identical beginnings."""

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.errors import UsageError
from stackmem.doors.gateway.cutting import FITTING, Cutter, ForeignCut, foreign_strategy
from stackmem.doors.gateway.framing import FRAMES
from stackmem.doors.gateway.identity import chain
from stackmem.doors.gateway.rewriting import Rewriter
from stackmem.doors.gateway.wires.chat import CHAT
from stackmem.doors.gateway.wires.messages import MESSAGES
from stackmem.doors.gateway.wires.responses import RESPONSES
from stackmem.doors.gateway.wires.wire import WireFormat
from tests.doors.gateway.upstream import assistant, request, result, text, use, user
from tests.providers.api_rules import first_fault, signature
from tests.stage import ROOT

SPELLED = ("mask:2,poll=1", "mask:1,poll=3", "window:2,step=1", "window:1,step=2", "truncate:100", "clear:150,keep=1")


def rules(spelled: str) -> Any:
    found = foreign_strategy(spelled)
    assert found is not None
    return found


def sent(cutter: Cutter, body: bytes, wire: WireFormat = MESSAGES) -> tuple[ForeignCut, bytes]:
    asked = wire.read(body)
    cut = cutter.cut(asked, chain(b"seed", asked.messages))
    return cut, Rewriter().rewrite(body, wire, asked, cut, cutter.shorten)


def blocks(words: str) -> list[Any]:
    return [text(words)]


def anthropic(turns: list[Any]) -> list[Any]:
    """Return a conversation's messages for these turns, including thinking and a mark at the end."""
    told: list[Any] = [user("Mend the parser.")]
    for number, (thinks, calls, chars, words) in enumerate(turns):
        said: list[Any] = [{"type": "thinking", "thinking": "hm", "signature": "s"}] if thinks else []
        said += blocks(f"Step {number}.")
        said += [use("run", f"c{number}_{one}", n=one) for one in range(calls)]
        told.append({"role": "assistant", "content": said})
        back: list[Any] = [result(f"c{number}_{one}", "", content=blocks("x" * chars or "-")) for one in range(calls)]
        told.append({"role": "user", "content": back + ([text(words)] if words or not calls else [])})
        if told[-1]["content"][-1].get("text") == "":
            told[-1]["content"][-1]["text"] = "Go on."
    if turns:
        told[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    return told


def chat(turns: list[Any]) -> list[Any]:
    told: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Mend the parser."}]
    for number, (_, calls, chars, words) in enumerate(turns):
        asked = [{"id": f"c{number}_{one}", "type": "function", "function": {"name": "run", "arguments": "{}"}}
                 for one in range(calls)]  # fmt: skip
        told.append({"role": "assistant", "content": f"Step {number}.", **({"tool_calls": asked} if calls else {})})
        told += [{"role": "tool", "tool_call_id": one["id"], "content": "x" * chars} for one in asked]
        if words or not calls:
            told.append({"role": "user", "content": words or "Go on."})
    return told


def responses(turns: list[Any]) -> list[Any]:
    told: list[Any] = [{"role": "user", "content": [{"type": "input_text", "text": "Mend the parser."}]}]
    for number, (thinks, calls, chars, words) in enumerate(turns):
        told += [{"type": "reasoning", "id": f"r{number}", "encrypted_content": "e", "summary": []}] if thinks else []
        told.append(
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"Step {number}."}]}
        )
        names = [f"c{number}_{one}" for one in range(calls)]
        told += [{"type": "function_call", "call_id": name, "name": "run", "arguments": "{}"} for name in names]
        told += [{"type": "function_call_output", "call_id": name, "output": "x" * chars} for name in names]
        if words or not calls:
            told.append({"role": "user", "content": words or "Go on."})
    return told


def unpaired(items: Any) -> set[str]:
    """Return ids that appear on one side only, or whose result precedes its call."""
    calls, results = [], []
    for one in items:
        content = one["content"] if isinstance(one.get("content"), list) else []
        for part in (one, *one.get("tool_calls", ()), *content):
            if part.get("type") in ("function", "tool_use"):
                calls.append(part["id"])
            elif part.get("type") == "function_call":
                calls.append(part["call_id"])
            name = part.get("tool_use_id") or part.get("tool_call_id")
            if part.get("type") == "function_call_output":
                name = part["call_id"]
            if name:
                results.append(name)
                if name not in calls:
                    return {name}
    return set(calls) ^ set(results)


def sign(turns: list[Any], signatures: dict[str, str], number: int, value: Any) -> None:
    """Sign as the provider does: the signature of the next reply's thought covers the request it received."""
    if number < len(turns) and turns[number][0] and "messages" in value:
        signatures[f"Step {number}."] = signature(value, len(value["messages"]), "hm")


def signed(told: list[Any], signatures: dict[str, str]) -> list[Any]:
    """Return the conversation with the signatures of its replies."""
    for one in told:
        content = one.get("content")
        if one.get("role") == "assistant" and isinstance(content, list) and content[0]["type"] == "thinking":
            content[0]["signature"] = signatures[content[1]["text"]]
    return told


TURN = st.tuples(
    st.booleans(), st.integers(0, 3), st.sampled_from((0, 5, 300, 3_000)), st.sampled_from(("", "And this."))
)
KINDS = {"anthropic": (MESSAGES, anthropic), "chat": (CHAT, chat), "responses": (RESPONSES, responses)}


def body_of(wire: WireFormat, told: list[Any]) -> bytes:
    if wire is MESSAGES:
        return request(*told)
    return json.dumps({"model": "m", "other": [1], wire.field: told, "tail": "}"}).encode()


@given(st.lists(TURN, min_size=1, max_size=8), st.sampled_from(SPELLED), st.sampled_from(sorted(KINDS)))
def test_sent_requests_are_valid_paired_and_identical_for_identical_beginnings(turns, spelled, kind):
    wire, spell = KINDS[kind]
    cutter, before = Cutter(rules(spelled)), None
    signatures: dict[str, str] = {}
    sign(turns, signatures, 0, json.loads(body_of(wire, spell([]))))
    for count in range(1, len(turns) + 1):
        body = body_of(wire, signed(spell(turns[:count]), signatures))
        cut, made = sent(cutter, body, wire)
        value = json.loads(made)
        assert unpaired(value[wire.field]) == set()
        assert sent(Cutter(rules(spelled)), body, wire) == (cut, made)
        if wire is MESSAGES:
            assert first_fault(value) is None
            sign(turns, signatures, count, value)
            assert made.count(b"cache_control") <= body.count(b"cache_control")
        if before is not None:
            old, messages = before
            assert (cut.dropped, cut.short) >= (old.dropped, old.short)
            if (cut.dropped, cut.short) == (old.dropped, old.short) and wire is not MESSAGES:
                assert wire.read(made).raw[: len(messages)] == messages
        before = cut, wire.read(made).raw


def test_a_mark_that_moves_and_a_text_that_changes_its_form_change_no_decision():
    turns = [(False, 1, 400, "")] * 5
    told, cutter = anthropic(turns), Cutter(rules("mask:1,poll=2"))
    first = sent(cutter, request(*told))[1]
    del told[-1]["content"][-1]["cache_control"]
    told[0]["content"] = "Mend the parser."
    told += [assistant("Done."), user("More.")]
    second = sent(cutter, request(*told))[1]
    shortened = [json.loads(one)["messages"][2:8] for one in (first, second)]
    assert shortened[0] == shortened[1]
    assert b"masked" in first


def test_thinking_before_the_first_change_stays_and_behind_it_goes():
    turns = [(True, 0, 0, "Talk."), (True, 1, 3_000, ""), (True, 1, 3_000, ""), (True, 1, 10, "")]
    cut, made = sent(Cutter(rules("mask:1,poll=1")), request(*anthropic(turns)))
    kinds = [
        [part["type"] for part in one["content"]] for one in json.loads(made)["messages"] if one["role"] == "assistant"
    ]
    assert cut.short == 3
    assert [("thinking" in one) for one in kinds] == [True, True, False, False]


def test_the_result_of_a_tool_search_is_not_shortened():
    told = anthropic([(False, 1, 3_000, "")] * 4)
    search = told[2]["content"][0]
    search["content"] = [{"type": "tool_reference", "tool_name": "run"}, text("long " * 1_000)]
    made = json.loads(sent(Cutter(rules("mask:1,poll=1")), request(*told))[1])["messages"]
    assert made[2]["content"][0]["content"] == search["content"]
    assert "masked" in made[4]["content"][0]["content"]


def test_a_call_whose_result_comes_late_is_not_left_out_before_it():
    call = {"type": "function_call", "call_id": "late", "name": "run", "arguments": "{}"}
    told: list[Any] = [{"role": "user", "content": "Go."}, call, {"role": "user", "content": "Meanwhile."}]
    for number in range(6):
        told += [{"role": "assistant", "content": f"Step {number}."}, {"role": "user", "content": "On."}]
    told.append({"type": "function_call_output", "call_id": "late", "output": "x"})
    cut, made = sent(Cutter(rules("window:1,step=1")), body_of(RESPONSES, told), RESPONSES)
    assert cut.dropped == 0
    assert unpaired(json.loads(made)["input"]) == set()


def test_content_stored_by_the_provider_is_not_cut():
    body = json.dumps(
        {"model": "m", "previous_response_id": "r", "input": responses([(False, 1, 5_000, "")] * 9)}
    ).encode()
    assert sent(Cutter(rules("window:1,step=1")), body, RESPONSES)[1] == body


def test_the_first_message_mentions_the_omission_once():
    _, made = sent(Cutter(rules("window:1,step=1")), request(*anthropic([(False, 0, 0, "x")] * 4)))
    opening = json.loads(made)["messages"][0]["content"]
    assert [one["text"] for one in opening] == ["Mend the parser.", "[Steps up to 3 are no longer shown. Their "
                                                "changes to the workspace remain.]"]  # fmt: skip


def test_everything_except_the_messages_keeps_its_bytes():
    told = msgspec.json.encode(anthropic([(False, 1, 3_000, "")] * 4))
    before, behind = b'{ "model":"m",  "messages" : ', b' ,"max_tokens": 1.0e2,"x":"\\u00e9" }'
    made = sent(Cutter(rules("mask:1,poll=1")), before + told + behind)[1]
    assert (made.startswith(before), made.endswith(behind), b"masked" in made) == (True, True, True)


def test_the_page_lists_the_strategies_that_fit():
    page = (ROOT / "docs" / "gateway.md").read_text("utf-8").partition("\n## Strategies\n")[2]
    listed = page.partition("changes nothing. ")[2].partition("[`stackmem mcp`](#frames)")[0]
    assert set(re.findall(r"`([a-z_]+)`", listed)) == {*FITTING, FRAMES}


def test_a_strategy_that_needs_more_than_a_foreign_agent_has_says_so():
    assert foreign_strategy("full") is None
    assert all(foreign_strategy(name) for name in FITTING)
    for spelled in ("stackheap:index=delta", "adaptive", "context_editing"):
        with pytest.raises(UsageError, match=f"{spelled} works only with stackmem's own agent; use full, clear"):
            foreign_strategy(spelled)
    with pytest.raises(UsageError, match="no strategy"):
        foreign_strategy("nothing")
