"""The last turns, and relevant passages of older ones."""

from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.facts import ToolReturned
from stackmem.core.messages import Text
from stackmem.lab.strategies.rag import pieces
from tests.build import World, do, play, started
from tests.memory.long_runs import cached, whole, worked


def found(view):
    """Return the passages at the end of the prompt."""
    last = view.messages[-1].parts[-1]
    return last.text if isinstance(last, Text) and last.text.startswith("FROM EARLIER STEPS") else ""


def asked(spelled, outputs, *commands):
    world = World(outputs={command: ToolReturned(text, exit_code=0) for command, text in outputs.items()})
    return play(*[do("run_command", command=command) for command in commands], start=started(spelled), world=world)


def test_the_last_turns_are_whole_and_leave_so_many_at_a_time():
    assert [whole(view.view)[:1] for view in worked("rag:2", 6).asked] == [[], [1], [1], [1], [3], [3], [5]]


def test_while_every_turn_is_shown_nothing_is_brought_back():
    assert not any(found(one.view) for one in worked("rag:5", 9).asked)


def test_an_old_turn_comes_back_when_its_words_are_used_again():
    outputs = {"cat a": "the port is 8042", "cat b": "nothing here", "start port": "which port?"}
    played = asked("rag:1,1", outputs, "cat a", "cat b", "cat b", "start port")
    assert found(played.view).endswith(
        '--- step 1, run_command\nCALL run_command {"command":"cat a"}\nthe port is 8042'
    )


def test_what_is_shown_anyway_is_not_brought_back_and_of_equal_passages_only_the_newest_is():
    played = asked("rag:1,3", {"look": "the port is 8042"}, *["look"] * 2, "walk", "walk to the port")
    assert found(played.view).count("the port is 8042") == 1
    assert "--- step 2, run_command" in found(played.view)
    assert found(asked("rag:1,3", {"look": "the port is 8042"}, "look", "look").view) == ""


def test_of_a_long_result_only_the_passage_that_fits_comes_back():
    page = "\n".join(f"line {number} says value_{number}" for number in range(500))
    played = asked("rag:1,1,chars=300", {"cat page": page, "use value_250": "ok"}, "cat page", "x", "use value_250")
    passage = found(played.view)
    assert "line 250 says value_250" in passage
    assert len(passage) < 500


def test_a_call_takes_a_quarter_of_a_passage_at_most():
    long = "needle " + "y" * 900
    played = asked("rag:1,1,chars=400", {long: "the end", "needle": "which?"}, long, "x", "needle")
    call, answer = found(played.view).splitlines()[-2:]
    assert call == f'CALL run_command {{"command":"{long}'[:100]
    assert answer == "the end"


def test_what_is_brought_back_stands_behind_the_last_breakpoint_and_is_not_kept():
    outputs = {"cat a": "needle one", "needle": "needle?"}
    played = asked("rag:1,1", outputs, "cat a", "x", "needle", "x")
    view = played.asked[3].view
    point = view.breakpoints[-1]
    assert (point.message, point.part) == (len(view.messages) - 1, len(view.messages[-1].parts) - 2)
    assert not any("FROM EARLIER" in part.text for message in played.view.messages[:-1] for part in message.parts
                   if isinstance(part, Text))  # fmt: skip


def test_between_two_moves_the_turns_before_are_read_from_the_cache():
    found = cached(worked("rag:5", 40))
    assert sum(one.broken != "" for one in found[1:]) == 7


@given(st.text("ab\n", max_size=60), st.integers(1, 9))
def test_pieces_are_the_text_and_none_is_too_long(text, most):
    cut = list(pieces(text, most))
    assert all(0 < len(piece) <= most for piece in cut)
    assert "".join("".join(cut).split()) == "".join(text.split())
