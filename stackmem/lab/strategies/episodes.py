"""``episodes:TOKENS``: the model marks its work as typed episodes, and a fixed rule evicts what is easiest to recover.

A reply begins an episode with a line next to its call: ``EPISODE explore NAME`` to find something out, ``EPISODE act
NAME`` to change something, with ``after NAME, NAME`` if it relies on earlier episodes. The episode lasts until the next
one begins. An episode is *needed* if it is open or if a needed episode relies on it.

Once the prompt reaches TOKENS, finished episodes are evicted until it is down to seven tenths, oldest first within each
grade:

1. results of act episodes, whose effects are in the files;
2. results of explore episodes that are not needed;
3. act episodes as a whole, then explore episodes that are not needed;
4. results of explore episodes that are needed;
5. results of the open episode except the last three.

No request to a model is made, and what the user says stays. A model that marks nothing has one open episode.

Parameters: ``tokens`` (100,000).

Source: Context Window Lifecycle, "Beyond Compaction: Structured Context Eviction for Long-Horizon Agents"
(arXiv 2606.11213, 2026). The wording of the marks and the grades in detail are ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.messages import Text
from stackmem.memory.shared.linear import (
    CHARS_PER_TOKEN,
    Eviction,
    Exchange,
    Linear,
    OneConversation,
    Rules,
    freed,
    one_line,
    size,
    unmoved,
)
from stackmem.memory.shared.parameters import Count, Partial
from stackmem.memory.shared.parameters import parameters as parse

Kind = Literal["explore", "act"]
_MARK = re.compile(
    r"^EPISODE (?P<kind>explore|act) (?P<name>[^\s,]{1,64})(?: after (?P<after>[^\n]{1,400}?))?[ \t]*$", re.MULTILINE
)
_TARGET = 7  # tenths
_NEWEST = 3  # exchanges of the open episode that stay in full


class Episode(Struct, frozen=True):
    """Consecutive exchanges that the model marked as one piece of work."""

    kind: Kind
    name: str
    after: tuple[str, ...]  # names of the episodes that it relies on
    numbers: tuple[int, ...]  # positions of its exchanges in the conversation, in order


class Episodes(Struct, frozen=True):
    """finished: Oldest first."""

    finished: tuple[Episode, ...] = ()
    open: Episode = Episode("explore", "", (), ())
    count: int = 0  # number of exchanges


def _extend(episodes: Episodes, exchange: Exchange) -> Episodes:
    """Add an exchange, to a new episode if its reply marks one."""
    number, current = episodes.count, episodes.open
    mark = _mark(exchange)
    if mark is None or (mark.kind, mark.name) == (current.kind, current.name):
        after = current.after if mark is None else tuple(dict.fromkeys((*current.after, *mark.after)))
        return replace(
            episodes, open=replace(current, after=after, numbers=(*current.numbers, number)), count=number + 1
        )
    finished = (*episodes.finished, current) if current.numbers else episodes.finished
    return Episodes(finished, replace(mark, numbers=(number,)), number + 1)


def _mark(exchange: Exchange) -> Episode | None:
    """Return the episode that a reply begins, without its exchanges."""
    for part in exchange.said.parts:
        match = _MARK.search(part.text) if isinstance(part, Text) else None
        if match:
            names = (name.strip() for name in (match["after"] or "").split(","))
            return Episode(
                "act" if match["kind"] == "act" else "explore", match["name"], tuple(filter(None, names)), ()
            )
    return None


def _needed(episodes: Episodes) -> frozenset[str]:
    """Return the names of the episodes that the open one relies on, directly or through others."""
    relies = {episode.name: set[str]() for episode in episodes.finished}
    for episode in episodes.finished:
        relies[episode.name].update(episode.after)
    reached, waiting = set[str](), [*episodes.open.after, episodes.open.name]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += relies.get(name, ())
    return frozenset(reached)


class _Reduction(Struct, frozen=True):
    """One eviction: of the results of an exchange, or of all of it."""

    number: int
    drops: bool = False


def _in_order(episodes: Episodes) -> Iterator[_Reduction]:
    """Yield all evictions, the easiest to recover from first."""
    needed = _needed(episodes)
    acted = [number for episode in episodes.finished if episode.kind == "act" for number in episode.numbers]
    explored = [episode for episode in episodes.finished if episode.kind == "explore"]
    spare = [number for episode in explored if episode.name not in needed for number in episode.numbers]
    relied_on = [number for episode in explored if episode.name in needed for number in episode.numbers]
    yield from map(_Reduction, (*acted, *spare))
    yield from (_Reduction(number, drops=True) for number in (*acted, *spare))
    yield from map(_Reduction, (*relied_on, *episodes.open.numbers[:-_NEWEST]))


def _evict(trigger: int, linear: Linear) -> Eviction:
    if linear.tokens < trigger:
        return linear.evicted
    excess = (linear.tokens - trigger * _TARGET / 10) * CHARS_PER_TOKEN
    short, dropped = set(linear.evicted.short), set(linear.evicted.dropped)
    for eviction in _in_order(linear.past.fold(_extend, Episodes(), "episodes")):
        exchange = linear.past[eviction.number]
        if excess <= 0:
            break
        # the model has not used the last result yet, so its exchange stays
        if exchange.step in dropped or eviction.number >= linear.answer:
            continue
        if eviction.drops:
            excess -= size(exchange.said) + size(linear.shorten_results(exchange))
            dropped.add(exchange.step)
        elif exchange.step not in short:
            excess -= freed(linear, eviction.number)
            short.add(exchange.step)
    return Eviction(frozenset(short), frozenset(dropped))


def episodes(parameters: str) -> OneConversation:
    options = parse("episodes", parameters, (Count("tokens", 100_000),))
    rules = Rules(
        unmoved, shorten=Partial(one_line, ("evicted",)), evict=Partial(_evict, tuple(options.counts.values()))
    )
    return OneConversation(options.name, rules, prompt="full+episodes")
