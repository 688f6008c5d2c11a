"""ForEach and While: order, errors, delays, results, and their changes to the payload."""

import gc
import json
import tracemalloc

import pytest

from stackmem.core.requests import InvokeTool, Wait
from stackmem.languages.language import Launch
from stackmem.languages.loop_agent.language import start
from stackmem.languages.operations import Complete, Completion, Group, ToolAnswer
from tests.conftest import CAMPAIGN

from .stage import AGENT, OWN, PATH, change, done, for_each, play, step, while_

ITEMS = AGENT + "payload: {items: [{id: 1}, {id: 2}, {id: 3}]}\n"
MANY = 10_000 if CAMPAIGN else 3_000


def fetched(call: InvokeTool) -> ToolAnswer:
    return ToolAnswer({"got": call.arguments["id"]})


def failing_at(*ids: int):
    return lambda call: ToolAnswer(None, "error", "no") if call.arguments["id"] in ids else fetched(call)


def one(**more):
    return for_each(action={"name": "Fetch Page", "params": {"id": "item.id", "n": "index"}, **more})


def test_one_decision_does_it_for_every_item_in_order():
    played = play(one(), done(), agent=ITEMS, tool=fetched)
    assert [call.arguments for call in played.calls] == [{"id": 1, "n": 0}, {"id": 2, "n": 1}, {"id": 3, "n": 2}]
    assert "**Type:** ForEach\n**Collection:** items\n**Processed:** 3, **Errors:** 0" in played.last
    assert "### Iteration 3\n✓ SUCCESS\n" in played.last
    assert "[#1] Completed ForEach loop request using collection at 'items': 3 processed, 0 errors" in played.last


def test_results_are_shown_for_one_turn_and_a_line_stays():
    played = play(one(), change(newElements={"kept": 1}), done(), agent=ITEMS, tool=fetched)
    assert "### Iteration 1" in played.prompt(1)
    assert "### Iteration 1" not in played.prompt(2)
    assert "[#1] Completed ForEach" in played.prompt(2)
    assert "forEachResults" not in json.dumps(played.value)


@pytest.mark.parametrize(("turns", "shown"), [(0, [False, False]), (2, [True, True])])
def test_the_definition_says_for_how_many_turns(turns, shown):
    agent = ITEMS + f"loop_result_turns: {turns}\n"
    played = play(one(), change(newElements={"kept": 1}), done(), agent=agent, tool=fetched)
    assert ["### Iteration 1" in played.prompt(number) for number in (1, 2)] == shown


@pytest.mark.parametrize(
    "path", ["payload.items", "PAYLOAD.items", "items", 'static:[{"id": 1}, {"id": 2}, {"id": 3}]']
)
def test_collections_are_named_in_four_ways(path):
    loop = for_each(collectionPath=path, action={"name": "fetch", "params": {"id": "item.id"}})
    assert len(play(loop, done(), agent=ITEMS, tool=fetched).calls) == 3


@pytest.mark.parametrize("path", ["nothing", "items[0]", "a..b", "static:{}", "static:[", "payload"])
def test_what_is_no_list_fails_the_step(path):
    played = play(for_each(collectionPath=path), done(), agent=ITEMS)
    assert f'The step failed: Collection path "{path}" not an array.' in played.last


def test_zero_iterations_means_zero():
    played = play(for_each(maxIterations=0), while_("true", maxIterations=0), done(), agent=ITEMS)
    assert played.calls == []
    assert "**Processed:** 0, **Errors:** 0" in played.prompt(1)


def test_no_more_than_the_most():
    assert len(play(for_each(maxIterations=2), done(), agent=ITEMS).calls) == 2


def test_what_is_left_out_is_told():
    agent = AGENT + "payload: {items: [1, 2, 3]}\n"
    told = "**Warning:** the last 1 of 3 items were left out, since maxIterations is 2"
    for mode in ("sequential", "parallel"):
        loop = {"collectionPath": "items", "action": {"name": "Fetch Page"}, "maxIterations": 2, "executionMode": mode}
        assert told in play(step("ForEach", forEach=loop), done(), agent=agent).last


def test_a_failure_stops_the_loop_and_keeps_what_was_done():
    played = play(one(), done(), agent=ITEMS, tool=failing_at(2))
    assert len(played.calls) == 2
    assert "ForEach loop stopped after 2 iteration(s): iteration 2 failed" in played.last
    assert "**Stopped:** iteration 2 failed" in played.last
    assert "### Iteration 1\n✓" in played.last


