"""The heap index of a conversation in its current form, and in the form of older recordings."""

from hashlib import sha256
from itertools import pairwise

from stackmem.core.conversation.session import SESSION_TASK
from stackmem.core.facts import FramePushed
from stackmem.core.messages import View
from stackmem.core.person_facts import PersonSaid, SessionRules
from stackmem.core.requests import AskPerson, Effect
from tests.build import Played, World, alloc, do, play, pop, push, shown_text, started, stored

BRIEF = SessionRules(index="brief")


class Asking(World):
    """A world with a user who makes one request after another."""

    said = 0

    def perform(self, effect: Effect):
        if not isinstance(effect, AskPerson):
            return super().perform(effect)
        self.said += 1
        return PersonSaid(f"Do the thing number {self.said}.")


def conversation(rules: SessionRules, *replies) -> Played:
    return play(*replies, start=started(task=SESSION_TASK, session=rules), world=Asking())


def requests(played: Played) -> list[View]:
    """Return the first prompt of each request."""
    return [asked.view for asked in played.asked if len(asked.view.messages) == 1]


def long_day(rules: SessionRules) -> Played:
    """Forty requests, each with its own chunk, a read of an older one, and a child that stores."""
    replies = []
    for number in range(1, 41):
        replies += [
            alloc(f"c{number}", "x" * number, description=f"what {number} found"),
            do("heap_read", name=f"c{(number + 1) // 2}"),
            push(name="part", store=[stored("shared", "y" * number)]),
            pop("The part is done."),
            pop(f"Done {number}. " + "z" * 150),
        ]
    return conversation(rules, *replies)


def test_a_conversation_recorded_before_has_the_prompts_that_it_had():
    digest = sha256("".join(asked.view.digest for asked in long_day(SessionRules()).asked).encode()).hexdigest()
    assert digest[:16] == "b58314d5ca8c0067"


def test_the_index_of_a_conversation_names_no_steps_and_has_the_last_written_chunk_last():
    played = conversation(
        BRIEF, alloc("a", "one", description="what a holds"), alloc("b", "two"), do("heap_read", name="b"),
        do("heap_write", name="a", content="other"), pop("Done."), pop("Done."),
    )  # fmt: skip
    text = shown_text(requests(played)[-1])
    assert (
        "HEAP INDEX: 2 chunks, 8 of 10,000 characters used, the last written last\n"
        "- b | 3 chars\n"
        "- a | 5 chars | what a holds\n\nREQUEST\n"
    ) in text


def test_a_frame_that_has_seen_the_index_receives_only_changes():
    child = [push(name="part"), do("heap_read", name="a"), alloc("b"), do("heap_free", name="a")]
    played = conversation(BRIEF, alloc("a", "one"), *child, pop("The part is done."), pop("Done."))
    after = next(asked.view for asked in played.asked if "The part is done." in shown_text(asked.view))
    assert shown_text(after).count("HEAP INDEX") == 1
    assert (
        shown_text(after).rstrip().endswith("HEAP CHANGES: 12 of 10,000 characters used\n- a | freed\n- b | 12 chars")
    )


def test_a_chunk_that_was_only_read_is_no_news_in_a_conversation():
    child = [push(name="part"), do("heap_read", name="a"), pop("The part is done.")]
    played = conversation(BRIEF, alloc("a", "one"), *child, pop("Done."))
    after = next(asked.view for asked in played.asked if "The part is done." in shown_text(asked.view))
    assert "HEAP CHANGES" not in shown_text(after).partition("The part is done.")[2]


def test_a_stale_chunk_is_marked_in_the_index_of_a_conversation():
    world = Asking({"f.py": "1"})
    write = do("write_file", path="f.py", content="2")
    start = started(task=SESSION_TASK, session=BRIEF)
    played = play(alloc("a", "one", source="f.py"), write, pop("Done."), pop("Done."), start=start, world=world)
    assert "- a | 3 chars | source f.py | STALE: its source has changed since" in shown_text(requests(played)[-1])


def test_the_list_of_earlier_requests_stays_small_and_is_seldom_shortened_which_breaks_the_cache():
    shortened = []
    for rules in (BRIEF, SessionRules()):
        played = conversation(rules, *[pop(f"Done {number}. " + "z" * 100) for number in range(90)])
        lists = [event.context for event in played.of(FramePushed)]
        assert max(map(len, lists)) <= 4_200
        assert "(requests 1 to " in lists[-1]
        shortened.append(sum(len(later) < len(before) for before, later in pairwise(lists)))
    assert 0 < shortened[0] < shortened[1]
