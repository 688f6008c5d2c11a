"""Text that the reader writes next to its call, under strategies that show nothing else of the past."""

import pytest

from stackmem.core.budgets import Budgets
from stackmem.core.messages import Message, Text, ToolCall, ToolResult
from stackmem.core.tool_schemas import spec
from stackmem.lab.simulated.carrying import MAX_BLOCKS, carried, episode
from stackmem.lab.simulated.dials import PERFECT, ReaderDials
from stackmem.lab.simulated.knowledge import Knowledge
from stackmem.lab.simulated.lines import ReadTo, lines
from stackmem.lab.simulated.listening import read_message
from stackmem.lab.simulated.reader import self_compaction
from stackmem.lab.simulated.sight import ChosenCall, offered
from stackmem.memory import open_strategy
from tests.build import slots

ANSWER = (
    "unit 4: needs env.runner <probe docs/ci/runner.md>, env.queue <read docs/q.md>; gives result.u4\n"
    "env.runner = tox\nnot env.queue = redis\nchanged mirror @ 3\ndone unit 3\n[exit 0]"
)
DOCUMENT = "[lines 1-80 of 400; read on with start_line=81]\n- env.locale = C\n- candidate env.queue: redis nats\n"


def known(
    *answers: tuple[str, dict[str, str], str], asks: str, dials: ReaderDials = PERFECT
) -> tuple[Knowledge, Message]:
    found, last = Knowledge(dials), Message("user", (Text("Do units 1 to 9."),))
    read_message(found, last)
    for number, (tool, arguments, text) in enumerate(answers):
        read_message(found, Message("assistant", (ToolCall(f"c{number}", tool, arguments),)))
        last = Message("user", (ToolResult(f"c{number}", text, failed=False), Text(asks)))
        read_message(found, last)
    return found, last


RAN = ("run_command", {"command": "./work do 3 env.runner=tox"}, ANSWER)
READ = ("read_file", {"path": "docs/q.md"}, DOCUMENT)


def test_a_state_carries_progress_changes_plan_facts_dead_ends_candidates_and_places():
    text = carried(*known(RAN, READ, asks="STATE DUE: with the call; at most 4,000 characters."))
    assert text.splitlines()[0] == "STATE"
    for line in (
        "done units 1-3", "changed mirror @ 3", "env.runner = tox", "env.locale = C", "not env.queue = redis",
        "candidate env.queue: redis nats", "read docs/q.md to line 80",
        "unit 4: needs env.runner <probe docs/ci/runner.md>, env.queue <read docs/q.md>; gives result.u4",
    ):  # fmt: skip
        assert line in text.splitlines()


def test_a_reader_of_the_state_knows_what_its_writer_knew():
    before, last = known(RAN, READ, asks="STATE DUE: with the call; at most 4,000 characters.")
    after = Knowledge()
    read_message(after, Message("assistant", (Text(carried(before, last)),)))
    assert {key: held.value for key, held in after.facts.items()} == {
        key: held.value for key, held in before.facts.items()
    }
    assert (after.done, after.plan.keys(), after.candidates) == (before.done, before.plan.keys(), before.candidates)
    assert after.excluded_now("env.queue") == {"redis"}
    assert after.spans["docs/q.md"][0].last == 80


def test_a_state_has_no_more_characters_than_it_may():
    text = carried(*known(RAN, READ, asks="STATE DUE: with the call; at most 60 characters."))
    assert len(text) - len("STATE\n") <= 60
    assert "done units 1-3" in text


def test_a_fold_holds_what_the_last_answers_told_and_no_more():
    due = "FOLD DUE: steps 2 to 2, behind 1 blocks that begin with step 1. Beside the call; at most 900 characters."
    text = carried(*known(RAN, READ, asks=due))
    assert text.splitlines()[0] == "FOLD 2-2"
    assert "env.locale = C" in text
    assert "env.runner" not in text


def test_many_folds_become_one_of_all_that_is_known():
    due = f"FOLD DUE: steps 9 to 9, behind {MAX_BLOCKS} blocks that begin with step 1. Beside; at most 900 characters."
    text = carried(*known(RAN, READ, asks=due))
    assert text.splitlines()[0] == "FOLD 1-9"
    assert {"env.runner = tox", "env.locale = C"} <= set(text.splitlines())


