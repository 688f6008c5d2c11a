"""Checks a value against a JSON Schema of any draft from 4 to 2020-12, and names the first fault by its place.

The library ``jsonschema_rs`` does the checks. The messages and their order are ours, because models read them and
recorded runs contain them. A schema from an untrusted server cannot take long: references cannot leave the schema,
patterns have a limit of steps, and ``schemas.work`` bounds the rest before the check begins. ``format`` is not checked,
as the standard allows.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from stackmem.core.strict_json import strict_value
from stackmem.core.text import mark_cut, whole_value

from .sentences import first_sentence
from .work import SchemaLimitError, refuse_excess

if TYPE_CHECKING:
    from jsonschema_rs import Validator

_DEEPEST = 100
_PATTERN_STEPS = 100_000  # a hostile pattern could otherwise backtrack almost forever
_PATTERN_BYTES = 1_000_000
_FENCE = re.compile(r"\s*```[A-Za-z]*[ \t]*\n(.*)\n[ \t]*```\s*", re.DOTALL)


def read_json(text: str) -> tuple[Any, str]:
    """Return ``(value, fault)`` for a text that is one JSON value, with or without a code fence."""
    fenced = _FENCE.fullmatch(text)
    try:
        value = strict_value(fenced[1] if fenced else text)
        return whole_value(value, _DEEPEST), ""
    except (ValueError, RecursionError) as error:
        message = error.msg if isinstance(error, json.JSONDecodeError) else str(error) or "it is nested too deeply"
        location = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        return None, f"it is not a JSON value ({message}{location})"


def first_fault(value: Any, schema: Any) -> str:
    """Return the first part of ``value`` that the schema does not allow, with its place. Empty if the value fits.

    A schema that is invalid, or that would take too long to check, is also a fault.
    """
    try:
        refuse_excess(value, schema)
        validator = _compiled(json.dumps(schema, allow_nan=False))
        if isinstance(validator, str) or validator.is_valid(value):
            return validator if isinstance(validator, str) else ""
        return first_sentence(validator.iter_errors(value), value, schema)
    except SchemaLimitError as error:
        return str(error)
    except (ValueError, TypeError, RecursionError) as error:
        return f"$ cannot be checked: {mark_cut(str(error), 200)}"


def schema_error(schema: Any) -> str:
    """Return why ``schema`` cannot be used. Empty if it is valid."""
    try:
        refuse_excess(None, schema)
        compiled = _compiled(json.dumps(schema, allow_nan=False))
    except (ValueError, TypeError, RecursionError) as error:
        return str(error)
    return compiled if isinstance(compiled, str) else ""


@lru_cache(maxsize=64)
def _compiled(schema: str) -> Validator | str:
    """Return the compiled schema, or a message about what is wrong with it."""
    import jsonschema_rs

    if schema[:1] not in ("{", "t", "f"):
        return f"the schema must be an object, is {mark_cut(schema, 80)}"
    limits = jsonschema_rs.FancyRegexOptions(_PATTERN_STEPS, _PATTERN_BYTES, _PATTERN_BYTES)
    try:
        return jsonschema_rs.validator_for(schema, validate_formats=False, offline=True, pattern_options=limits)
    except jsonschema_rs.ValidationError as error:
        if "pattern" in error.instance_path[-1:] or error.instance_path[-2:-1] == ["patternProperties"]:
            return f"the schema's own pattern cannot be read ({mark_cut(str(error.message), 200)})"
        location = "".join(f"/{name}" for name in error.instance_path)
        return f"the schema is not valid{' at ' if location else ''}{location[:200]}: {mark_cut(error.message, 200)}"
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        return f"the schema is not valid: {mark_cut(str(error), 200)}"
