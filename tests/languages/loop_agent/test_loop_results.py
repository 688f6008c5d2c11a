"""Loop results are written while the loop runs and kept no longer than needed."""

import gc
import json
import tracemalloc

import pytest

from stackmem.core.program_facts import ToolAnswered
from stackmem.core.requests import InvokeTool
from stackmem.languages.language import Launch
from stackmem.languages.loop_agent.language import start
from stackmem.languages.loop_agent.references import excess
from stackmem.languages.operations import Complete, Completion, Group, ToolAnswer

from .seam import Clocked
from .stage import AGENT, OWN, PATH, done, for_each, play, step, while_

LARGE = 10_000
MIB = 1024 * 1024
ITEMS = AGENT + "payload_schema: {properties: {items: {}}}\n"


def loop(count: int, **more):
    return for_each(
        maxIterations=count, continueOnError=True, action={"name": "fetch", "params": {"n": "item"}}, **more
    )  # fmt: skip


def page(call: InvokeTool) -> ToolAnswer:
    if call.tool == "write_file":
        return ToolAnswer()
    number = call.arguments.get("n", 0)
    return ToolAnswer(None, "error", f"no {number}") if number % 100 == 7 else ToolAnswer(f"{number} " + "x" * LARGE)


def most_memory(count: int, reply: dict) -> tuple[int, list[dict]]:
    """Return the peak memory in bytes since the first decision, and the calls that wrote files."""
    program = start(Launch(PATH, ITEMS, {"items": list(range(count))}, tools=OWN))
    replies, written, sent = iter((reply, done())), list[dict](), None

    def answered(effect):
        if isinstance(effect, Complete):
            gc.collect()
            tracemalloc.reset_peak()
            begun.append(tracemalloc.get_traced_memory()[0])
            return Completion(json.dumps(next(replies)))
        if isinstance(effect, InvokeTool) and effect.tool == "write_file":
            rows = [json.loads(row) for row in effect.arguments["content"].splitlines()]
            written.append({"path": effect.arguments["path"], "indexes": [row["index"] for row in rows]})
        return page(effect)

    begun, peaks = list[int](), list[int]()
    tracemalloc.start()
    try:
        while True:
            asked = program.send(sent)
            sent = None
            if isinstance(asked, Group):
                sent = tuple(answered(each) for each in asked.operations)
            elif isinstance(asked, Complete | InvokeTool):
                peaks.append(tracemalloc.get_traced_memory()[1])
                sent = answered(asked)
    except StopIteration:
        return max(peaks[1:]) - begun[0], written
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_a_loop_over_much_is_written_as_it_goes_on_and_held_no_more_than_a_file_at_a_time(mode):
    count = 2_000
    peak, written = most_memory(count, loop(count, executionMode=mode, maxConcurrency=16))
    assert [each["path"] for each in written] == [
        ".stackmem/loop/1.jsonl", *[f".stackmem/loop/1.{n}.jsonl" for n in range(2, len(written) + 1)]
    ]  # fmt: skip
    assert [index for each in written for index in each["indexes"]] == list(range(count))
    assert len(written) == 5
    assert peak < 15 * MIB, "20 MB of results pass through"


def test_a_while_loop_holds_its_results_only_where_its_condition_looks_at_them():
    def at_most(condition: str) -> int:
        polls = while_(condition, maxIterations=1_500, action={"name": "poll", "params": {"n": 1}})
        return most_memory(0, polls)[0]

    assert at_most("attempt.attemptNumber > 0") < 15 * MIB
    assert at_most("results.length >= 0") > 20 * MIB


def test_a_file_is_written_before_the_loop_is_over_and_the_message_says_where_all_of_them_are():
    played = play(loop(900), done(), agent=ITEMS, tool=page, inputs={"items": list(range(900))})
    calls = [call.tool for call in played.calls]
    files = [place for place, tool in enumerate(calls) if tool == "write_file"]
    assert len(files) == 3
    assert files[0] < len(calls) / 2
    assert files[-1] == len(calls) - 1
    files_line = "All results are stored in full in 3 files, from .stackmem/loop/1.jsonl to .stackmem/loop/1.3.jsonl"
    assert files_line in played.last
    lines = played.last.split("one JSON object a line.\n")[1].splitlines()
    assert [line.split()[:2] for line in lines[:10]] == [
        *[[str(n), "error"] for n in range(7, 900, 100)], ["0", "ok"]
    ]  # fmt: skip
    told = next(line for line in lines if line.endswith(" more)"))
    assert lines.index(told) + int(told.strip("(").split()[0].replace(",", "")) == 900


