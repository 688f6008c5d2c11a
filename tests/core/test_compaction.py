"""A summary that replaces a conversation: how it counts, and what it does not affect."""

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.budgets import Limits
from stackmem.core.compaction import compact, turns_after, upkeep_effect
from stackmem.core.facts import ContextCompacted, ModelFailed, NoticeGiven, RunEnded
from stackmem.core.machine import advance, evolve, fold
from stackmem.core.requests import AskModel, Compact
from stackmem.core.state import Compaction, Reply, State
from stackmem.core.tools import END_RUN, ReadFile, Tool
from stackmem.memory.full import Full
from tests.build import PRICE, SPENT, do, failed, named, play, pop, push, started


class Shrinks(Struct, frozen=True):
    """Requests a summary as soon as there is something to summarize, and would do so forever."""

    name: str = "full"
    tools: tuple[Tool, ...] = (ReadFile, END_RUN)
    prompt: str = "full"
    prefix_stable: bool = False

    def render(self, state):
        return Full().render(state)

    def upkeep(self, state):
        return compact(state, self.render(state), state.step) if state.step else None


SHRINKS = Shrinks()


def after(*replies, **changes) -> State:
    return play(*replies, start=started("full", **changes)).state


def told(state: State, text: str = "what was done", **changes) -> State:
    event = ContextCompacted(state.running.id, state.step, text, SPENT)
    return evolve(state, replace(event, **changes))


def test_it_is_asked_for_as_a_request_is_and_answered_by_a_text_that_is_one_more_turn():
    state = after(do("read_file", path="a"))
    asked = advance(state, SHRINKS)
    assert isinstance(asked, Compact)
    assert (asked.frame, asked.up_to_step) == ("frame-0", 1)
    assert asked.ask == AskModel(SHRINKS.render(state), 2, 1, expects="text")
    then = told(state)
    assert then.running.turns[-1] == Compaction("what was done", 1, 1, state.heap)


def test_compaction_counts_tokens_and_cost_but_no_step_stall_or_call():
    state = after(do("read_file", path="a"), price=PRICE)
    then = told(state)
    assert (then.step, then.idle, then.pending) == (state.step, state.idle, None)
    assert then.facts == state.facts + 1
    assert then.usage == state.usage + SPENT
    assert then.usd == 2 * state.usd > 0


def test_between_two_texts_the_model_replies_at_least_once():
    then = told(after(do("read_file", path="a")))
    assert isinstance(advance(then, SHRINKS), AskModel)
    noticed = evolve(then, NoticeGiven("limit:steps", "three are left"))
    assert isinstance(advance(noticed, SHRINKS), AskModel)
    assert upkeep_effect(noticed, None) is None
    replied = evolve(noticed, named(do("read_file", path="b"), advance(noticed, SHRINKS)))
    answered = evolve(replied, play(do("read_file", path="b")).events[-1])
    assert isinstance(advance(answered, SHRINKS), Compact)


def test_a_text_may_be_asked_for_before_the_first_reply():
    state = after()
    asked = compact(state, SHRINKS.render(state), 0)
    assert upkeep_effect(state, asked) is asked


def test_its_failures_are_asked_again_waited_for_and_end_the_run_as_a_requests_do():
    state = after(do("read_file", path="a"))
    waits = []
    for _ in range(5):
        state = evolve(state, failed())
        asked = advance(state, SHRINKS)
        assert isinstance(asked, Compact)
        waits.append((asked.ask.attempt, asked.ask.wait_seconds))
    assert waits == [(2, 1.0), (3, 2.0), (4, 4.0), (5, 8.0), (6, 16.0)]
    assert told(state).failures == ()
    ended = advance(evolve(state, failed()), SHRINKS)
    assert isinstance(ended, RunEnded)
    assert ended.ending == "model_error"


def test_a_request_for_it_that_is_too_long_ends_the_run_with_its_root_open():
    state = evolve(after(do("read_file", path="a")), ModelFailed("window", "too long"))
    ended = advance(state, SHRINKS)
    assert isinstance(ended, RunEnded)
    assert ended.ending == "stalled"
    assert evolve(state, ended).stack


def test_a_limit_that_is_spent_comes_before_it():
    state = after(do("read_file", path="a"))
    spent = replace(state, limits=Limits(tokens=state.usage.total))
    assert advance(spent, SHRINKS) == RunEnded("limit:tokens", "frame 'root' is open")


def test_the_context_is_the_head_the_summary_and_the_remaining_turns():
    state = after(do("read_file", path="a"), do("read_file", path="b"))
    whole = told(state, "x" * 1_000)
    assert whole.running.prompt_tokens == 0
    assert whole.running.chars == state.running.opened_chars + 1_000
    part = told(state, "x" * 1_000, up_to_step=1)
    assert part.running.chars > whole.running.chars
    assert whole.running.context_tokens == int(whole.running.chars / 2.5)


def test_compaction_makes_room_in_a_full_frame():
    state = after(do("read_file", path="a"))
    full = replace(state.running, prompt_tokens=190_000, refused=2, told=state.running.told | {"window", "limit:steps"})
    then = told(replace(state, stack=(full,)))
    assert then.running.refused == 0
    assert then.running.told == frozenset({"limit:steps"})
    assert isinstance(advance(then, SHRINKS), AskModel)


def test_calls_refused_for_a_spent_constraint_stay_counted():
    played = play(push(constraint="steps=1"), do("list_files"), do("list_files"))
    assert played.state.running.refused == 1
    assert told(played.state).running.refused == 1


def test_a_reply_and_its_answer_stay_or_go_together():
    state = play(push(), do("list_files"), pop(), do("list_files")).state
    frame = state.running
    steps = [turn.step for turn in turns_after(frame, 1) if isinstance(turn, Reply)]
    assert steps == [4]  # step 3 answered the push and is removed with it
    assert turns_after(frame, 0) == list(frame.turns)
    assert turns_after(frame, 4) == []
    assert turns_after(told(state, up_to_step=1).running, 1) == turns_after(frame, 1)


def test_an_empty_text_is_kept_as_it_is():
    state = told(after(do("read_file", path="a")), "")
    assert state.running.turns[-1] == Compaction("", 1, 1, state.heap)


def test_no_turn_is_forgotten():
    played = play(do("read_file", path="a"), start=started("full"))
    events = [*played.events, ContextCompacted("frame-0", 1, "told", SPENT)]
    assert list(fold(events).running.turns)[:-1] == list(played.state.running.turns)
