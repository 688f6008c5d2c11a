"""The conversation over many turns: expiry, summaries, recovery, and unchanged bytes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from stackmem.core.messages import ToolResult
from stackmem.core.program_facts import StepEntered
from stackmem.lab.strategies.results import shorten
from stackmem.languages.loop_agent import compaction
from stackmem.languages.loop_agent.compaction import boundary, compact, prune, summarize, take_rung
from stackmem.languages.loop_agent.conversation import AgentConversation
from stackmem.languages.loop_agent.tree import Expiry
from stackmem.languages.operations import Completion, ToolAnswer

from .stage import actions, change, done, play, step

LONG = "name: a\nprompt: p\nlimits: {context_tokens: 100000}\n"
TOOL = "actions: [{name: Poll, tool: poll%s}]\n"
WINDOW = Completion("", failed="window")


def long_answer(_):
    return ToolAnswer("z" * 9_000)


def agent(expires=""):
    return LONG + TOOL % (f", expires: {{{expires}}}" if expires else "")


def test_a_result_is_removed_when_it_is_due():
    played = play(actions("poll"), *[step("Retry")] * 3, done(), agent=agent("turns: 2"), tool=long_answer)
    assert ["z" * 9_000 in played.prompt(number) for number in range(1, 5)] == [True, True, False, False]
    assert "[#1] [Removed: 9," in played.last
    told = [each.call for each in played.done.happened if isinstance(each, StepEntered)]
    assert told.count("1 result left the prompt or became shorter") == 1


def test_the_strategy_and_the_agent_shorten_by_the_same_code():
    for size in (10, 120, 5_000):
        conversation = AgentConversation("task")
        conversation.result("action-result", "r" * size, 1)
        entry = conversation.entries[1]
        short = compact(entry, 50).text
        other = shorten(50, ToolResult("c", entry.text), 1).text
        assert short == other == entry.text or short[:50] == other[:50] == entry.text[:50]


def test_a_compacted_result_can_be_expanded_once():
    expand = step("Retry", messageIndex=1, reason="need it")
    played = play(
        actions("poll"), step("Retry"), expand, expand, done(), agent=agent("turns: 0, mode: compact, chars: 100"),
        tool=long_answer,
    )  # fmt: skip
    assert "[Compacted: showing first 100 of 9," in played.prompt(2)
    assert "z" * 9_000 not in played.prompt(2)
    assert "[Expanded #1]\n[#1] ## Poll" in played.prompt(3)
    assert "z" * 9_000 in played.prompt(3)
    assert "Do not request this expansion again." in played.last


def test_what_was_expanded_and_is_shortened_again_does_not_offer_to_be_expanded():
    conversation = AgentConversation("task")
    conversation.result("action-result", "z" * 3_000, 1, Expiry(0, "compact"))
    prune(conversation, 2)
    assert conversation.expand(1, 2)
    assert take_rung(conversation, 2, 3)
    assert all("It cannot be expanded again." in entry.text for entry in conversation.entries[1:])
    assert not conversation.expand(1, 3)


def test_a_summary_by_the_model_stands_for_a_result_and_a_failed_one_for_its_beginning():
    by_model = agent("turns: 0, mode: compact, by: summary, prompt: Shorten this.")
    played = play(actions("poll"), Completion("only z"), done(), agent=by_model, tool=long_answer)
    assert played.prompt(1).startswith("Shorten this.\n\n[#1] ## Poll")
    assert "[AI Summary of 9," in played.last
    assert "only z" in played.last
    failed = Completion("", failed="refused")
    played = play(actions("poll"), failed, done(), agent=by_model, tool=long_answer)
    assert "[Compacted: showing first 500 of 9," in played.last


def test_a_summary_that_is_no_shorter_is_not_taken():
    conversation = AgentConversation("task")
    conversation.result("action-result", "r" * 700, 1)
    entry = conversation.entries[1]
    assert summarize(entry, "s" * 800) == compact(entry, 500)


def test_the_agents_own_expiry_overrides_those_of_its_actions_and_sub_agents():
    override = agent("turns: 50") + "expires: {turns: 0}\n"
    assert "[Removed:" in play(actions("poll"), done(), agent=override, tool=long_answer).last


def test_a_prompt_that_is_too_long_is_shortened_step_by_step():
    played = play(actions("poll"), WINDOW, done(), agent=agent(), tool=long_answer)
    assert len(played.asked) == 3
    assert "z" * 9_000 in played.prompt(1)
    assert "[Compacted: showing first 500" in played.last


def test_a_prompt_that_cannot_be_shortened_ends_the_agent():
    assert play(WINDOW, agent=agent()).halted[0] == "Context Overflow"
    long_request = play(WINDOW, done(), agent=agent(), options={"request": "q" * 5_000})
    assert "[Trimmed: 5,000 characters]" in long_request.last


def test_a_long_conversation_is_summed_up_and_its_tail_stays():
    small = LONG.replace("100000", "4000") + TOOL % ""
    answer = lambda _: ToolAnswer("word " * 600)  # noqa: E731
    replies = [actions("poll")] * 5
    played = play(*replies, Completion("SUMMED UP"), done(), agent=small, tool=answer)
    assert played.asked[5].name == "summary"
    assert played.prompt(5).startswith("Sum up what follows in at most 1,000 words")
    own = play(*replies, Completion("SUMMED UP"), done(), agent=f"{small}summary_prompt: Be brief.\n", tool=answer)
    assert own.prompt(5).startswith("Be brief.\n\nAGENT (turn 1)")
    assert "AGENT (turn 1)" in played.prompt(5)
    assert "[Summary of the conversation up to here]\nSUMMED UP" in played.last
    assert played.last.count("word " * 600) < 5
    assert played.last.startswith("Do what your definition says")
    roles = [message.role for message in played.asked[-1].messages]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]


def test_a_summary_that_fails_leaves_the_conversation_and_waits_five_turns():
    small = LONG.replace("100000", "4000") + TOOL % ""
    answer = lambda _: ToolAnswer("word " * 600)  # noqa: E731
    failed = Completion("", failed="refused")
    changes = [change(newElements={"a": n}) for n in range(5)]
    played = play(*[actions("poll")] * 5, failed, *changes, Completion("S"), done(),
                  agent=small, tool=answer)  # fmt: skip
    assert [each.name for each in played.asked].count("summary") == 2
    assert "word " * 600 in played.prompt(7)


def grown(sizes):
    conversation = AgentConversation("task")
    for turn, size in enumerate(sizes, 1):
        conversation.reply("{}", turn)
        conversation.tell("w" * 4 * size, turn)
    return conversation


def test_churn_is_guarded_against():
    assert compaction.plan_fold(grown([100]), 8_000) is None
    few = compaction.plan_fold(grown([8_000]), 8_000)
    assert few == compaction.Skipped("No foldable boundary")
    small = compaction.plan_fold(grown([300, 300, 300, 300]), 1_500)
    assert isinstance(small, compaction.Skipped)
    assert small.reason.startswith("Projected gain")
    fold = compaction.plan_fold(grown([2_000, 2_000, 2_000, 900]), 8_000)
    assert isinstance(fold, compaction.FoldPlan)
    assert fold.upto == 7


def test_the_summary_before_is_part_of_the_next():
    conversation = grown([2_000, 2_000, 2_000, 900])
    plan = compaction.plan_fold(conversation, 8_000)
    compaction.fold_entries(conversation, plan, "FIRST", 5)
    for turn in range(5, 9):
        conversation.reply("{}", turn)
        conversation.tell("w" * 8_000, turn)
    again = compaction.plan_fold(conversation, 8_000)
    assert again.text.startswith("EARLIER SUMMARY\n[Summary of the conversation up to here]\nFIRST")


def test_a_budget_is_the_agents_own_within_the_models():
    assert compaction.budget_of(None, None) == 8_000
    assert compaction.budget_of(5_000, None) == 5_000
    assert compaction.budget_of(500_000, 200_000) == 200_000
    assert compaction.tokens_of("    ") == 0
    assert compaction.tokens_of('{"a":1}' * 40) == 80


def test_a_summary_that_is_too_long_itself_is_said_once():
    small = LONG.replace("100000", "4000") + TOOL % ""
    answer = lambda _: ToolAnswer("word " * 600)  # noqa: E731
    played = play(*[actions("poll")] * 5, Completion("long " * 4_000), done(), agent=small, tool=answer)
    told = [each.call for each in played.done.happened if getattr(each, "call", "").startswith("The summary alone")]
    assert told == ["The summary alone exceeds the trigger"]


def test_the_window_of_the_model_is_taken_where_it_is_known():
    known = play(*[actions("poll")] * 2, done(), agent="name: a\nprompt: p\n" + TOOL % "", tool=long_answer,
                 options={"window_tokens": 200_000})  # fmt: skip
    assert all(each.name == "a" for each in known.asked)


def steady(prompt, tail):
    """Return all parts of a prompt with their roles, without its tail."""
    parts = [(message.role, part.text) for message in prompt.messages for part in message.parts]
    return parts[:-1] if tail else parts


ENTRY = st.tuples(
    st.sampled_from(["reply", "note", "result"]),
    st.integers(0, 3_000),
    st.one_of(st.none(), st.builds(Expiry, st.integers(0, 3), st.sampled_from(["none", "remove", "compact"]))),
)


@given(st.lists(st.lists(ENTRY, max_size=3), max_size=12))
def test_before_the_boundary_every_prompt_keeps_the_bytes_of_the_one_before(turns):
    conversation = AgentConversation("task")
    before = steady(conversation.prompt("tail"), "tail")
    for turn, entries in enumerate(turns, 1):
        first = boundary(conversation.entries, turn)
        any_volatile = any(entry.volatile for entry in conversation.entries)
        prune(conversation, turn)
        after = steady(conversation.prompt("tail"), "tail")
        assert after[:first] == before[:first]
        assert any_volatile or after == before
        conversation.reply("{}", turn)
        for kind, size, expires in entries:
            if kind == "result":
                conversation.result("action-result", "r" * size, turn, expires)
            elif kind == "note":
                conversation.tell("n" * size, turn)
        if turn % 3 == 0:
            conversation.expand(turn, turn)
        conversation.tell("go on", turn)
        prompt = conversation.prompt("another tail")
        before = steady(prompt, "tail")
        assert before[: len(after)] == after
        assert len(prompt.breakpoints) <= 4
        ttls = [point.ttl for point in prompt.breakpoints]
        assert ttls == sorted(ttls)
        last = prompt.breakpoints[-1]
        assert prompt.messages[last.message].parts[last.part].text != "another tail"


DECISION = st.sampled_from([
    actions("poll"), step("Retry"), change(newElements={"n": 1}), change(updateElements={"n": "new"}), "no", "",
    step("Retry", messageIndex=1), {"automaticCommands": [{"type": "notification", "message": "x"}]},
    step("ForEach", forEach={"collectionPath": "static:[1, 2]", "action": {"name": "poll"}}),
])  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.lists(DECISION, max_size=14))
def test_whatever_an_agent_does_its_system_prompt_and_its_past_keep_their_bytes(decisions):
    played = play(*decisions, *[done()] * 20, agent=agent(), tool=lambda _: ToolAnswer("r" * 900))
    for one, two in zip(played.asked, played.asked[1:], strict=False):
        past = steady(one, "tail")
        assert steady(two, "tail")[: len(past)] == past
        assert one.system == two.system
    assert "## Current State" in played.asked[0].messages[-1].parts[-1].text
    assert sum("## Current State\n**Payload" in part.text for m in played.asked[-1].messages for part in m.parts) == 1


def test_breakpoints_stand_after_the_system_the_request_the_steady_part_and_the_end():
    conversation = AgentConversation("task")
    for turn in (1, 2):
        conversation.reply("{}", turn)
        conversation.tell("n", turn)
    conversation.reply("{}", 3)
    conversation.result("action-result", "r", 3, Expiry(1))
    points = conversation.prompt("tail").breakpoints
    found = [(point.message, point.part, point.ttl) for point in points]
    assert found == [(-1, 0, "1h"), (0, 0, "1h"), (5, 0, "5m"), (6, 0, "5m")]