def test_a_loop_whose_results_are_not_shown_writes_nothing():
    agent = ITEMS + "loop_result_turns: 0\n"
    played = play(loop(900), done(), agent=agent, tool=page, inputs={"items": list(range(900))})
    assert not [call for call in played.calls if call.tool == "write_file"]
    assert "900 processed, 9 errors; its results are not shown" in played.last


def test_errors_that_fill_the_message_leave_no_room_for_what_went_well():
    def failing(call: InvokeTool) -> ToolAnswer:
        bad = call.tool != "write_file" and call.arguments["n"] != 3
        return ToolAnswer(None, "error", "e" * 400) if bad else ToolAnswer("fine")

    played = play(loop(900), done(), agent=ITEMS, tool=failing, inputs={"items": list(range(900))})
    lines = played.last.split("one JSON object a line.\n")[1].splitlines()
    told = next(line for line in lines if line.endswith(" more)"))
    assert not [line for line in lines if " ok " in line]
    assert lines.index(told) + int(told.strip("(").split()[0]) == 900


def test_what_an_iteration_was_given_of_the_payload_does_not_change_when_later_ones_write():
    """A whole object is passed to a call, and replay compares the call again."""
    mapped = {"name": "fetch", "params": {"n": 1, "seen": "payload.kept"}, "outputMapping": "kept[{{index}}]"}
    agent = AGENT + "payload: {items: [1, 2, 3], kept: []}\n"
    played = play(for_each(action=mapped), done(), agent=agent, tool=lambda call: ToolAnswer(len(call.arguments)))
    assert [call.arguments["seen"] for call in played.calls] == [[], [2], [2, 2]]
    assert played.value["kept"] == [2, 2, 2]


def test_a_thousand_actions_are_the_most_of_one_response():
    def asked(count: int):
        return step("Actions", actions=[{"name": "Poll", "params": {"n": n}} for n in range(count)])

    assert len(play(asked(1_000), done()).calls) == 1_000
    played = play(asked(20_000), done())
    assert played.calls == []
    assert "20,000 actions requested; one response may contain 1,000, a ForEach as many as" in played.last


def test_what_is_too_much_is_found_though_the_same_part_stands_there_a_million_times():
    doubled, nested = [1], [1]
    for _ in range(60):
        doubled = [doubled, {"again": doubled}]
    for _ in range(149):
        nested = [nested, nested]
    assert excess(doubled) == "a value has more than 2,000,000 characters"
    assert excess([1] * 200_000) == excess({"a": "x" * 2_000_000}) == excess(nested) == excess(doubled)
    narrow = [1]
    for _ in range(149):
        narrow = [narrow]
    assert (excess(narrow), excess([narrow])) == ("", "a value is nested deeper than 150 levels")
    assert excess([[[narrow[0]]], narrow, narrow[0]]) == excess([narrow])
    assert [excess(plain) for plain in (None, 1, "", "x" * 1_000, {}, [[]])] == [""] * 6


def test_a_loop_that_is_stopped_between_two_files_goes_on_where_it_was_and_replays():
    agent = AGENT.replace("tool: fetch,", "tool: read_file,").replace("tool: poll", "tool: shell")
    items = f"static:{list(range(900))}"
    each = {"name": "fetch", "params": {"path": "{{item}}.txt"}}

    def begun():
        reply = for_each(collectionPath=items, executionMode="parallel", maxConcurrency=16, action=each)
        return Clocked(agent, reply, done(), tool=ToolAnswered("x" * LARGE))

    def files(played: Clocked) -> list[dict]:
        return [call.arguments for call in played.calls if call.tool == "write_file"]

    whole = begun().play()
    assert len(files(whole)) == 3
    assert whole.state.outcome == "finished"
    for facts in (len(whole.events) // 4, len(whole.events) // 2, len(whole.events) - 6):
        stopped = begun().play(facts).stopped_and_resumed().play()
        assert stopped.state.outcome == "finished"
        assert files(stopped) == files(whole)
        assert stopped.replayed() == 2
