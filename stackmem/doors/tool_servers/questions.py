"""Questions that MCP servers ask the user during a call (elicitation).

Rule 1: Without a user, servers are not told that they may ask.
Rule 2: An answer goes only to the server that asked and is not stored; only the tool's result is recorded.
Rule 3: A URL that a server wants opened is displayed, but never opened here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from stackmem.core.schemas.json_schema import first_fault, schema_error
from stackmem.core.text import mark_cut, whole

Json = dict[str, Any]
Ask = Callable[[str, tuple[str, ...]], str | None]
"""Asks a question with a choice of answers; returns None if the user does not want to answer."""

NO = "/no"
_TRIES = 5
_MAX_FIELDS = 50
_MESSAGE_CHARS = 4_000
_FIELD_CHARS = 500
_YES = ("yes", "no")

_PERSON: ContextVar[Ask | None] = ContextVar("person", default=None)


@contextmanager
def answered_by(ask: Ask) -> Iterator[None]:
    """Within this block, questions from servers in calls of this thread go to ``ask``."""
    token = _PERSON.set(ask)
    try:
        yield
    finally:
        _PERSON.reset(token)


def put_to_person(server: str, params: Any) -> tuple[str, Json | None]:
    """Return ``(action, content)`` for the protocol: accept, decline or cancel, and the form's fields.

    ``params`` are the parameters of the server's request.
    """
    ask = _PERSON.get()
    if ask is None:
        return "cancel", None
    message = f"The server {server} asks: {whole(mark_cut(str(params.message), _MESSAGE_CHARS))}"
    if getattr(params, "mode", "form") == "url":
        location = whole(str(params.url))[:_MESSAGE_CHARS]
        return _agreed(ask(f"{message}\nIt wants you to open {location}\nHave you done so?", _YES), None)
    fields = params.requested_schema.get("properties")
    required = params.requested_schema.get("required")
    if not isinstance(fields, dict) or not fields:
        return _agreed(ask(f"{message}\nDo you agree?", _YES), {})
    if len(fields) > _MAX_FIELDS:
        return "decline", None
    content: Json = {}
    for name, schema in fields.items():
        needed = isinstance(required, list) and name in required
        outcome = _field(ask, message, name, schema if isinstance(schema, dict) else {}, needed=needed)
        if isinstance(outcome, str):
            return outcome, None
        content.update(outcome)
        message = f"The server {server} asks further:"
    return "accept", content


def _agreed(reply: str | None, content: Json | None) -> tuple[str, Json | None]:
    if reply is None:
        return "cancel", None
    return ("accept", content) if reply.strip().lower() in {"y", "yes"} else ("decline", None)


def _field(ask: Ask, message: str, name: str, schema: Json, *, needed: bool) -> Json | str:
    """Return the field's value by name, empty if it was omitted, or the action if the user refuses the whole form."""
    if schema_error(schema):  # no answer could be valid
        return "decline"
    question = f"{message}\n{_field_label(name, schema, needed=needed)}"
    options = _options(schema)
    for _ in range(_TRIES):
        reply = ask(question, options)
        if reply is None or reply.strip() == NO:
            return "cancel" if reply is None else "decline"
        if not reply.strip() and "default" in schema:
            return {name: schema["default"]}
        if not reply.strip() and not needed:
            return {}
        value = _value(reply.strip(), schema)
        fault = first_fault(value, schema)
        if not fault:
            return {name: value}
        question = f"That is not valid: {fault}\n{_field_label(name, schema, needed=needed)}"
    return "decline"


def _field_label(name: str, schema: Json, *, needed: bool) -> str:
    title = whole(str(schema.get("title", name)))[:_FIELD_CHARS]
    kind = schema.get("type", "text")
    more = [str(kind if isinstance(kind, str) else "text"), "" if needed else "optional"]
    if "default" in schema:
        more.append(f"Enter accepts {str(schema['default'])[:_FIELD_CHARS]!r}")
    description = whole(str(schema.get("description", "")))[:_FIELD_CHARS]
    return f"{title} ({', '.join(filter(None, more))}; {NO} declines){': ' + description if description else ''}"


def _options(schema: Json) -> tuple[str, ...]:
    if schema.get("type") == "boolean":
        return _YES
    values = schema.get("enum")
    titled = schema.get("oneOf")
    if isinstance(titled, list) and not isinstance(values, list):
        values = [option.get("const") for option in titled if isinstance(option, dict)]
    return tuple(str(value)[:_FIELD_CHARS] for value in values[:100]) if isinstance(values, list) else ()


def _value(reply: str, schema: Json) -> Any:
    """Convert an answer to the schema's type. If that fails, return the text, so that validation reports the error."""
    match schema.get("type"):
        case "boolean":
            return {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}.get(
                reply.lower(), reply
            )
        case "integer" | "number" as kind:
            try:
                return int(reply) if kind == "integer" else _finite(reply)
            except ValueError:
                return reply
        case "array":
            return [item.strip() for item in reply.split(",") if item.strip()]
        case _:
            return reply


def _finite(reply: str) -> float:
    value = float(reply)
    if not math.isfinite(value):
        raise ValueError
    return value
