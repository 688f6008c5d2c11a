"""Checks a value against a JSON Schema of any draft from 4 to 2020-12, and names the first fault by its place.

The library ``jsonschema_rs`` checks; the sentences and their order are ours, because models read them and recorded runs
keep them. What is a stranger's cannot take long: references lead nowhere outside the schema, patterns have a limit of
steps, and ``schemas.work`` bounds the rest before the check begins. ``format`` asks nothing, as the standard has it.
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
_PATTERN_STEPS = 100_000
_PATTERN_BYTES = 1_000_000
_FENCE = re.compile(r"\s*```[A-Za-z]*[ \t]*\n(.*)\n[ \t]*```\s*", re.DOTALL)


def read_json(text: str) -> tuple[Any, str]:
    """``(value, fault)`` of a text that is one JSON value, also one in a fence."""
    fenced = _FENCE.fullmatch(text)
    try:
        value = strict_value(fenced[1] if fenced else text)
        return whole_value(value, _DEEPEST), ""
    except (ValueError, RecursionError) as error:
        told = error.msg if isinstance(error, json.JSONDecodeError) else str(error) or "it is nested too deeply"
        where = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        return None, f"it is no JSON value ({told}{where})"


def first_fault(value: Any, schema: Any) -> str:
    """The first thing in ``value`` that the schema does not allow, by its place; empty if it fits.

    A schema that is not valid, or that would take too long to check, is a fault too.
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
    """Why nothing can be checked against ``schema``; empty if it is a valid one."""
    try:
        refuse_excess(None, schema)
        compiled = _compiled(json.dumps(schema, allow_nan=False))
    except (ValueError, TypeError, RecursionError) as error:
        return str(error)
    return compiled if isinstance(compiled, str) else ""


@lru_cache(maxsize=64)
def _compiled(schema: str) -> Validator | str:
    """The schema made ready; what is wrong with it otherwise."""
    import jsonschema_rs

    if schema[:1] not in ("{", "t", "f"):
        return f"the schema must be an object, is {mark_cut(schema, 80)}"
    limits = jsonschema_rs.FancyRegexOptions(_PATTERN_STEPS, _PATTERN_BYTES, _PATTERN_BYTES)
    try:
        return jsonschema_rs.validator_for(schema, validate_formats=False, offline=True, pattern_options=limits)
    except jsonschema_rs.ValidationError as error:
        if "pattern" in error.instance_path[-1:] or error.instance_path[-2:-1] == ["patternProperties"]:
            return f"the schema's own pattern cannot be read ({mark_cut(str(error.message), 200)})"
        place = "".join(f"/{name}" for name in error.instance_path)
        return f"the schema is not valid{' at ' if place else ''}{place[:200]}: {mark_cut(error.message, 200)}"
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        return f"the schema is not valid: {mark_cut(str(error), 200)}"
