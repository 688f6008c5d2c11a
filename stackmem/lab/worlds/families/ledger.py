"""``ledger``: many small postings, each of which needs the running total that the previous one gave.

The trap: the total changes with every unit. An agent that loses it must read the whole audit to find it again. This is
the control family: the newest output always contains what is needed, so a strategy that shows it in full is not hurt.
Only ``truncate`` is expected to be, because it cuts the total out of outputs and audit alike.
"""

from __future__ import annotations

from random import Random

from stackmem.lab.worlds.kernel import Size, Unit, WorldDraft, WorldFacts, WorldFamily
from stackmem.lab.worlds.prose import document

OPENING, ACCOUNTS = "books/opening.md", "books/accounts.md"
_KINDS = (
    "freight", "rent", "insurance", "wages", "travel", "energy", "licences", "interest", "training", "repairs",
    "postage", "cleaning",
)  # fmt: skip
_PARTNERS = ("Havenlogistik", "Nordlicht GmbH", "Casa Ferrer", "Brandt & Sons", "Polder Coop", "Tanabe Trading")


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    facts = WorldFacts()
    kinds = rng.sample(_KINDS, size.share(1, 2, len(_KINDS), of=0.2))
    total = rng.randrange(200_000, 900_000)
    opening = f"ledger.total = {_money(total)}"
    facts.tell("ledger.total", _money(total), f"read {OPENING}")
    numbers = rng.sample(range(4000, 8000), len(kinds))
    sections = []
    for kind, number in zip(kinds, numbers, strict=True):
        code = f"{number}-{rng.choice('ABCDEF')}{rng.randrange(10, 99)}"
        facts.tell(f"account.{kind}", code, f"read {ACCOUNTS}")
        sections.append((f"{kind.capitalize()}", [f"account.{kind} = {code}"]))
    work = []
    for unit in range(1, units + 1):
        kind = rng.choice(kinds)
        amount = rng.randrange(-48_000, 52_000) or 100
        needs = facts.need(unit, "ledger.total", f"account.{kind}")
        total += amount
        description = f"post {_money(amount)} of {kind} from {rng.choice(_PARTNERS)}, voucher {7000 + unit}"
        work.append(Unit(description, needs, (f"ledger.total = {_money(total)} @ {unit}",), ("ledger.total",)))
        facts.tell("ledger.total", _money(total), "step", unit + 1)
    files = {
        OPENING: document("Opening balance", rng, [("Carried forward", [opening])], size.chars(400)),
        ACCOUNTS: document("Chart of accounts", rng, sections, size.chars(600)),
    }
    return WorldDraft(
        title="Post the vouchers of the quarter",
        text=(
            "Each unit posts one voucher: it needs the account's code and the running total as the voucher before it "
            "left it, and gives the new total. `./work audit` prints every entry so far and, at its end, the total "
            "as it stands; it grows long."
        ),
        units=tuple(work),
        facts=facts.rows(units),
        files=files,
        audit=True,
        opening=(opening,),
    )


def _money(cents: int) -> str:
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02d}"


FAMILY = WorldFamily(build, hurts=("truncate",))
