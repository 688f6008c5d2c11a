"""Finds words in a JSON Schema that are not keywords.

The standard ignores unknown words, so a schema that consists of them accepts everything. The usual cause is a list of
properties in place of a schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_ANNOTATIONS = frozenset(
    ("title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "nullable",
     "discriminator", "externalDocs", "xml", "id")
)  # fmt: skip
_SCHEMAS_BY_NAME = frozenset(
    ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
)
_SCHEMAS = frozenset(
    ("items", "additionalItems", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames",
     "unevaluatedItems", "unevaluatedProperties", "contentSchema", "allOf", "anyOf", "oneOf", "prefixItems")
)  # fmt: skip
_OTHER = frozenset(
    ("type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength",
     "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "maxContains", "minContains", "maxProperties",
     "minProperties", "required", "dependentRequired", "format", "contentEncoding", "contentMediaType")
)  # fmt: skip
KEYWORDS = _ANNOTATIONS | _SCHEMAS_BY_NAME | _SCHEMAS | _OTHER
"""The keywords of all drafts, and those that OpenAPI adds."""


def unknown_keywords(schema: Any) -> Iterator[tuple[str, str]]:
    """Yield ``(place, word)`` for each word that is not a keyword. The place of the whole schema is empty."""
    waiting = [("", schema)]
    while waiting:
        location, each = waiting.pop()
        if isinstance(each, list):
            waiting += [(f"{location}/{index}", inner) for index, inner in enumerate(each)]
        if not isinstance(each, dict):
            continue
        for word, value in each.items():
            if word in _SCHEMAS_BY_NAME and isinstance(value, dict):
                waiting += [(f"{location}/{word}/{name}", inner) for name, inner in value.items()]
            elif word in _SCHEMAS:
                waiting.append((f"{location}/{word}", value))
            elif word not in KEYWORDS and not word.startswith(("$", "x-")):
                yield location, word


def constrains(schema: dict[str, Any]) -> bool:
    """Return whether the schema has at least one keyword that can refuse a value."""
    return any(word in KEYWORDS - _ANNOTATIONS or word.startswith("$") for word in schema)