def test_what_a_dial_loses_is_not_carried():
    asks = "STATE DUE: with the call; at most 4,000 characters."
    assert "env.runner = tox" not in carried(*known(RAN, asks=asks, dials=ReaderDials(lost=1.0)))


@pytest.mark.parametrize(
    "asks", ["", "STATE", "a STATE DUE: at most 40 characters", "FOLD DUE: steps x", "at most 3 characters"]
)
def test_nothing_is_written_where_nothing_asks_for_it(asks):
    assert carried(*known(RAN, asks=asks)) == ""


def test_a_line_says_how_far_a_file_was_read():
    assert lines("read docs/a.md to line 812") == (ReadTo("docs/a.md", 812),)
    assert lines("read docs/a.md to line x\nread  to line 3\nI read a to line 3 too") == ()


TABLE = "CONTEXT: {used:,} of 1,000 tokens\nresult of step | tool | tokens | steps ago | expanded\n" + "\n".join(
    f"{step} | run_command | 200 | {9 - step} | 0" for step in range(1, 9)
)


@pytest.mark.parametrize(
    ("used", "line"),
    [(799, ""), (800, "ARCHIVE 1, 2"), (1_000, "ARCHIVE 1, 2, 3"), (9_000, "ARCHIVE 1, 2, 3, 4, 5")],
)
def test_from_four_fifths_of_the_budget_on_the_oldest_results_are_archived_until_half_is_left(used, line):
    assert carried(*known(RAN, asks=TABLE.format(used=used))) == line


MARKS = "Begin with `EPISODE explore NAME` while you find something out."


@pytest.mark.parametrize(
    ("command", "mark"),
    [
        ("./work do 12 a.b=1", "EPISODE act unit-12 after facts"), ("./work plan 1-10", "EPISODE explore facts"),
        ("./work probe a.b 1", "EPISODE explore facts"), ("", "EPISODE explore facts"),
    ],
)  # fmt: skip
def test_a_unit_is_an_act_episode_and_everything_else_explores(command, mark):
    knowledge, last = known(RAN, asks="")
    action = ChosenCall("run_command", {"command": command}, "")
    text = episode(MARKS, action, knowledge, last)
    assert text.splitlines()[0] == mark
    assert "env.runner = tox" in text.splitlines(), "a fact of the last answer"
    assert episode("Marks are not needed.", action, knowledge, last) == ""


CHECK = "COMPACTION CHECK: this prompt has about 30,000 tokens. If all four conditions are true, call it now."
TOOLS = offered(tuple(spec(tool, slots(Budgets())) for tool in open_strategy("self_compact").tools))


def test_a_conversation_is_compacted_at_a_check_after_a_unit_that_has_just_ended():
    action = self_compaction(*known(RAN, asks=CHECK), TOOLS)
    assert action is not None
    assert (action.tool, action.arguments["summary"].splitlines()) == (
        "compact_context", ["done units 1-3", "changed mirror @ 3", "env.runner = tox", "not env.queue = redis"],
    )  # fmt: skip
    assert self_compaction(*known(RAN, READ, asks=CHECK), TOOLS) is None, "in the middle of a unit"
    assert self_compaction(*known(RAN, asks=""), TOOLS) is None, "nobody asks"


def test_a_conversation_with_more_facts_than_a_summary_keeps_is_not_compacted():
    many = "\n".join(f"env.k{number} = v{number}" for number in range(50))
    assert self_compaction(*known(("read_file", {"path": "a"}, many), RAN, asks=CHECK), TOOLS) is None


def test_a_reader_of_its_own_summary_knows_what_it_wrote():
    action = self_compaction(*known(RAN, asks=CHECK), TOOLS)
    assert action is not None
    after, _ = known((action.tool, action.arguments, "compacted"), asks="")
    assert after.done == 3
    assert {key: held.value for key, held in after.facts.items()} == {"env.runner": "tox"}
    assert after.excluded_now("env.queue") == {"redis"}
