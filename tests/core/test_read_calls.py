"""Several read-only calls in one reply are answered together, if the run's start says so."""

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from stackmem.core.budgets import Limits
from stackmem.core.conversation.hook_facts import Hook, HookRan
from stackmem.core.facts import CallRejected, ChunkRead, RunEnded, ToolReturned
from stackmem.core.guidance.reading import MOST
from stackmem.core.machine import advance, evolve
from stackmem.core.messages import Message, Text, ToolResult
from stackmem.core.requests import AskModel, RunHook, UseTool
from stackmem.core.state import Result, State
from stackmem.memory import STRATEGIES, open_strategy
from tests.build import World, alloc, call, do, play, pop, push, reply, shown_text, started

MANY = replace(started(), read_calls="many")
FILES = {"a.txt": "the first", "b.txt": "the second", "c.txt": "x" * 7_000}
READS = (call("read_file", path="a.txt"), call("read_file", path="missing"), call("list_files"))


def played(*replies, start=MANY, files=FILES):
    return play(*replies, start=start, world=World(dict(files)))


def results(view):
    return [part for message in view.messages for part in message.parts if isinstance(part, ToolResult)]


def test_all_calls_of_a_reply_are_answered_in_one_message_and_count_as_one_step():
    done = played(reply(*READS))
    last = done.view.messages[-1]
    assert [part.text for part in last.parts if isinstance(part, ToolResult)] == [
        "the first", "missing does not exist", "a.txt\nb.txt\nc.txt"
    ]  # fmt: skip
    assert [part.call_id for part in results(done.view)] == ["call_0_0", "call_0_1", "call_0_2"]
    assert (done.state.step, len(done.of(ToolReturned)), done.of(CallRejected)) == (1, 3, [])
    assert done.asked[0].reads_together


def test_without_the_setting_nothing_changes():
    off = played(reply(*READS), start=started())
    assert [event.code for event in off.of(CallRejected)] == ["several_calls"]
    assert "answered together" not in shown_text(off.view)
    assert not off.asked[0].reads_together
    assert "up to 16 calls of them in one reply" in shown_text(played().view)


@pytest.mark.parametrize("other", ["run_command", "write_file", "heap_alloc", "heap_free", "push_frame", "pop_frame"])
def test_a_reply_with_any_other_call_is_refused_as_a_whole(other: str):
    done = played(reply(READS[0], call(other, command="x", path="p", content="c", name="n", result="r")))
    [refused] = done.of(CallRejected)
    assert (refused.code, len(results(done.view))) == ("several_calls", 2)
    assert "only read-only calls are answered together" in refused.reason


def test_more_than_sixteen_calls_are_refused():
    done = played(reply(*[READS[0]] * (MOST + 1)))
    assert [event.code for event in done.of(CallRejected)] == ["several_calls"]
    assert len(played(reply(*[READS[0]] * MOST)).of(ToolReturned)) == MOST


def test_a_refused_call_does_not_refuse_the_others():
    chunk, none = call("heap_read", name="spec"), call("heap_read", name="none")
    done = played(alloc("spec", "42"), reply(none, chunk, call("read_file", wrong=1), READS[0]))
    assert [part.failed for part in results(done.view)[1:]] == [True, False, True, False]
    assert [event.code for event in done.of(CallRejected)] == ["no_chunk", "bad_arguments"]
    assert [event.name for event in done.of(ChunkRead)] == ["spec"]


def test_results_of_one_reply_share_the_room_of_two_results():
    small = replace(MANY, window_tokens=32_000)  # one result may have 10,000 bytes
    done = played(reply(*[call("read_file", path="c.txt")] * 3, READS[0]), start=small)
    assert [effect.shown_bytes for effect in done.effects if isinstance(effect, UseTool)] == [10_000, 10_000, 6_000]
    assert [event.code for event in done.of(CallRejected)] == ["too_large"]
    assert "already have 21,000 bytes, and their maximum is 20,000" in done.answer


def test_a_closed_frame_counts_one_refusal_for_each_reply():
    tight = replace(MANY, limits=Limits(steps=40))
    done = played(push(constraint="steps=1"), reply(*READS), reply(*READS), start=tight)
    assert done.state.running.depth == 1
    assert done.state.running.refused == 1
    assert [event.code for event in done.of(CallRejected)] == ["constraint"] * 3


def test_equal_replies_with_equal_results_are_noticed_and_then_refused():
    same = replace(MANY, circles="refused")
    done = played(*[reply(*READS)] * 7, start=same)
    assert [event.code for event in done.of(CallRejected)] == ["repeated"] * 3
    assert "You made the same call 3 times" in shown_text(done.view)
    assert len(done.of(ToolReturned)) == 6 * 3
    stalled = played(*[reply(*READS)] * 12, start=same)
    assert [event.ending for event in stalled.of(RunEnded)] == ["stalled"]


def test_words_of_hooks_follow_the_last_result():
    start = replace(MANY, hooks=(Hook("after_tool", "true", "hooks.toml"),))
    state, strategy, said = evolve(State(), start), open_strategy(start.strategy), 0
    world, left = World(dict(FILES)), [reply(*[replace(one, id=str(n)) for n, one in enumerate(READS)])]
    while True:
        upcoming = advance(state, strategy)
        if isinstance(upcoming, AskModel):
            if not left:
                break
            fact = left.pop()
        elif isinstance(upcoming, RunHook):
            said += 1
            fact = HookRan(upcoming.hook, "passed", f"word {said}")
        else:
            fact = world.perform(upcoming)
        state = evolve(state, fact)
    parts = upcoming.view.messages[-1].parts
    assert [isinstance(part, ToolResult) for part in parts] == [True] * 3 + [False] * 3
    assert [part.text[-6:] for part in parts[3:]] == ["word 1", "word 2", "word 3"]


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_every_strategy_shows_the_results_before_any_other_text(name: str):
    start = replace(started(name), read_calls="many")
    done = played(*[reply(*READS)] * 9, do("read_file", path="b.txt"), start=start)
    for message in done.view.messages:
        kinds = [isinstance(part, ToolResult) for part in message.parts]
        assert kinds == sorted(kinds, reverse=True)
    assert answered(done.view.messages)
    assert [turn.step for turn in done.state.running.turns if isinstance(turn, Result)][:4] == [1, 1, 1, 2]


def answered(messages: list[Message]) -> bool:
    """Return whether each call is answered in the next message."""
    waiting: list[str] = []
    for message in messages:
        ids = [part.call_id for part in message.parts if isinstance(part, ToolResult)]
        if message.role == "user" and ids != waiting:
            return False
        waiting = [part.id for part in message.parts if not isinstance(part, Text) and hasattr(part, "arguments")]
    return True


def test_other_replies_after_many_reads_are_unchanged():
    done = played(reply(*READS), reply(READS[0], call("run_command", command="x")), pop())
    assert [event.code for event in done.of(CallRejected)] == ["several_calls"]
    assert done.state.several == 0
    assert MANY.several_calls is UNSET
