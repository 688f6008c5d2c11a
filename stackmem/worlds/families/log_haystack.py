"""``log_haystack``: an identifier stands in the middle of a huge log, and is needed again long afterwards.

The trap: the log is thousands of lines, the identifier one; it is needed when the log is long out of sight.
"""

from __future__ import annotations

from random import Random

from stackmem.worlds.kernel import Page, Size, Unit, WorldDraft, WorldFacts, WorldFamily
from stackmem.worlds.prose import document

_CASES = (
    "payment-gap", "double-charge", "lost-parcel", "login-storm", "stale-price", "missing-refund", "late-export",
    "wrong-tax", "ghost-order", "split-invoice", "slow-search", "mail-loop",
)  # fmt: skip
_STEPS = ("trace", "replay", "annotate", "compare", "escalate", "credit", "correct", "confirm")
_BLOCK = 5  # units in a row that work on one case
PAGE_CHARS = 12_000


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    facts = WorldFacts()
    # Each case is taken up at least twice: after 60 units, or in a short run after half of them.
    cases = rng.sample(_CASES, max(1, min(len(_CASES), int(size.horizon * 0.85) // (2 * _BLOCK))))
    logs: list[tuple[Page, ...]] = []
    for number, case in enumerate(cases, 1):
        value = f"req-{rng.getrandbits(48):012x}"
        pages = rng.randrange(1, 4) if size.horizon >= 30 else 1
        page = rng.randrange(1, pages + 1)
        command = f"./work log {number}" + (f" {page}" if page > 1 else "")
        facts.tell(f"request.{case}", value, f"run {command}")
        about = f"collected for {case.replace('-', ' ')}"
        chars = size.chars(PAGE_CHARS + rng.randrange(-3_000, 3_000))
        planted = (f"request.{case} = {value}",)
        logs.append(tuple(Page(about, min(chars, 31_000), planted if at == page else ()) for at in range(1, pages + 1)))
    work = []
    waiting: list[str] = []
    case = cases[0]
    for unit in range(1, units + 1):
        if (unit - 1) % _BLOCK == 0:
            if not waiting:  # each case comes back after all the others, in the same order
                waiting = cases[::-1]
            case = waiting.pop()
        about = f"{_STEPS[unit % len(_STEPS)]} {case.replace('-', ' ')}"
        work.append(Unit(about, facts.need(unit, f"request.{case}")))
    about = "Who asked for what, and what was promised. The logs themselves are shown by ./work log."
    files = {"docs/cases.md": document(about, rng, [(case, []) for case in cases], size.chars(250))}
    return WorldDraft(
        title="Follow a dozen customer cases through the service logs",
        text=(
            "Each unit is one step in one customer case and needs the identifier of the request that went wrong. It "
            "stands once in the case's log, which `./work log NUMBER [PAGE]` prints page by page; the plan names the "
            "page. A case is worked on for a few units, then others come first, and much later it is taken up again."
        ),
        units=tuple(work),
        facts=facts.rows(units),
        files=files,
        logs=tuple(logs),
    )


FAMILY = WorldFamily(build, hurts=("window", "rag"))
