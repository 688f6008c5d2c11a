"""A scratchpad at the end of every prompt."""

from tests.build import do, play, started
from tests.memory.long_runs import cached, commands, head, whole, worked


def tail(view):
    return view.messages[-1].parts[-1].text


def test_an_empty_scratchpad_says_so_from_the_first_prompt():
    assert tail(worked("notes", 0).view) == "NOTES: none yet"


def test_notes_stand_in_their_order_at_the_end_of_every_prompt_and_nowhere_else():
    played = play(do("add_note", text="a = 1"), do("add_note", text="b = 2"), do("list_files"), start=started("notes"))
    assert [tail(asked.view) for asked in played.asked] == [
        "NOTES: none yet", "NOTES\n- a = 1", "NOTES\n- a = 1\n- b = 2", "NOTES\n- a = 1\n- b = 2",
    ]  # fmt: skip
    assert "NOTES" not in "".join(getattr(part, "text", "") for one in played.view.messages[:-1] for part in one.parts)


def test_a_note_survives_the_turn_it_was_made_in():
    asked, world = commands(40)
    played = play(do("add_note", text="key = value"), *asked, start=started("notes:window=3"), world=world)
    assert "key = value" in tail(played.view)
    assert whole(played.view)[0] > 20
    assert head(played.view).startswith("[Steps up to ")


def test_without_a_window_the_whole_history_stays():
    assert whole(worked("notes", 60).view) == list(range(1, 61))


def test_the_scratchpad_is_never_cached_and_never_breaks_what_stands_before_it():
    asked, world = commands(20)
    noted = [one for number, each in enumerate(asked) for one in (each, do("add_note", text=f"note {number}"))]
    found = cached(play(*noted, start=started("notes"), world=world))
    assert [one.broken for one in found[1:]] == [""] * 40
    assert [one.uncached for one in found[:2]] == [len("NOTES: none yet")] * 2
    assert found[-1].uncached > 150
