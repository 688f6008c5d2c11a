"""The table and the single conversation: a row or a message for each event, in order."""

import csv
import io
import json

import pytest

from stackmem.core.facts import ModelReplied
from tests.trace.stories import PLAYED, cut_short, exported, hostile, told

RUNS = {**{name: lambda name=name: told(name) for name in PLAYED}, "cut": cut_short, "hostile": hostile}


def rows(run):
    return list(csv.DictReader(io.StringIO(exported("csv", run), newline="")))


def conversation(run):
    return json.loads(exported("mini", run))


@pytest.mark.parametrize("run", RUNS)
def test_there_is_a_row_for_each_reply_in_order(run):
    told = RUNS[run]()
    replies = [record for record in told if isinstance(record.event, ModelReplied)]
    found = rows(told)
    assert [(row["step"], row["seq"]) for row in found] == [
        (str(step), str(record.seq)) for step, record in enumerate(replies, 1)
    ]


def test_a_row_says_what_its_call_came_to():
    found = rows(told("family"))
    assert [row["outcome"] for row in found] == [
        "ok", "ok", "ok", "ok",
        "refused:several_calls refused:several_calls", "ok", "popped", "ok", "ok", "popped", "no call", "popped",
    ]  # fmt: skip
    assert found[1]["opened"] == "frame-1"
    assert found[5]["exit_code"] == "0"
    assert {row["usd"] for row in found} == {"0.000140"}
    assert {row["usd"] for row in rows(told("calculator"))} == {""}


def test_a_killed_run_shows_its_last_call_as_unanswered():
    assert [row["outcome"] for row in rows(cut_short())][-1] == "unanswered"


def test_no_cell_is_a_formula():
    for row in rows(hostile()):
        for cell in row.values():
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert rows(hostile())[0]["calls"].startswith("'=cmd")


@pytest.mark.parametrize("run", RUNS)
def test_each_call_of_the_chat_is_answered_at_once_and_never_twice(run):
    waiting: list[str] = []
    for message in conversation(RUNS[run]())["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
        elif message["role"] == "assistant":
            waiting = [call["id"] for call in message.get("tool_calls", [])]


def test_the_conversation_ends_with_the_result_and_names_the_totals():
    whole = conversation(told("family"))
    assert whole["trajectory_format"] == "mini-swe-agent-1.1"
    assert whole["messages"][-1]["role"] == "exit"
    assert whole["messages"][-1]["extra"]["submission"] == "All is done."
    assert whole["info"]["exit_status"] == "Submitted"
    assert whole["info"]["model_stats"]["api_calls"] == 13
    costs = [message["extra"]["cost"] for message in whole["messages"] if message["role"] == "assistant"]
    assert sum(costs) == pytest.approx(whole["info"]["model_stats"]["instance_cost"])


def test_an_unknown_cost_is_null_and_never_nothing():
    whole = conversation(told("calculator"))
    assert whole["info"]["model_stats"]["instance_cost"] is None
    assert {message["extra"]["cost"] for message in whole["messages"] if message["role"] == "assistant"} == {None}


def test_commands_are_its_actions():
    actions = [
        action["command"]
        for message in conversation(told("family"))["messages"]
        for action in message["extra"].get("actions", [])
    ]
    assert actions == ["2 > a.py"]
