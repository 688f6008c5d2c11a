"""Context editing and compaction by the provider, with its rules simulated: what the model sees and what it costs."""

from itertools import pairwise

import pytest

from stackmem.core.compaction import apply_compaction
from stackmem.core.facts import ContextCompacted
from stackmem.core.log import Log
from stackmem.core.messages import Message, PromptEdits, Text, Thinking, ToolResult, Usage, View
from stackmem.lab.strategies.at_provider import edited
from stackmem.memory import open_strategy
from tests.build import call, play, reply, shown_text, started
from tests.memory.long_runs import bill, cached, commands, compactions, results, whole, worked

BLOCK = {"type": "compaction", "content": "the gist", "signature": "s"}
WINDOW = {"type": "compaction_window", "items": [{"type": "compaction", "encrypted_content": "x"}]}


def test_below_the_trigger_the_model_sees_the_whole_history():
    edited, full = worked("context_editing", 30), worked("full", 30)
    assert [asked.view.messages for asked in edited.asked] == [asked.view.messages for asked in full.asked]


def test_from_the_trigger_on_every_request_clears_all_results_but_the_newest():
    run = worked("context_editing:tokens=2500,keep=3", 40)
    shown = [whole(asked.view) for asked in run.asked]
    first = next(step for step, seen in enumerate(shown) if len(seen) < step)
    assert shown[:first] == [list(range(1, step + 1)) for step in range(first)]
    assert shown[first:] == [[step - 2, step - 1, step] for step in range(first, len(shown))]
    assert any(text.startswith("[cleared: 200 characters") for text in results(run.view))


def test_what_is_sent_is_always_the_whole_history():
    run = worked("context_editing:tokens=2500,keep=3", 40)
    sent = [list(asked.view.provider.messages) for asked in run.asked]
    for before, after in pairwise(sent):
        assert after[: len(before)] == before
    assert [asked.view.provider.edits.tokens for asked in run.asked] == [2_500] * len(sent)
    assert [list(asked.view.messages) for asked in worked("full", 40).asked] == sent


def test_a_clearing_must_free_the_least_amount():
    free = whole(worked("context_editing:tokens=2500,keep=3,least=1000", 40).view)
    assert free == [38, 39, 40]
    assert whole(worked("context_editing:tokens=2500,keep=3,least=9000", 40).view) == list(range(1, 41))
    assert whole(worked("context_editing:tokens=0", 40).view) == list(range(1, 41))
    assert whole(worked("context_editing:tokens=1,keep=0", 5).view) == []


def test_clearing_at_every_request_costs_more_than_clearing_in_batches():
    each = bill(cached(worked("context_editing:tokens=2500,keep=3", 120)))
    batches = bill(cached(worked("clear:tokens=2500,keep=3", 120)))
    assert each > 1.1 * batches


def test_the_cache_reads_what_was_cleared_before():
    run = worked("context_editing:tokens=2500,keep=3", 120)
    costs = cached(run)[-60:]
    assert all(one.read > 0.5 * (one.read + one.written_5m + one.written_1h + one.uncached) for one in costs)
    assert all(len(asked.view.breakpoints) <= 4 for asked in run.asked)


def test_two_edits_are_two_prompts():
    digests = {worked(f"context_editing:{edits}", 3).view.digest for edits in ("", "keep=2", "least=5", "thinking=2")}
    assert len({*digests, worked("full", 3).view.digest}) == 5


def thinking(number):
    return Thinking({"type": "thinking", "thinking": f"thought {number}", "signature": "s"})


def test_thinking_is_cleared_by_turns_of_the_assistant_and_not_within_one():
    replies = [reply(thinking(n), call("run_command", command=f"command {n}")) for n in range(1, 7)]
    run = play(*replies, start=started("context_editing:thinking=1"), world=commands(6)[1])
    assert thoughts(run.view.messages) == [1, 2, 3, 4, 5, 6], "all of it is one turn"
    messages = [Message("user", (Text("task"),))]
    for number in range(1, 7):
        if number in (3, 5):
            messages.append(Message("user", (Text("go on"),)))
        messages.append(Message("assistant", (thinking(number), Text("hm"))))
        messages.append(Message("user", (ToolResult(f"c{number}", "output"),)))
    view = View("", (), Log(messages))
    for keep, first in ((0, 1), (1, 5), (2, 3), (3, 1), (9, 1)):
        left = list(range(first, 7))
        assert thoughts(edited(view, PromptEdits(0, 3, 0, keep)).messages) == left


def thoughts(messages):
    return [
        int(part.raw["thinking"].split()[1])
        for message in messages
        for part in message.parts
        if isinstance(part, Thinking)
    ]


def test_a_compaction_by_the_provider_leaves_out_the_last_turn_and_reads_the_rest_from_the_cache():
    run = worked("compact_provider:2500", 40)
    asked = compactions(run)
    assert asked
    for effect in asked:
        view = effect.ask.view
        assert view.provider.summarizes
        steps = [int(part.text.split()[1]) for message in view.provider.messages for part in message.parts
                 if isinstance(part, ToolResult)]  # fmt: skip
        assert steps[-1] == effect.up_to_step
        assert "COMPACTION REQUEST" in shown_text(view)
        assert not any("COMPACTION REQUEST" in str(part) for part in view.provider.messages[-1].parts)
    costs = bill(cached(run))
    assert costs < bill(cached(worked("full", 40)))


@pytest.mark.parametrize("block", [BLOCK, WINDOW, None])
def test_the_providers_summary_begins_what_is_sent(block):
    run = worked("compact_provider:100000", 6)
    state, strategy = run.state, open_strategy("compact_provider:100000")
    told = ContextCompacted(state.running.id, 4, "the gist", Usage(), **({} if block is None else {"block": block}))
    view = strategy.render(apply_compaction(state, told))
    assert "the gist" in shown_text(view)
    assert whole(view) == [5, 6]
    if block is None:
        assert view.provider is None
        return
    first = view.provider.messages[0]
    assert first.parts[0] == Thinking(block)
    assert (len(first.parts) == 1) == (block is WINDOW)
    assert list(view.provider.messages)[1:] == list(view.messages)[1:]
    assert "the gist" not in "".join(part.text for part in first.parts if isinstance(part, Text))
    for point in view.provider.breakpoints:
        assert point.message < 0 or point.part < len(view.provider.messages[point.message].parts)
        if point.message == 0:
            assert point.part > 0, "the block itself carries no mark"
    lives = [point.ttl for point in view.provider.breakpoints]
    assert lives == sorted(lives)
    assert len(lives) <= 4


def test_a_summary_by_the_provider_is_text_for_another_strategy():
    state = worked("compact_provider:100000", 6).state
    after = apply_compaction(state, ContextCompacted(state.running.id, 4, "the gist", Usage(), block=BLOCK))
    assert "the gist" in shown_text(open_strategy("compact").render(after))
    assert open_strategy("compact").render(after).provider is None
