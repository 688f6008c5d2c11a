"""A day of a conversation in memory: the user's messages from a list, the model's replies from another."""

from collections.abc import Sequence

from msgspec.structs import replace

from stackmem.core.budgets import Limits
from stackmem.core.conversation.session import SESSION_TASK
from stackmem.core.messages import View
from stackmem.core.person_facts import PersonSaid, SessionRules
from stackmem.core.requests import AskPerson, Effect
from tests.build import Played, World, play, pop, push, started

KEPT = SessionRules(index="brief", words="kept")
RULE = "for the whole day: commit messages in German; never edit anything below tests/legacy"


class Day(World):
    """A world whose user says one text after another; the last one is said again and again."""

    texts: Sequence[str] = ("Do the next thing.",)

    def perform(self, effect: Effect):
        if not isinstance(effect, AskPerson):
            return super().perform(effect)
        said, self.texts = self.texts[0], self.texts[1:] or self.texts[-1:]
        return PersonSaid(said)


def day(
    *texts: str, replies=(), strategy: str = "stackheap", rules: SessionRules = KEPT, files=None, **start
) -> Played:
    """Play a day. A request without a reply in the list is not answered."""
    world = Day(dict(files or {}))
    world.texts = texts
    return play(
        *replies,
        start=started(strategy, task=SESSION_TASK, session=rules, limits=Limits(steps=None), **start),
        world=world,
    )


def requests(played: Played) -> list[View]:
    """Return the first prompt of each request and of each child frame."""
    return [asked.view for asked in played.asked if len(asked.view.messages) == 1]


def long_day(first: str, count: int, words: int = 20, **more) -> Played:
    """Play ``count`` ordinary requests after ``first``; each has a child frame."""
    texts = [f"Change file number {number}. {'It matters. ' * words}" for number in range(2, count + 1)]
    replies = []
    for number in range(1, count + 1):
        replies += [push(name="part"), pop("Part done."), pop(f"Done {number}. {'Like this. ' * words}")]
    return day(first, *texts, replies=replies, **more)


def flat(rules: SessionRules = KEPT) -> SessionRules:
    return replace(rules, policy="flat")
