"""Old outputs as one line, and the cost of masking them one by one."""

from itertools import pairwise

from tests.build import World, call, do, play, reply, started
from tests.memory.long_runs import bill, cached, results, whole, worked


def test_outputs_of_the_last_turns_are_whole_and_older_ones_are_a_line():
    texts = results(worked("mask:2,poll=1", 5).view)
    assert [len(text) for text in texts[3:]] == [200, 200]
    assert texts[:3] == ["[masked: 200 characters of output; call again if you need them]"] * 3


def test_calls_and_what_was_said_stay():
    played = play(*[reply(f"thought {n}", call("list_files")) for n in range(4)], start=started("mask:1,poll=1"))
    said = [
        part.text for message in played.view.messages for part in message.parts if part.__class__.__name__ == "Text"
    ]
    assert said[2:] == [f"thought {n}" for n in range(4)]


def test_an_output_shorter_than_the_line_stays():
    assert results(worked("mask:1,poll=1", 3, 20).view) == [f"output {n} ".ljust(20, "x") for n in (1, 2, 3)]


def test_a_masked_failure_is_still_a_failure():
    world = World({"f": "y" * 500})
    played = play(
        *[do("read_file", path=f"{'gone/' * 30}{n}") for n in range(3)], start=started("mask:1,poll=1"), world=world
    )
    parts = [part for message in played.view.messages[2::2] for part in message.parts]
    assert [part.failed for part in parts] == [True, True, True]
    assert parts[0].text.startswith("[masked: ")


def test_poll_masks_only_every_so_many_steps():
    first = [whole(asked.view)[:1] for asked in worked("mask:3,poll=4", 15).asked[3:]]
    assert first == [*[[1]] * 4, *[[5]] * 4, *[[9]] * 4, [13]]


def test_between_two_polls_prompts_are_only_appended_to_and_a_poll_rereads_what_was_masked_before():
    played = worked("mask:10,poll=10", 100)
    found = cached(played)
    assert sum(one.broken != "" for one in found[1:]) == 9
    masked = 63  # characters of a masked output; each poll reads everything before the last border
    polls = [place for place, one in enumerate(found) if place and one.broken]
    reads = [found[place].read for place in polls]
    assert all(later - before >= 10 * masked for before, later in pairwise(reads))


def test_polling_costs_less_than_masking_at_every_step():
    assert bill(cached(worked("mask:10,poll=10", 100))) < 0.6 * bill(cached(worked("mask:10,poll=1", 100)))
