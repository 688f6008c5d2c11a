"""Computes an upper bound for the work of checking a value against a JSON Schema, before the check begins.

A schema can come from an untrusted server. With references, a few lines can require more checks than any machine can
do, so the checks are counted first: one for each part of the schema at each part of the value, times the size of that
part, because an error copies it. Tables keyed by ``id()`` are safe here: all their objects are parts of the schema or
the value, which outlive them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

MAX_WORK = 5_000_000
MAX_SCHEMA = 200_000
MAX_DEPTH = 200
"""Levels of nesting in a value or a schema."""
_MAX_STEPS = 300
_CHARS_A_UNIT = 64
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "if", "then", "else")
_BY_NAME = ("dependentSchemas", "dependencies")
_ALL_MEMBERS = ("additionalProperties", "unevaluatedProperties")
_ALL_ITEMS = ("additionalItems", "contains", "unevaluatedItems")
_COPIED = ("enum", "const", "not")  # an error for one of these copies the keyword's value


class SchemaLimitError(ValueError):
    """The schema or the value cannot be checked. The message says why."""


def sizes(value: Any, name: str) -> dict[int, int]:
    """Return the size of every list and mapping in a JSON value by its id. Takes about as many steps as it has
    parts.

    Raise SchemaLimitError if the value is nested too deep, has a cycle, or contains a type that JSON does not have.
    """
    by_id: dict[int, int] = {}

    def measure(part: Any, depth: int) -> int:
        if not isinstance(part, (dict, list, tuple)):
            return size_of(part, name)
        if depth > MAX_DEPTH:
            raise SchemaLimitError(f"{name} is nested more than {MAX_DEPTH} deep")
        total = by_id.get(id(part), 0)
        if not total:
            total = 1
            if isinstance(part, dict):
                for key, each in part.items():
                    total += _size_of_name(key, name) + measure(each, depth + 1)
            else:
                for each in part:
                    total += measure(each, depth + 1)
            by_id[id(part)] = total
        return total

    measure(value, 1)
    return by_id


def _size_of_name(key: object, name: str) -> int:
    if not isinstance(key, str):
        raise SchemaLimitError(f"{name} is not JSON: it contains a Python {type(key).__name__} as a name")
    return size_of(key, name)


def size_of(part: Any, name: str) -> int:
    """Return the size of a string, a number, a boolean or null."""
    if isinstance(part, str):
        return 1 + len(part) // _CHARS_A_UNIT
    if isinstance(part, int):
        return 1 + part.bit_length() // _CHARS_A_UNIT
    if part is None or (isinstance(part, float) and part - part == 0):
        return 1
    text = str(part) if isinstance(part, float) else f"a Python {type(part).__name__}"
    raise SchemaLimitError(f"{name} is not JSON: it contains {text}")


def refuse_excess(value: Any, schema: Any) -> None:
    """Refuse a check that could take too long.

    Raise SchemaLimitError if the value or schema is too large or too deep, has too many paths through its references,
    or refers to something outside itself.
    """
    rules = sizes(schema, "the schema")
    if rules.get(id(schema), 1) > MAX_SCHEMA:
        raise SchemaLimitError(f"the schema has more than {MAX_SCHEMA:,} parts")
    parts = sizes(value, "$")
    size = parts[id(value)] if isinstance(value, (dict, list, tuple)) else size_of(value, "$")
    if not _is_small(rules.get(id(schema), 1), size) or _refers(schema):
        _Work(schema, rules, parts).of(schema, value, 0)


def _is_small(rules: int, parts: int) -> bool:
    """Return whether no schema of this size without references can take more than ``MAX_WORK`` at such a value.

    Each part of the schema is checked at most once at each part of the value, and then takes at most
    5 * ``rules`` * ``parts``.
    """
    return 5 * (rules * parts) ** 2 <= MAX_WORK


def _refers(schema: Any) -> bool:
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if any(word in part for word in _REFERENCES):
                return True
            waiting += part.values()
        elif isinstance(part, list | tuple):
            waiting += part
    return False


class _Work:
    def __init__(self, schema: Any, rules: dict[int, int], parts: dict[int, int]) -> None:
        self._schema, self._rules, self._parts = schema, rules, parts
        self._known: dict[tuple[int, int], int | None] = {}

    @cached_property
    def _addresses(self) -> _Addresses:
        return _Addresses(self._schema)

    def of(self, schema: Any, value: Any, steps: int) -> int:
        """Return the work for a part of the schema at a part of the value."""
        if not isinstance(schema, dict):
            return 1
        key = id(schema), id(value)
        if key in self._known:
            cached = self._known[key]
            if cached is None:
                raise SchemaLimitError("the schema refers to itself without end")
            return cached
        if steps > _MAX_STEPS:
            raise SchemaLimitError(f"the schema leads through more than {_MAX_STEPS} parts of itself at one place")
        self._known[key] = None
        work = self._own(schema, value)
        for inner, part in self._applied(schema, value):
            work += self.of(inner, part, steps + 1)
            if work > MAX_WORK:
                raise SchemaLimitError(f"checking the value against the schema takes more than {MAX_WORK:,} steps")
        self._known[key] = work
        return work

    def _own(self, schema: dict[str, Any], value: Any) -> int:
        """Return the work of the schema's own keywords. Each may result in an error, which copies the value."""
        words = len(schema)
        for word in ("required", "patternProperties"):
            words += len(schema[word]) if isinstance(schema.get(word), list | dict) else 0
        needed = schema.get("dependentRequired")
        if isinstance(needed, dict):
            words += sum(len(each) for each in needed.values() if isinstance(each, list))
        copied = sum(self._size(schema[word], self._rules) for word in _COPIED if word in schema)
        return 1 + words * self._size(value, self._parts) + copied

    def _size(self, part: Any, size_by_id: dict[int, int]) -> int:
        return size_by_id[id(part)] if isinstance(part, dict | list | tuple) else size_of(part, "$")

    def _applied(self, schema: dict[str, Any], value: Any) -> Iterator[tuple[Any, Any]]:
        """Yield each part of a schema that is checked directly below this part, with its part of the value."""
        for word, rule in schema.items():
            if word in _REFERENCES and isinstance(rule, str):
                yield from ((target, value) for target in self._addresses.targets(schema, rule))
            elif word in _LISTS and isinstance(rule, list):
                yield from ((each, value) for each in rule)
            elif word in _SINGLE:
                yield rule, value
            elif word in _BY_NAME and isinstance(rule, dict) and isinstance(value, dict):
                yield from ((each, value) for name, each in rule.items() if name in value)
        if isinstance(value, dict):
            yield from _members(schema, value)
        elif isinstance(value, list | tuple):
            yield from _items(schema, value)


