"""Properties of all generated values and programs."""

from __future__ import annotations

import operator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stackmem.languages.sexp.errors import SexpSyntaxError
from stackmem.languages.sexp.evaluator import SexpEvaluator
from stackmem.languages.sexp.reader import read
from stackmem.languages.sexp.tree import Symbol, datum
from stackmem.languages.sexp.values import equal, to_source
from tests.compliance.sexp_stage import Memory, Tasks, Tools

SYMBOLS = st.from_regex(r"[a-z+*/<>=!?_][a-z0-9+*/<>=!?_-]{0,8}", fullmatch=True).filter(
    lambda name: name not in ("nil", "true", "false")
)
ATOMS = (
    st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.booleans()
    | SYMBOLS.map(Symbol).filter(lambda name: not name.lstrip("+").isdigit())
)
VALUES = st.recursive(ATOMS, lambda inner: st.lists(inner, max_size=5), max_leaves=30)


def same(one: Any, other: Any) -> bool:
    """Return whether values are equal and of the same types at every level."""
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def value_of(text: str) -> Any:
    return SexpEvaluator(Tasks(), Tools(), Memory()).evaluate_string(text)


@given(VALUES)
def test_what_is_written_reads_as_the_same_value(value: Any) -> None:
    (node,) = read(to_source(value))
    assert same(datum(node), value)
    assert equal(datum(node), value)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    fault = fault_of(text)
    assert fault is None or (fault.line >= 1 and fault.column >= 1 and fault.error_details)


def fault_of(text: str) -> SexpSyntaxError | None:
    try:
        read(text)
    except SexpSyntaxError as error:
        return error
    return None


OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
ARITHMETIC = st.recursive(
    st.integers(-1_000, 1_000).map(lambda n: (str(n), n)),
    lambda inner: st.tuples(st.sampled_from(sorted(OPERATIONS)), inner, inner).map(
        lambda three: (f"({three[0]} {three[1][0]} {three[2][0]})", OPERATIONS[three[0]](three[1][1], three[2][1]))
    ),
    max_leaves=20,
)


@given(ARITHMETIC)
def test_arithmetic_agrees_with_python(both: tuple[str, int]) -> None:
    assert value_of(both[0]) == both[1]


@given(ARITHMETIC, ARITHMETIC)
def test_comparisons_and_choices_agree_with_python(one: tuple[str, int], other: tuple[str, int]) -> None:
    text = f"(if (< {one[0]} {other[0]}) (list 'less (mod {one[0]} 7)) (list 'more (/ {other[0]} 4)))"
    wanted = ["less", one[1] % 7] if one[1] < other[1] else ["more", other[1] / 4]
    assert value_of(text) == wanted


NAMES = ("a", "b", "c")


@st.composite
def scoped(draw: Any, bound: tuple[str, ...] = (), depth: int = 0) -> tuple[str, str]:
    """Return an expression in both languages in which every name is bound."""
    kinds = ["number"] + (["name"] if bound else []) + (["let", "call", "add", "later"] if depth < 4 else [])
    match draw(st.sampled_from(kinds)):
        case "number":
            number = draw(st.integers(-9, 9))
            return str(number), f"({number})"
        case "name":
            name = draw(st.sampled_from(bound))
            return name, name
        case "add":
            one, other = draw(scoped(bound, depth + 1)), draw(scoped(bound, depth + 1))
            return f"(+ {one[0]} {other[0]})", f"({one[1]} + {other[1]})"
        case "later":  # a closure is created while a name has one value, and called while it has another
            name, outer = draw(st.sampled_from(NAMES)), draw(scoped(bound, depth + 1))
            inner, hiding = draw(scoped((*bound, name), depth + 1)), draw(scoped(bound, depth + 1))
            text = f"(let ((f (lambda () {inner[0]}))) (let (({name} {hiding[0]})) (f)))"
            python = f"(lambda f: (lambda {name}: f())({hiding[1]}))(lambda: {inner[1]})"
            return f"(let (({name} {outer[0]})) {text})", f"(lambda {name}: {python})({outer[1]})"
        case kind:
            name, value = draw(st.sampled_from(NAMES)), draw(scoped(bound, depth + 1))
            body = draw(scoped((*bound, name), depth + 1))
            python = f"(lambda {name}: {body[1]})({value[1]})"
            text = f"(let (({name} {value[0]})) {body[0]})"
            return text if kind == "let" else f"((lambda ({name}) {body[0]}) {value[0]})", python


@given(scoped())
def test_scope_agrees_with_closures_of_python(both: tuple[str, str]) -> None:
    assert value_of(both[0]) == eval(both[1], {})