def test_continue_on_error_goes_on():
    loop = one()
    loop["nextStep"]["forEach"]["continueOnError"] = True
    played = play(loop, done(), agent=ITEMS, tool=failing_at(2))
    assert len(played.calls) == 3
    assert "**Processed:** 3, **Errors:** 1" in played.last
    assert "### Iteration 2\n✗ ERROR — no" in played.last


def test_a_loop_in_which_everything_fails_is_a_failed_step():
    agent = ITEMS + "limits: {failures: 1}\n"
    assert "iteration 1 failed" in play(one(), agent=agent, tool=failing_at(1)).halted[1]


def test_delays_stand_between_iterations_only():
    played = play(for_each(delayBetweenIterationsMs=1500), done(), agent=ITEMS)
    assert [effect.seconds for effect in played.done.happened if isinstance(effect, Wait)] == [1.5, 1.5]


def test_an_output_mapping_is_applied_after_each_iteration():
    mapped = {"got": "items[{{index}}].page"}
    played = play(one(outputMapping=mapped), done(), agent=ITEMS, tool=fetched)
    assert [item["page"] for item in played.value["items"]] == [1, 2, 3]
    assert play(one(outputMapping=json.dumps(mapped)), done(), agent=ITEMS, tool=fetched).value == played.value
    whole = play(one(outputMapping="payload.last"), done(), agent=ITEMS, tool=fetched)
    assert whole.value["last"] == {"got": 3}
    assert "different values" not in whole.last


def test_a_mapping_that_leads_nowhere_is_told():
    agent = ITEMS.replace("tool: fetch,", "tool: fetch, output_mapping: 'x{{item.none}}..y',")
    assert (
        "is not a path in the payload; nothing was written there" in play(one(), done(), agent=agent, tool=fetched).last
    )


def test_parallel_iterations_see_the_payload_as_it_was_and_conflicts_are_told():
    agent = ITEMS + "  \n"
    loop = for_each(
        executionMode="parallel", maxConcurrency=2,
        action={"name": "fetch", "params": {"id": "item.id", "seen": "{{payload.last}}"}, "outputMapping": "last"},
    )  # fmt: skip
    played = play(loop, done(), agent=agent, tool=fetched)
    assert [call.arguments["seen"] for call in played.calls] == ["payload.last"] * 3
    assert played.value["last"] == {"got": 3}
    assert "iterations 0 and 1 wrote different values to 'last'; the later holds" in played.last
    assert [len(each.operations) for each in played.done.happened if isinstance(each, Group)] == [2]


def test_a_parallel_failure_stops_after_its_batch():
    loop = one()
    loop["nextStep"]["forEach"] |= {"executionMode": "parallel", "maxConcurrency": 2}
    played = play(loop, done(), agent=ITEMS, tool=failing_at(1))
    assert len(played.calls) == 2
    assert "stopped after 2 iteration(s): iteration 1 failed" in played.last


def test_an_action_that_may_not_run_beside_others_runs_by_itself_in_a_parallel_loop():
    loop = for_each(executionMode="parallel", action={"name": "poll", "params": {"id": "item.id"}})
    played = play(loop, done(), agent=ITEMS, tool=fetched)
    assert len(played.calls) == 3
    assert not [each for each in played.done.happened if isinstance(each, Group)]


def test_an_unknown_action_in_a_loop_is_told():
    for mode in ("sequential", "parallel"):
        played = play(for_each(executionMode=mode, action={"name": "dance"}), done(), agent=ITEMS)
        assert "UNKNOWN_ACTION — unknown action 'dance'" in played.last


def test_results_that_are_too_long_stand_in_a_file_and_a_line_each_errors_first():
    agent = AGENT + "payload: {items: [" + ", ".join(f"{{id: {n}}}" for n in range(400)) + "]}\n"
    long = lambda call: failing_at(7)(call) if call.arguments["id"] == 7 else ToolAnswer("x" * 200)  # noqa: E731
    loop = one()
    loop["nextStep"]["forEach"]["continueOnError"] = True

    def tool(call: InvokeTool) -> ToolAnswer:
        return ToolAnswer() if call.tool == "write_file" else long(call)

    played = play(loop, loop, done(), agent=agent, tool=tool)
    written = [call.arguments for call in played.calls if call.tool == "write_file"]
    assert [each["path"] for each in written] == [".stackmem/loop/1.jsonl", ".stackmem/loop/2.jsonl"]
    rows = [json.loads(line) for line in written[0]["content"].splitlines()]
    assert [row["index"] for row in rows] == list(range(400))
    assert rows[7] == {"index": 7, "ok": False, "code": "ERROR", "told": "no", "value": None}
    shown = played.prompt(1).split("one JSON object a line.\n")[1]
    assert shown.startswith("7 error no\n0 ok xxx")
    assert " more)" in shown
    assert len(played.prompt(1)) < 80_000


