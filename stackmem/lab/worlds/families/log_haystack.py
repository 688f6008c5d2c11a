"""``log_haystack``: a huge log contains one identifier, and its case is resumed again and again.

The trap: the log has thousands of lines and the identifier is in one of them. A case rests until its log has left the
prompt. An agent that lost the line reads the whole log again at every return.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from stackmem.lab.worlds.kernel import Page, Size, UnitList, WorldDraft, WorldFamily
from stackmem.lab.worlds.prose import document

_CASES = (
    "payment-gap", "double-charge", "lost-parcel", "login-storm", "stale-price", "missing-refund", "late-export",
    "wrong-tax", "ghost-order", "split-invoice", "slow-search", "mail-loop",
)  # fmt: skip
_STEPS = ("trace", "replay", "annotate", "compare", "escalate", "credit", "correct", "confirm")
_BLOCK = 2  # consecutive units on one case
_RETURNS = 3  # the usual minimum of how often a case is resumed
PAGE_CHARS = 12_000


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    work = UnitList()
    cases = rng.sample(_CASES, max(1, min(len(_CASES), int(size.horizon * 0.85) // (_RETURNS * _BLOCK))))
    logs = []
    for number, case in enumerate(cases, 1):
        value = f"req-{rng.getrandbits(48):012x}"
        pages = rng.randrange(1, 4) if size.horizon >= 30 else 1
        page = rng.randrange(1, pages + 1)
        command = f"./work log {number}" + (f" {page}" if page > 1 else "")
        work.facts.tell(f"request.{case}", value, f"run {command}")
        description = f"collected for {case.replace('-', ' ')}"
        chars = min(31_000, size.chars(PAGE_CHARS + rng.randrange(-3_000, 3_000)))
        planted = (f"request.{case} = {value}",)
        logs.append(tuple(Page(description, chars, planted if at == page else ()) for at in range(1, pages + 1)))
    description = "The request of each customer, and the answer that was promised. ./work log prints the logs."
    work.files["docs/cases.md"] = document(description, rng, [(case, []) for case in cases], size.chars(250))
    turns = _turns(rng, cases)
    for unit in range(units):
        case = next(turns) if unit % _BLOCK == 0 else case
        work.do(f"{_STEPS[unit % len(_STEPS)]} {case.replace('-', ' ')}", f"request.{case}")
    return work.draft(
        "Follow a dozen customer cases through the service logs",
        "Each unit is one step in one customer case and needs the identifier of the request that went wrong. It "
        "appears once in the case's log, which `./work log NUMBER [PAGE]` prints page by page; the plan names the "
        "page. After two steps a case waits for an answer, others come first, and it is taken up again later.",
        logs=tuple(logs),
    )


def _turns(rng: Random, cases: list[str]) -> Iterator[str]:
    """Yield the next case without end: first all in order, then one of the half that has waited longest."""
    yield from cases
    waiting = list(cases)
    while True:
        waiting.append(waiting.pop(rng.randrange(max(1, len(waiting) // 2))))
        yield waiting[-1]


FAMILY = WorldFamily(build, hurts=("window",))
