"""``moving_target``: settings files are changed by the very work that uses them.

The trap: a value noted before its file changed is wrong afterwards. It is accepted silently and fails the check.
"""

from __future__ import annotations

from random import Random

from stackmem.lab.worlds.kernel import Size, Unit, WorldDraft, WorldFacts, WorldFamily
from stackmem.lab.worlds.prose import paragraph

_SERVICES = ("gateway", "ledger", "search", "mailer", "export", "quota")
_ITEMS = ("port", "replicas", "image", "pool")
_WORK = ("drain", "scale", "canary", "roll", "verify", "tune")
_BLOCK = 4  # consecutive units on one service


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    facts = WorldFacts()
    services = list(_SERVICES)[: size.share(3, 1, len(_SERVICES), of=0.15)]
    comments = {service: paragraph(rng, size.chars(700), "# ") for service in services}
    values = {service: {item: _value(rng, item) for item in _ITEMS} for service in services}
    files = {}
    for service in services:
        files[_path(service)] = _config(service, comments[service], values[service])
        for item in _ITEMS:
            facts.tell(f"{service}.{item}", values[service][item], f"read {_path(service)}")
    work: list[Unit] = []
    order: list[str] = []
    service = services[0]
    every = max(4, min(9, units // 4))  # units from one change to the next
    for unit in range(1, units + 1):
        if (unit - 1) % _BLOCK == 0:
            order = order or rng.sample(services, len(services))
            service = order.pop()
        first = rng.randrange(len(_ITEMS))
        needs = facts.need(unit, f"{service}.{_ITEMS[first]}", f"{service}.{_ITEMS[first - 1]}")
        description = f"{rng.choice(_WORK)} {service}, change request {3000 + unit}"
        says: tuple[str, ...] = ()
        puts: dict[str, str] = {}
        if unit % every == every // 2 and unit < units:
            moved = service if rng.random() < 0.6 else rng.choice(services)
            for item in rng.sample(_ITEMS, 3):
                values[moved][item] = _value(rng, item, values[moved][item])
                facts.tell(f"{moved}.{item}", values[moved][item], f"read {_path(moved)}", unit + 1)
            puts[_path(moved)] = _config(moved, comments[moved], values[moved])
            says = (f"changed {moved} @ {unit}",)
        work.append(Unit(description, needs, says, (), puts))
    return WorldDraft(
        title="Roll a change window over the services",
        text=(
            "Each unit carries out one change request on a service and needs two of its settings as they are at that "
            "moment. The settings stand in `config/SERVICE.conf`. Some requests rewrite such a file; the output then "
            "says `changed SERVICE @ UNIT`, once, and what was read before no longer holds. Values are not checked "
            "when they are given; whether they were true at the time is judged at the end."
        ),
        units=tuple(work),
        facts=facts.rows(units),
        files=files,
        silent=True,
    )


def _path(service: str) -> str:
    return f"config/{service}.conf"


def _config(service: str, comment: str, values: dict[str, str]) -> str:
    head = f"# settings of {service}, written by the deployment\n"
    body = "".join(f"{service}.{item} = {value}\n" for item, value in values.items())
    return head + (f"{comment}\n" if comment else "") + body


def _value(rng: Random, item: str, other: str = "") -> str:
    """Return a value that differs from ``other``."""
    while True:
        match item:
            case "port":
                value = str(rng.randrange(1024, 50_000))
            case "replicas":
                value = str(rng.randrange(2, 48))
            case "image":
                value = f"r{rng.randrange(100, 999)}.{rng.randrange(10)}"
            case _:
                value = f"{rng.choice(('blue', 'green', 'amber', 'violet', 'teal'))}-{rng.randrange(1, 30)}"
        if value != other:
            return value


FAMILY = WorldFamily(build, hurts=("mask", "rag", "boundary"))
