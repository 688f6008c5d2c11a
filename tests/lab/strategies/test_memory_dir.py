"""A memory directory that is invisible until it is viewed."""

from stackmem.memory import open_strategy
from tests.build import do, play, shown_text, started
from tests.memory.long_runs import commands, whole, worked

SAVE = do("memory", command="create", path="/memories/env.md", file_text="runner = make check")


def test_what_is_saved_is_shown_in_no_later_prompt_once_its_turn_is_cleared():
    asked, world = commands(60, 1_000)
    played = play(*asked[:1], SAVE, *asked[1:], start=started("memory_dir:10000"), world=world)
    before = shown_text(played.view)
    assert "/memories/env.md" in before  # the call itself remains
    assert len(whole(played.view, 1_000)) < 40


def test_viewing_a_file_shows_it():
    played = play(SAVE, do("list_files"), do("memory", command="view", path="/memories/env.md"),
                  start=started("memory_dir"))  # fmt: skip
    assert "runner = make check" in played.answer


def test_results_are_cleared_as_clear_does_and_earlier():
    strategy = open_strategy("memory_dir")
    assert strategy.rules == open_strategy("clear:32000").rules
    assert min(len(whole(asked.view, 1_000)) for asked in worked("memory_dir:10000", 60, 1_000).asked[10:]) == 3
