"""Values, calls and items in words, for the session log and for facts that the model reads."""

from __future__ import annotations

import json
from typing import Any, assert_never

from .items import AtStep, Fired, Item, Queued, Returned, Said, SetVar, Unreadable, Yielded
from .literals import CallTo, Variable
from .session_log import brief

VALUE_CHARS = 200


def value_text(value: Any, most: int = VALUE_CHARS) -> str:
    """A value as the contract writes it, cut at ``most`` characters."""
    text = _text(value)
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def _text(value: Any) -> str:
    match value:
        case Variable():
            return f"${value.name}"
        case CallTo():
            return call_text(value)
        case list():
            return f"[{', '.join(map(_text, value))}]"
        case dict():
            return "{" + ", ".join(f"{_text(key)}: {_text(each)}" for key, each in value.items()) + "}"
        case _:
            return json.dumps(value, ensure_ascii=False, default=str)


def call_text(call: CallTo, most: int = VALUE_CHARS) -> str:
    """``F(1, k="v")``; each argument is cut."""
    parts = [value_text(each, most) for each in call.values]
    return f"{call.name}({', '.join([*parts, *(f'{name}={value_text(each, most)}' for name, each in call.named)])})"


def item_text(item: Item) -> str:
    """An item as it stands in the session log; empty where it stands there otherwise."""
    match item:
        case Said():
            return f"{item.kind} - {item.text}" if item.kind in ("recap", "plan") else item.text
        case SetVar():
            return f"Var[${item.name}, {value_text(item.value)}]"
        case AtStep():
            return f'Step["{item.playbook}:{item.label}{":" if item.code else ""}{item.code}"]'
        case Fired():
            return f'Trigger["{item.playbook}:T{item.number}{":" if item.code else ""}{item.code}"]'
        case Queued():
            into = f"${item.into} = " if item.into else ""
            return "" if item.call.name == "SaveArtifact" else into + call_text(item.call)
        case Returned():
            return f"Return[{'' if item.value is None else value_text(item.value)}]"
        case Yielded():
            return f"yld {item.to}"
        case Unreadable():
            return brief(item.text, VALUE_CHARS)
        case _:
            assert_never(item)  # pragma: no cover - the type checker counts the cases
