"""What every family of worlds is made of: facts with their places and times, units of work, and one whole world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

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


Build = Callable[[Random, Size, int], WorldDraft]


class WorldFamily(Struct, frozen=True):
    """A family of worlds.

    Attributes:
        build: Makes the one of some units.
        hurts: Names of the strategies that are expected to solve less of it than the whole history does, or to pay
            more for it than they pay elsewhere.
        fleeting: Few of its facts are needed again much later, or they grow with the horizon: keeping them is no help.
    """

    build: Build
    hurts: tuple[str, ...] = ()
    fleeting: bool = False


class UnitList:
    """Units in the making, with the facts that are true while they are done."""

    def __init__(self) -> None:
        self.facts = WorldFacts()
        self.units: list[Unit] = []
        self.files: dict[str, str] = {}
        self._notes: dict[str, dict[str, str]] = {}

    @property
    def given(self) -> set[str]:
        """Keys of what units have given so far."""
        return {key for unit in self.units for key in unit.gives}

    @property
    def next(self) -> int:
        """The number of the unit that comes next."""
        return len(self.units) + 1

    def read(self, rng: Random, size: Size, path: str, title: str, said: dict[str, str], chars: int = 700) -> None:
        """A document that tells these facts, each under a heading with about so many characters of prose at noise 1."""
        sections = []
        for key, value in said.items():
            self.facts.tell(key, value, f"read {path}", self.next)
            sections.append((key.partition(".")[2].replace("-", " ").capitalize(), [f"{key} = {value}"]))
        self.files[path] = document(title, rng, sections, size.chars(chars))

    def do(
        self, about: str, *keys: str, gives: dict[str, str] | None = None, noted: str = "", changed: str = ""
    ) -> None:
        """A unit that needs the keys; it may find values, which hold from the next one on, or say that a topic changed.

        Args:
            gives: Key to value; told once, in the output, with the unit's number.
            noted: A file that holds the newest of all values that were given with its name; without it they stand
                nowhere else.
        """
        unit, found = self.next, gives or {}
        needs = self.facts.need(unit, *keys)
        says = [f"changed {changed} @ {unit}"] if changed else []
        lines = {key: f"{key} = {value} @ {unit}" for key, value in found.items()}
        puts = {noted: self._noted(noted, lines)} if noted else {}
        self.units.append(Unit(about, needs, (*says, *lines.values()), tuple(found), puts))
        for key, value in found.items():
            self.facts.tell(key, value, f"read {noted}" if noted else f"unit {unit}", unit + 1)

    def _noted(self, path: str, lines: dict[str, str]) -> str:
        notes = self._notes.setdefault(path, {})
        notes.update(lines)
        return "# Noted by the program\n\n" + "".join(f"- {notes[key]}\n" for key in sorted(notes))

    def draft(self, title: str, text: str, **more: Any) -> WorldDraft:
        return WorldDraft(
            title=title, text=text, units=tuple(self.units), facts=self.facts.rows(len(self.units)), files=self.files,
            **more,
        )  # fmt: skip


def code(rng: Random, *words: str) -> str:
    """A value that nobody guesses: one of the words with a number."""
    return f"{rng.choice(words or _WORDS)}-{rng.randrange(1_000, 9_999)}"


_WORDS = ("north", "delta", "harbour", "cobalt", "linden", "amber", "quartz", "heron")


def shares(units: int, weights: Sequence[float]) -> list[int]:
    """So many units in parts of about these weights, each of one unit at least; fewer parts where units are few."""
    weights = weights[:units]
    found, before, so_far = [], 0, 0.0
    for left, weight in zip(range(len(weights) - 1, -1, -1), weights, strict=True):
        so_far += weight
        upto = min(max(round(units * so_far / sum(weights)), before + 1), units - left)
        found.append(upto - before)
        before = upto
    return found