def test_a_file_that_cannot_be_written_is_said():
    def tool(call: InvokeTool) -> ToolAnswer:
        return ToolAnswer(None, "refused", "full") if call.tool == "write_file" else ToolAnswer("x" * 30_001)

    assert "What belongs in .stackmem/loop/1.jsonl could not be written (full)." in (
        play(one(), done(), agent=ITEMS, tool=tool).last
    )


def test_results_of_many_mebibytes_stand_in_several_files_that_can_each_be_written():
    written = list[InvokeTool]()

    def tool(call: InvokeTool) -> ToolAnswer:
        if call.tool == "write_file":
            written.append(call)
            return ToolAnswer(None, "refused", "full") if call.arguments["path"].endswith(".3.jsonl") else ToolAnswer()
        return ToolAnswer("é" * 1_500_000)

    last = play(one(), done(), agent=ITEMS, tool=tool).last
    rows = [json.loads(line) for call in written for line in call.arguments["content"].splitlines()]
    assert [row["index"] for row in rows] == [0, 1, 2]
    assert all(len(call.arguments["content"].encode()) < 4 * 1024 * 1024 for call in written)
    assert "Results are stored in full in 2 files, from .stackmem/loop/1.jsonl to .stackmem/loop/1.2.jsonl" in last
    assert "What belongs in .stackmem/loop/1.3.jsonl could not be written (full)." in last


def test_while_polls_until_its_condition_holds_no_more():
    states = iter(["pending", "pending", "ready"])
    loop = while_(
        "payload.state !== 'ready'", delayBetweenIterationsMs=3000,
        action={"name": "poll", "outputMapping": "state",
                "params": {"n": "attempt.attemptNumber", "of": "attempt.totalAttempts"}},
    )  # fmt: skip
    played = play(loop, done(), tool=lambda _: ToolAnswer(next(states)))
    assert [call.arguments for call in played.calls] == [{"n": n, "of": 100} for n in (1, 2, 3)]
    assert played.value == {"state": "ready"}
    assert (
        "Completed While loop request using condition 'payload.state !== 'ready'' after 3 iteration(s)" in played.last
    )
    assert [each.seconds for each in played.done.happened if isinstance(each, Wait)] == [3.0, 3.0]


def test_while_sees_results_and_errors():
    fails = lambda _: ToolAnswer(None, "error", "no")  # noqa: E731
    played = play(while_("errors.length < 3", continueOnError=True), done(), tool=fails)
    assert len(played.calls) == 3
    played = play(while_("results.length < 2"), done())
    assert len(played.calls) == 2


def test_while_stops_at_its_first_failure():
    fails = lambda _: ToolAnswer(None, "error", "no")  # noqa: E731
    assert (
        "While loop stopped after 1 iteration(s): iteration 1 failed" in play(while_("true"), done(), tool=fails).last
    )


def test_while_that_runs_as_often_as_it_may_says_so():
    assert "it ran as often as it may (2)" in play(while_("true", maxIterations=2), done()).last


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("payload.x =", "AssignmentExpression is not allowed"),
        ("1 +", "not a parseable single expression"),
        ("nobody", "nobody is not defined"),
        ("__import__('os')", "is not defined"),
        ("payload.__proto__", "forbidden construct"),
    ],
)
def test_a_condition_that_cannot_be_evaluated_fails_before_the_first_iteration(condition, told):
    played = play(while_(condition), done())
    assert played.calls == []
    assert told in played.last
    assert f"(condition: {condition})" in played.last


def test_a_condition_that_breaks_midway_keeps_the_results_and_says_so():
    answers = iter([{"more": {"n": 1}}, {"more": None}])
    loop = while_("payload.more.n !== 5", action={"name": "poll", "outputMapping": {"more": "more"}})
    agent = AGENT + "payload: {more: {n: 0}}\n"
    played = play(loop, done(), agent=agent, tool=lambda _: ToolAnswer(next(answers)))
    assert "While loop stopped after 2 iteration(s)" in played.last
    assert "could not be evaluated" in played.last
    assert "### Iteration 2" in played.last


