"""Cases of the output contract: a reply, and its meaning item by item."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from stackmem.languages.playbook.literals import CallTo, Variable
from stackmem.languages.playbook.reply_items import (
    AtStep,
    Fired,
    Item,
    Queued,
    ReturnItem,
    SetVar,
    TextItem,
    Unreadable,
    Yielded,
)
from tests.compliance.case_files import read_cases

HERE = Path(__file__).parent / "playbook"


class Case(Struct, forbid_unknown_fields=True):
    """One case.

    Attributes:
        gives: One text for each item; for a fault, part of its message.
        ignored: Text that the reader treats as trailing after the end.
    """

    says: str
    reply: str
    gives: list[str]
    ignored: str | None = None


def load_cases() -> Iterator[Case]:
    import msgspec

    for file in sorted(HERE.glob("*.yaml")):
        for raw in read_cases(file):
            yield msgspec.convert(raw, Case)


def told(item: Item) -> str:
    match item:
        case TextItem():
            return f"{item.kind} {item.text}"
        case SetVar():
            return f"var {item.name} = {text_of(item.value)}"
        case AtStep():
            return f"step {item.playbook}:{item.label}{':' * bool(item.code)}{item.code}"
        case Fired():
            return f"trigger {item.playbook}:{item.number}{':' * bool(item.code)}{item.code}" + " queues" * item.queues
        case Queued():
            into = f"${item.into} = " if item.into else ""
            return f"call {into}{text_of(item.call)}" + " fired" * item.fired
        case ReturnItem():
            return f"return {text_of(item.value)}"
        case Yielded():
            return f"yld {item.to}"
        case Unreadable():
            return f"fault {item.reason}"


def text_of(value: Any) -> str:
    match value:
        case Variable():
            return f"${value.name}"
        case CallTo():
            named = [f"{name}={text_of(each)}" for name, each in value.keywords]
            return f"{value.name}({', '.join([*map(text_of, value.values), *named])})"
        case list():
            return f"[{', '.join(map(text_of, value))}]"
        case dict():
            return "{" + ", ".join(f"{json.dumps(key)}: {text_of(each)}" for key, each in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)