class _Addresses:
    """Resolves the references of a schema. If a reference is ambiguous, as an attacker could arrange, it returns all
    meanings.
    """

    def __init__(self, schema: Any) -> None:
        self._bases: dict[int, set[str]] = {}
        self._resources: dict[str, list[Any]] = {"": [schema]}
        self._anchors: dict[str, list[Any]] = {}
        waiting: list[tuple[Any, tuple[str, ...]]] = [(schema, ("",))]
        while waiting:
            part, bases = waiting.pop()
            if isinstance(part, dict):
                bases = self._note(part, bases)
            inner = part.values() if isinstance(part, dict) else part if isinstance(part, list | tuple) else ()
            waiting += [(each, bases) for each in inner]

    def _note(self, table: dict[str, Any], bases: tuple[str, ...]) -> tuple[str, ...]:
        for word in ("$id", "id", "$anchor", "$dynamicAnchor"):
            name = table.get(word)
            if not isinstance(name, str):
                continue
            if word in ("$id", "id") and not name.startswith("#"):
                uris = {urldefrag(_joined(base, name))[0] for base in bases}
                for uri in uris:
                    self._resources.setdefault(uri, []).append(table)
                bases = (*bases, *uris)
            else:
                self._anchors.setdefault(name.removeprefix("#"), []).append(table)
        self._bases.setdefault(id(table), set()).update(bases)
        return bases

    def targets(self, table: dict[str, Any], reference: str) -> list[Any]:
        """Return every part that a reference in ``table`` may refer to."""
        _, fragment = urldefrag(reference)
        uris = {urldefrag(_joined(base, reference))[0] for base in self._bases[id(table)]}
        name = unquote(fragment)
        parts = [] if not name or name.startswith("/") else self._anchors.get(name, [])
        if not parts:
            resources = [each for uri in sorted(uris) for each in self._resources.get(uri, ())]
            parts = [target for each in resources if (target := _pointed(each, name)) is not None]
        if not parts:
            raise SchemaLimitError(
                f"the schema refers to {reference[:200]!r}, which is not a part of it; other schemas are never fetched"
            )
        return list({id(each): each for each in parts}.values())


def _joined(base: str, reference: str) -> str:
    """Resolve an address against another one. ``urljoin`` cannot do this for a ``urn:``."""
    return urldefrag(base)[0] + reference if reference.startswith("#") else urljoin(base, reference)


def _members(schema: dict[str, Any], value: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    declared = schema.get("properties")
    properties = declared if isinstance(declared, dict) else {}
    yield from ((properties[name], member) for name, member in value.items() if name in properties)
    patterns = schema.get("patternProperties")
    for rule in patterns.values() if isinstance(patterns, dict) else ():
        yield from ((rule, member) for member in value.values())
    for word in _ALL_MEMBERS:
        if word in schema:
            yield from ((schema[word], member) for name, member in value.items() if name not in properties)
    if "propertyNames" in schema:
        yield from ((schema["propertyNames"], name) for name in value)


def _items(schema: dict[str, Any], value: list[Any] | tuple[Any, ...]) -> Iterator[tuple[Any, Any]]:
    rule, first = schema.get("items"), schema.get("prefixItems")
    listed = first if isinstance(first, list) else rule if isinstance(rule, list) else []
    yield from zip(listed, value, strict=False)
    if "items" in schema and not isinstance(rule, list):
        yield from ((rule, item) for item in value[len(listed) :])
    for word in _ALL_ITEMS:
        if word in schema:
            yield from ((schema[word], item) for item in value)


def _pointed(resource: Any, pointer: str) -> Any:
    part = resource
    for name in pointer.split("/")[1:]:
        plain = name.replace("~1", "/").replace("~0", "~")
        if isinstance(part, dict) and plain in part:
            part = part[plain]
        elif isinstance(part, list) and plain.isdecimal() and len(plain) < 10 and int(plain) < len(part):
            part = part[int(plain)]
        else:
            return None
    return part
