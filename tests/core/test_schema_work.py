"""A schema from an untrusted server cannot keep the machine busy."""

from random import Random
from typing import Any

import pytest

from stackmem.core.schemas.json_schema import first_fault
from stackmem.core.schemas.work import MAX_WORK, SchemaLimitError, _Work, refuse_excess, size_of, sizes

STEPS = f"checking the value against the schema takes more than {MAX_WORK:,} steps"
WITHOUT_END = "the schema refers to itself without end"


def nested(value: Any, name: str | None, depth: int) -> Any:
    for _ in range(depth):
        value = [value] if name is None else {name: value}
    return value


def doubled(depth: int, last: Any) -> dict[str, Any]:
    """A chain of definitions, each of which refers to the next one twice."""
    chain = {f"d{number}": {"allOf": [{"$ref": f"#/$defs/d{number + 1}"}] * 2} for number in range(depth)}
    return {"$ref": "#/$defs/d0", "$defs": {**chain, f"d{depth}": last}}


TWICE = {"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}
BY_ADDRESS = {
    "$id": "https://example.org/root",
    "items": {"anyOf": [{"$ref": "https://example.org/root"}, {"$ref": "root#"}, {"$ref": "#top"}]},
    "$anchor": "top",
}
DYNAMIC = {"$dynamicAnchor": "top", "items": {"allOf": [{"$dynamicRef": "#top"}, {"$dynamicRef": "#top"}]}}
DECOY = {
    "$defs": {
        "real": {"$id": "urn:example:x", "items": {"allOf": [{"$ref": "urn:example:x"}, {"$ref": "urn:example:x"}]}},
    },
    "const": {"$id": "urn:example:x"},
    "$ref": "urn:example:x",
}


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        (doubled(40, {"type": "integer"}), 1, STEPS),
        (TWICE, nested(1, "a", 60), STEPS),
        (BY_ADDRESS, nested(1, None, 60), STEPS),
        (DYNAMIC, nested(1, None, 60), STEPS),
        (DECOY, nested(1, None, 60), STEPS),
        ({"items": {"enum": [{"k": [number]} for number in range(20_000)]}}, [0] * 20_000, STEPS),
        ({"allOf": [{"type": "string"}] * 1_000}, [[number] for number in range(20_000)], STEPS),
        ({"items": {"required": [str(number) for number in range(3_000)]}}, [{}] * 3_000, STEPS),
        ({"allOf": [{"pattern": "a{50}b"}] * 3_000}, "a" * 500_000, STEPS),
        ({"enum": list(range(300_000))}, 1, "the schema has more than 200,000 parts"),
        (nested({}, "not", 10_000), 1, "the schema is nested more than 200 deep"),
        ({"items": {"$ref": "#"}}, nested(1, None, 10_000), "$ is nested more than 200 deep"),
        ({"anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"anyOf": [{"$ref": "#"}]}}}, 1, WITHOUT_END),
        ({"$ref": "#/$ref"}, 1, "the schema is not valid at /$ref: "),
    ],
)
def test_expensive_schemas_are_refused(schema: Any, value: Any, told: str) -> None:
    fault = first_fault(value, schema)
    assert fault.startswith(told)
    assert len(fault) < 400


def test_a_value_or_a_schema_with_a_cycle_is_refused() -> None:
    ring: list[Any] = []
    ring.append(ring)
    assert first_fault(ring, {"items": {"$ref": "#"}}) == "$ is nested more than 200 deep"
    table: dict[str, Any] = {"type": "object"}
    table["properties"] = {"a": table}
    assert first_fault(1, table) == "the schema is nested more than 200 deep"


@pytest.mark.parametrize("pattern", [r"^(a+)+$", r"(x+x+)+y", r"^(a|a)*$", r"(?=a)(a+a+)+\1b", r"^(?:(a+)+)\1c(?!d)"])
def test_a_pattern_cannot_take_exponential_time(pattern: str) -> None:
    for text in ("a" * 2_000 + "!", "x" * 2_000):
        told = first_fault(text, {"pattern": pattern})
        assert "must match" in told or told == "$ cannot be checked: the schema's pattern takes too many steps"
        assert isinstance(first_fault({text: 1}, {"patternProperties": {pattern: {}}}), str)


def test_a_large_value_of_a_plain_schema_is_checked() -> None:
    person = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}
    value: Any = {}
    for _ in range(12):
        value = {"left": value, "right": value}
    people = [{"name": "Ann", "age": 30}] * 20_000
    assert first_fault(people, {"type": "array", "items": person}) == ""
    assert first_fault([*people, {"name": 1}], {"items": person}) == (
        "$[20000].name must be of type string, is integer"
    )
    assert first_fault(value, tree) == ""
    assert first_fault(nested(1, "left", 90), tree).endswith(" must be of type object, is integer")


def test_the_estimate_counts_every_way_through_the_references() -> None:
    refuse_excess(1, doubled(15, {"type": "integer"}))
    with pytest.raises(SchemaLimitError):
        refuse_excess(1, doubled(25, {"type": "integer"}))


@pytest.mark.parametrize("seed", range(200))
def test_a_small_check_without_references_never_needs_more_than_its_bound(seed: int):
    chance = Random(seed)

    def value(depth: int) -> Any:
        if depth == 0 or chance.random() < 0.3:
            return chance.choice([1, None, "x" * chance.randrange(200), True])
        if chance.random() < 0.5:
            return [value(depth - 1) for _ in range(chance.randrange(4))]
        return {name: value(depth - 1) for name in "abc"[: chance.randrange(4)]}

    def schema(depth: int) -> Any:
        if depth == 0:
            return {"type": "string"}
        inner = [schema(depth - 1) for _ in range(2)]
        words = {"allOf": inner, "items": inner[0], "additionalProperties": inner[1], "not": inner[0]}
        words |= {"enum": [value(1)], "properties": {"a": inner[0]}, "required": ["a", "b"], "contains": inner[1]}
        return {word: words[word] for word in chance.sample(sorted(words), 4)}

    rule, part = schema(3), value(3)
    rules, parts = sizes(rule, "the schema"), sizes(part, "$")
    whole = parts.get(id(part)) or size_of(part, "$")
    assert _Work(rule, rules, parts).of(rule, part, 0) <= 5 * (rules[id(rule)] * whole) ** 2
