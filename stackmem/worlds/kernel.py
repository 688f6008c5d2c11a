"""What every family of worlds is made of: facts with their places and times, units of work, and one whole world."""

from __future__ import annotations

from random import Random

from msgspec import Struct, field

from .prose import document


class Size(Struct, frozen=True):
    """The knobs.

    Attributes:
        horizon: Tool calls of an agent with perfect memory, the last one included.
        noise: 1.0 is about 1,500 characters of it in the output of a unit; documents grow with it too.
    """

    horizon: int
    noise: float

    def chars(self, at_one: int) -> int:
        return int(at_one * self.noise)

    def share(self, calls: float, least: int, most: int, of: float = 0.3) -> int:
        """How many things can be found, at so many calls each, for a share of the horizon."""
        return max(least, min(most, round(self.horizon * of / calls)))


class Need(Struct, frozen=True):
    """A fact that a unit needs.

    Attributes:
        way: How it is found, as the plan says it between angle brackets.
    """

    key: str
    value: str
    way: str


class Unit(Struct, frozen=True):
    """One command's worth of work.

    Attributes:
        about: What is done, in a few words.
        says: Facts and changes that its output tells, whole lines.
        gives: Keys of those facts, as the plan announces them.
        puts: Files that it writes, path to text.
    """

    about: str
    needs: tuple[Need, ...] = ()
    says: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()
    puts: dict[str, str] = {}


class DayRequest(Struct, frozen=True):
    """What a person asks for at once: the units from ``first`` to ``last``, and what it is about, one sentence."""

    first: int
    last: int
    about: str


class Page(Struct, frozen=True):
    """A page of a log: what it is about, characters of noise, and the lines planted in it."""

    about: str
    chars: int
    lines: tuple[str, ...]


class FactRow(Struct, frozen=True):
    """A fact as the manifest tells it; both ends of ``valid`` are units in which it holds."""

    key: str
    value: str
    found: str
    first_needed: int
    needed: tuple[int, ...]
    valid: tuple[int, int]


class WorldDraft(Struct, frozen=True):
    """A world before it is written down.

    Attributes:
        title: One line.
        text: What the work is, for the instruction.
        facts: For the manifest.
        files: Documents, path to text.
        probes: Key to its right candidate.
        logs: Of each log its pages.
        silent: Wrong values are accepted, and judged at the end.
        audit: Whether ``./work audit`` tells what the last unit gave; ``opening`` before the first.
        repeats: How often a candidate that had failed may be tried again; None is any number.
        requests: How a person would ask for the units, in their order; empty where they are one task.
    """

    title: str
    text: str
    units: tuple[Unit, ...]
    facts: tuple[FactRow, ...]
    files: dict[str, str]
    probes: dict[str, str] = {}
    logs: tuple[tuple[Page, ...], ...] = ()
    silent: bool = False
    audit: bool = False
    opening: tuple[str, ...] = ()
    repeats: int | None = None
    extras: dict[str, str | int] = {}
    requests: tuple[DayRequest, ...] = ()


class _Version(Struct):
    key: str
    value: str
    way: str
    since: int
    needed: list[int] = field(default_factory=list)


class WorldFacts:
    """What is true in a world, and from which unit on; remembers which units needed it."""

    def __init__(self) -> None:
        self._versions: list[_Version] = []
        self._now: dict[str, _Version] = {}

    def tell(self, key: str, value: str, way: str, since: int = 1) -> None:
        """From unit ``since`` on the key has this value."""
        self._now[key] = _Version(key, value, way, since)
        self._versions.append(self._now[key])

    def value(self, key: str) -> str:
        return self._now[key].value

    def need(self, unit: int, *keys: str) -> tuple[Need, ...]:
        """What the unit needs, as it is true now; each key once."""
        needs = []
        for key in dict.fromkeys(keys):
            version = self._now[key]
            version.needed.append(unit)
            needs.append(Need(key, version.value, version.way))
        return tuple(needs)

    def rows(self, units: int) -> tuple[FactRow, ...]:
        """The manifest's rows: every version that a unit needed."""
        ends: dict[str, int] = {}
        rows = []
        for version in reversed(self._versions):
            until = ends.get(version.key, units)
            ends[version.key] = version.since - 1
            if version.needed:
                rows.append(
                    FactRow(
                        version.key, version.value, version.way, version.needed[0], tuple(version.needed),
                        (version.since, until),
                    )
                )  # fmt: skip
        return tuple(reversed(rows))


def plant(
    rng: Random, size: Size, facts: WorldFacts, key: str, candidates: tuple[str, ...], path: str, title: str
) -> tuple[str, str]:
    """The document's text, and the candidate that is right: never one of the first two."""
    few = size.horizon < 20
    listed = [*candidates[:2], *rng.sample(candidates[2:], len(candidates) - 2)]
    right = listed[2] if few else listed[rng.randrange(2, len(listed))]
    facts.tell(key, right, f"probe {path}")
    line = f"candidate {key}: {' '.join(listed)}"
    sections = [
        ("Background", []),
        ("What has been in use", [line]),
        ("What to know", []),
    ]
    return document(title, rng, sections, size.chars(500)), right
