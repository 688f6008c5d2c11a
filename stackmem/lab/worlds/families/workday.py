"""``workday``: a day's requests about one repository; each settles a feature that later requests need.

The trap: what one request looked up, tried out and settled is needed hours later, by requests about other features.
"""

from __future__ import annotations

from collections import deque
from random import Random

from stackmem.lab.worlds.kernel import DayRequest, Size, Unit, WorldDraft, WorldFacts, WorldFamily, shares
from stackmem.lab.worlds.prose import document

_PACKAGES = ("orders", "billing", "search", "mail", "stock", "auth", "export", "admin")
_FEATURES = ("cart", "returns", "rates", "labels", "quotas", "digests", "roles", "archive")
_VERBS = ("move", "split", "harden", "speed up", "cover", "clean up")
_SUITES = ("unit", "smoke", "contract", "slow", "nightly", "matrix")
_REQUEST_STEPS = 17
_ROUND = 15
_MIN_UNITS, _MAX_UNITS = 2, 22
_OLDER = 5
SETUP = "docs/setup.md"


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    facts, files, probes = WorldFacts(), {SETUP: _setup(rng, size)}, {}
    facts.tell("repo.python", "py3.12-frozen", f"read {SETUP}")
    facts.tell("repo.runner", "tools/check.sh", f"read {SETUP}")
    features = rng.sample([(package, feature) for package in _PACKAGES for feature in _FEATURES], 64)
    older: deque[str] = deque()  # keys of earlier requests, least recently needed first
    work: list[Unit] = []
    requests: list[DayRequest] = []
    for number, count in enumerate(_sizes(rng, size, units)):
        package, feature = features[number % len(features)]
        name = feature if number < len(features) else f"{feature}-{number // len(features) + 1}"
        entry, suite, release = (f"{package}.{name}-{suffix}" for suffix in ("entry", "suite", "release"))
        path, noted = f"docs/{package}/{name}.md", f"changes/{package}/{name}.md"
        suites = rng.sample(_SUITES, 4)
        probes[suite] = suites[rng.randrange(1, 3)]
        facts.tell(entry, f"src/{package}/{name}.py:{rng.choice('abcdefgh')}{rng.randrange(100, 999)}", f"read {path}")
        facts.tell(suite, probes[suite], f"probe {path}")
        lines = [f"{entry} = {facts.value(entry)}", f"candidate {suite}: {' '.join(suites)}"]
        sections = [("Where it begins", lines[:1]), ("How it is tested", lines[1:])]
        files[path] = document(f"The {name} of {package}", rng, sections, size.chars(1_200))
        needed = [older.popleft() for _ in range(min(_OLDER, count, len(older)))]
        first = len(work) + 1
        verb = rng.choice(_VERBS)
        for at in range(count):
            own = (entry, suite)[at % 2]
            other = needed[at % len(needed)] if needed else "repo.runner"
            keys = (own, other, "repo.python", "repo.runner") if at == 0 else (own, other)
            description = f"{verb} the {name} of {package}, part {at + 1}"
            work.append(Unit(description, facts.need(first + at, *keys)))
        last = len(work)
        version = f"r{rng.randrange(10, 99)}.{rng.randrange(1_000, 9_999)}"
        facts.tell(release, version, f"read {noted}", last + 1)
        statement = f"{release} = {version} @ {last}"
        text = document(f"Changes to the {name} of {package}", rng, [("Release", [statement])], size.chars(600))
        work[-1] = Unit(work[-1].description, work[-1].needs, (statement,), (release,), {noted: text})
        older.extend([*needed, entry, suite, release])
        requests.append(DayRequest(first, last, f"Please {verb} the {name} of {package}."))
    return WorldDraft(
        title="A day's requests about one repository",
        text=(
            "A person asks for one thing after another in a repository that is new to everybody. Each request is about "
            f"one feature of a package: `docs/PACKAGE/FEATURE.md` says where it begins and which test suites have been "
            f"used, of which only a trial tells the right one; `{SETUP}` says what all of the repository needs. The "
            "last unit of a request settles the feature's release and notes it under `changes/`. Later requests need "
            "what earlier ones looked up, tried out and settled; none of it changes."
        ),
        units=tuple(work),
        facts=facts.rows(units),
        files=files,
        probes=probes,
        requests=tuple(requests),
    )


def _setup(rng: Random, size: Size) -> str:
    lines = ["repo.python = py3.12-frozen", "repo.runner = tools/check.sh"]
    return document("Setting up", rng, [("Needed by every part", lines)], size.chars(800))


def _sizes(rng: Random, size: Size, units: int) -> list[int]:
    """Return the units of each request, from small to large sizes in an order that repeats every 15 requests.

    The fifth and the fiftieth request therefore have the same size, and their costs can be compared.
    """
    spread = [_MIN_UNITS + (_MAX_UNITS - _MIN_UNITS) * at / (_ROUND - 1) for at in range(_ROUND)]
    rng.shuffle(spread)
    count = min(units, max(1, round(size.horizon / _REQUEST_STEPS)))
    weights = [spread[number % _ROUND] for number in range(count)]
    return shares(units, weights)


FAMILY = WorldFamily(build, hurts=("window", "truncate", "mask"))
