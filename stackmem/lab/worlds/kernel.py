"""The parts that all families of worlds share: facts with places and times, units of work, and the whole world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from msgspec import Struct, field

from .prose import document


class Size(Struct, frozen=True):
    """The size of a world.

    Attributes:
        horizon: Tool calls of an agent with perfect memory, including the last one.
        noise: 1.0 adds about 1,500 characters to the output of a unit. Documents grow with it too.
    """

    horizon: int
    noise: float

    def chars(self, at_one: int) -> int:
        return int(at_one * self.noise)

    def share(self, calls: float, least: int, most: int, of: float = 0.3) -> int:
        """Return how many items can be found with ``calls`` calls each in the share ``of`` of the horizon."""
        return max(least, min(most, round(self.horizon * of / calls)))


class Need(Struct, frozen=True):
    """A fact that a unit needs.

    Attributes:
        way: How to find it, as the plan shows it between angle brackets.
    """

    key: str
    value: str
    way: str


class Unit(Struct, frozen=True):
    """The work of one command.

    Attributes:
        description: A short description of the work.
        says: Whole lines in its output with facts and changes.
        gives: Keys of those facts, as the plan announces them.
        puts: Files that it writes, path to text.
    """

    description: str
    needs: tuple[Need, ...] = ()
    says: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()
    puts: dict[str, str] = {}


class DayRequest(Struct, frozen=True):
    """One request of a user: the units from ``first`` to ``last``, and a sentence about them."""

    first: int
    last: int
    description: str


class Page(Struct, frozen=True):
    """A page of a log: its topic, the characters of noise, and the lines planted in it."""

    topic: str
    chars: int
    lines: tuple[str, ...]


class FactRow(Struct, frozen=True):
    """A fact in the manifest. ``valid`` is the first and the last unit in which it is true."""

    key: str
    value: str
    source: str = field(name="found")
    first_needed: int
    needed: tuple[int, ...]
    valid: tuple[int, int]


class WorldDraft(Struct, frozen=True):
    """A world before it is written to a folder.

    Attributes:
        title: One line.
        text: The description of the work in the instruction.
        facts: For the manifest.
        files: Documents, path to text.
        probes: Key to its correct candidate.
        logs: The pages of each log.
        silent: Wrong values are accepted at first and judged at the end.
        audit: Whether ``./work audit`` prints the entries so far; ``opening`` are the lines before the first one.
        repeats: How often a failed candidate can be tried again; None means any number.
        requests: A user's requests for the units, in order; empty if the world is a single task.
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
    """The facts of a world, the unit from which each is true, and the units that needed it."""

    def __init__(self) -> None:
        self._versions: list[_Version] = []
        self._now: dict[str, _Version] = {}

    def tell(self, key: str, value: str, way: str, since: int = 1) -> None:
        """Set the value of a key from unit ``since`` on."""
        self._now[key] = _Version(key, value, way, since)
        self._versions.append(self._now[key])

    def value(self, key: str) -> str:
        return self._now[key].value

    def need(self, unit: int, *keys: str) -> tuple[Need, ...]:
        """Return the needs of a unit with the current values, each key once."""
        needs = []
        for key in dict.fromkeys(keys):
            version = self._now[key]
            version.needed.append(unit)
            needs.append(Need(key, version.value, version.way))
        return tuple(needs)

    def rows(self, units: int) -> tuple[FactRow, ...]:
        """Return the rows of the manifest: every version of a fact that a unit needed."""
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
    """Return the text of a document and its correct candidate, which is never one of the first two."""
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
        build: Creates the world with a given number of units.
        hurts: Strategies that are expected to solve fewer of these worlds than the full history does, or to cost more
            here
            than elsewhere.
        fleeting: Few of the facts are needed again much later, or their number grows with the horizon, so keeping them
            does
            not help.
    """

    build: Build
    hurts: tuple[str, ...] = ()
    fleeting: bool = False


class UnitList:
    """Builds the units of a world together with the facts that are true while they are done."""

    def __init__(self) -> None:
        self.facts = WorldFacts()
        self.units: list[Unit] = []
        self.files: dict[str, str] = {}
        self._notes: dict[str, dict[str, str]] = {}

    @property
    def fact_keys(self) -> set[str]:
        """Return the keys that the units so far have given."""
        return {key for unit in self.units for key in unit.gives}

    @property
    def next(self) -> int:
        """Return the number of the next unit."""
        return len(self.units) + 1

    def read(self, rng: Random, size: Size, path: str, title: str, facts: dict[str, str], chars: int = 700) -> None:
        """Add a document with these facts, each under a heading with about ``chars`` characters of prose at noise 1."""
        sections = []
        for key, value in facts.items():
            self.facts.tell(key, value, f"read {path}", self.next)
            sections.append((key.partition(".")[2].replace("-", " ").capitalize(), [f"{key} = {value}"]))
        self.files[path] = document(title, rng, sections, size.chars(chars))

    def do(
        self, description: str, *keys: str, gives: dict[str, str] | None = None, noted: str = "", changed: str = ""
    ) -> None:
        """Add a unit that needs the keys.

        It can give values, which are true from the next unit on, or announce a change.

        Args:
            gives: Key to value; each appears once in the output, with the unit's number.
            noted: A file that collects the newest given values. Without it, the output is their only source.
        """
        unit, values = self.next, gives or {}
        needs = self.facts.need(unit, *keys)
        says = [f"changed {changed} @ {unit}"] if changed else []
        lines = {key: f"{key} = {value} @ {unit}" for key, value in values.items()}
        puts = {noted: self._noted(noted, lines)} if noted else {}
        self.units.append(Unit(description, needs, (*says, *lines.values()), tuple(values), puts))
        for key, value in values.items():
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
    """Return a value that cannot be guessed: one of the words with a number."""
    return f"{rng.choice(words or _WORDS)}-{rng.randrange(1_000, 9_999)}"


_WORDS = ("north", "delta", "harbour", "cobalt", "linden", "amber", "quartz", "heron")


def shares(units: int, weights: Sequence[float]) -> list[int]:
    """Split units into parts with about these weights, at least one unit each. With few units there are fewer parts."""
    weights = weights[:units]
    parts, before, total = [], 0, 0.0
    for remaining, weight in zip(range(len(weights) - 1, -1, -1), weights, strict=True):
        total += weight
        upto = min(max(round(units * total / sum(weights)), before + 1), units - remaining)
        parts.append(upto - before)
        before = upto
    return parts