def big_loop(count: int) -> tuple[dict, dict]:
    loop = step("ForEach", forEach={
        "collectionPath": "items", "maxIterations": count, "executionMode": "parallel", "maxConcurrency": 16,
        "continueOnError": True, "action": {"name": "fetch", "params": {"n": "item"}},
    })  # fmt: skip
    return loop, done()


def test_thousands_of_items_sixteen_at_a_time_with_failures_cost_one_decision_and_no_more_memory_than_their_results():
    count, written, replies = MANY, [], iter(big_loop(MANY))
    program = start(
        Launch(PATH, AGENT + "payload_schema: {properties: {items: {}}}\n", {"items": list(range(count))}, tools=OWN)
    )
    sizes, prompts, widest, value = [], [], 0, None

    def answered(effect):
        if isinstance(effect, Complete):
            prompts.append("\n".join(part.text for part in effect.messages[-1].parts))
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
            return Completion(json.dumps(next(replies)))
        if effect.tool == "write_file":
            written.append(effect.arguments["content"])
            return ToolAnswer()
        number = effect.arguments["n"]
        return (
            ToolAnswer(None, "error", f"no {number}")
            if number % 100 == 50
            else ToolAnswer({"page": "x" * 100 + str(number)})
        )

    tracemalloc.start()
    try:
        sent = None
        while True:
            asked = program.send(sent)
            sent = None
            if isinstance(asked, Group):
                widest = max(widest, len(asked.operations))
                sent = tuple(answered(each) for each in asked.operations)
            elif isinstance(asked, Complete | InvokeTool):
                sent = answered(asked)
    except StopIteration as stop:
        value = stop.value
    finally:
        tracemalloc.stop()
    assert len(value["items"]) == count
    rows = [json.loads(line) for line in written[0].splitlines()]
    assert [row["index"] for row in rows] == list(range(count))
    assert sum(not row["ok"] for row in rows) == count // 100
    assert all(row["value"]["page"].endswith(str(row["index"])) for row in rows if row["ok"])
    assert f"**Processed:** {count}, **Errors:** {count // 100}" in prompts[1]
    assert (widest, len(prompts)) == (16, 2)
    kept = sizes[1] - sizes[0] - sum(map(len, written))
    assert kept < 200_000, "after the loop its results are text in one file, and nothing else of them stays"


def test_a_payload_that_is_doubled_by_its_own_loop_is_stopped_in_a_sentence():
    params = {"a": "payload.x", "b": "payload.x"}
    loop = while_("true", maxIterations=60, continueOnError=True)
    loop["nextStep"]["while"]["action"] = {"name": "Poll", "params": params, "outputMapping": {"got": "x"}}
    agent = AGENT + "payload: {x: [1, 2, 3, 4, 5, 6, 7, 8]}\n"
    last = play(loop, done(), agent=agent).last
    assert "error a value has more than 2,000,000 characters" in last


def test_a_payload_that_its_own_loop_nests_is_stopped_in_a_sentence():
    loop = while_("true", maxIterations=200, continueOnError=True)
    loop["nextStep"]["while"]["action"] = {
        "name": "Poll", "params": {"a": "payload.x"}, "outputMapping": {"got": "x.y"}
    }  # fmt: skip
    played = play(loop, done(), agent=AGENT + "payload: {x: [1]}\n")
    assert "nested deeper than 150 levels" in played.last


def test_a_path_of_thirty_thousand_steps_is_no_path():
    loop = one(outputMapping="a." * 30_000 + "b")
    assert "is not a path in the payload" in play(loop, done(), agent=ITEMS).last


def test_a_text_of_references_stays_within_what_a_value_may_be():
    loop = for_each(action={"name": "Fetch Page", "params": {"n": "{{payload.t}}" * 5_000}}, maxIterations=1)
    agent = AGENT + "payload: {items: [1], t: " + "x" * 100_000 + "}\n"
    played = play(loop, done(), agent=agent, tool=lambda _: ToolAnswer("ok"))
    assert all(len(call.arguments["n"]) < 2_100_000 for call in played.calls)
    assert "a text would have more than 2,000,000 characters" in played.last
