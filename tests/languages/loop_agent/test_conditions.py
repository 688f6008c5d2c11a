"""Conditions with hostile input, and compared with JavaScript."""

import json
import random
import subprocess
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.languages.loop_agent.conditions.evaluator import syntax_fault, verdict
from tests.node import node

from .expressions import NASTY, grown, mutated, pieced

SEEN = {
    "payload": {
        "a": 1, "big": 10**308, "l": list(range(200)), "t": "x" * 60_000, "many": list(range(3_000)),
        "u": "a" * 1_000_000,
        "w": "a" * 250_000 + "b" + "a" * 250_000, "rows": [{"tags": ["a", "b"]}] * 100, "deep": [[[[[]]]]],
        "huge": list(range(1_000_000)), "__proto__": {"x": 1}, "constructor": "c", "length": 5, "__class__": "k",
    },
    "results": [],
    "errors": [],
}  # fmt: skip
TOO_LONG, TOO_MUCH = "more than 10,000 steps", "more than 100,000 characters"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a" * 1_001, "exceeds the maximum length of 1000"),
        ("(" * 41 + "1" + ")" * 41, "nested deeper than 40"),
        ("[" * 60 + "]" * 60, "nested deeper than 40"),
        ("payload.l.some(x => payload.l.some(y => payload.l.some(z => x + y + z < 0)))", TOO_LONG),
        ("payload.l.map(x => payload.l.map(y => payload.l))", TOO_LONG),
        ("payload.l.filter(x => payload.l.every(y => payload.l.find(z => z > 198)))", TOO_LONG),
        ("payload.l.reduce((a, b) => a + payload.l.reduce((c, d) => c + d), 0)", TOO_LONG),
        ("payload.huge.map(x => x)", TOO_LONG),
        ("payload.huge.includes(-1)", TOO_LONG),
        ("payload.huge.indexOf(1) || payload.huge.lastIndexOf(1)", TOO_LONG),
        ("payload.huge + ''", TOO_LONG),
        ("[payload.t, payload.t] + ''", TOO_MUCH),
        ("payload.t + payload.t", TOO_MUCH),
        ("payload.l.reduce((a, b) => a + a, 'x')", TOO_MUCH),
        ("payload.l.reduce((a, b) => [a, a]) + ''", TOO_LONG),
        ("payload.l.map(x => payload.t + x).length && payload.l.map(x => payload.t + x).length", ""),
        ("payload.many.map(x => payload.t + x).length", TOO_LONG),
        ("payload.many.map(x => payload.l + '').length", TOO_LONG),
        ("payload.many.some(x => payload.u.toUpperCase() === '')", TOO_LONG),
        ("payload.many.some(x => payload.u.trim() === '')", TOO_LONG),
        ("payload.many.some(x => payload.u.includes(payload.w))", TOO_LONG),
        ("payload.many.some(x => payload.u.lastIndexOf(payload.w) > 0)", TOO_LONG),
        ("payload.many.some(x => payload.u > 1)", TOO_LONG),
        ("(1, 2", "Unbalanced"),
        ("payload.l.map((a, 1) => a)", "not a parseable single expression"),
        ("payload.l.map(x => y => x)", "not a parseable single expression"),
        ("(x => x)(1)", "not a parseable single expression"),
        ("payload.u.repeat(999999)", "repeat is not a function"),
        ("payload.u.padEnd(999999999)", "padEnd is not a function"),
        ("payload.l.concat(payload.l)", "concat is not a function"),
        ("payload.__proto__.x", "forbidden construct"),
        ("payload.constructor", "forbidden construct"),
        ("payload['t']['constructor']('x')", "only methods can be called"),
        (r"payload['\ud800'].x", "half of a surrogate pair"),
        (r"'\u{110000}'", "the escape"),
        (r"'\1'", "the escape"),
        (r"'\u12'", "the escape"),
        (7, "must be a non-empty string"),
    ],
)
def test_hostile_conditions_are_refused_or_bounded(text, told):
    tracemalloc.start()
    found = verdict(text, SEEN)  # without a bound, this would exceed the test's time limit
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert told in found.fault
    assert bool(found.fault) == bool(told)
    assert peak < 100_000_000


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("!" * 900 + "1", True),
        ("- " * 450 + "1 === 1", True),
        ("typeof " * 120 + "1 === 'string'", True),
        ("+".join("1" * 400) + " === 400", True),
        ("(" * 40 + "1" + ")" * 40, True),
        ("payload.l['length'] === 200", True),
        ("payload.deep" + "[0]" * 5 + " === undefined", True),
        ("payload" + ".a || payload" * 60, True),
        ("payload.deep.some(x => " * 38 + "1" + ")" * 38, True),
        ("payload.a.a === undefined && 4 / 2 + '' === '2'", True),
        ("payload.big > 1", True),
        ("payload.big * payload.big === Infinity", True),
        ("payload.big + '' === '1e+308'", True),
        ("-payload.big < 0", True),
        ("'1.2.3' == 1", False),
        ("payload.a.toString() + payload.l.indexOf === '1undefined'", True),
        ("1e300 * 1e300 === Infinity", True),
        ("payload.l[1e999] === undefined && payload.l[-1e999] === undefined", True),
        ("payload.l['9999999999999999999999'] === undefined", True),
        ("payload.huge[999999] === 999999", True),
        ("payload['__proto__'].x === 1 && payload['constructor'] === 'c' && payload.length === 5", True),
        ("payload.t['__proto__'] === undefined && payload.l['constructor'] === undefined", True),
        ("payload.__class__ === 'k' && payload.l.__class__ === undefined", True),
        ("payload.l.reduce((a, b) => [a]) + '' === '0'", True),
        ("payload.l.some(x => x) && (payload.a) === 1", True),
        ("payload.l.map((x) => x).length === 200", True),
        ("payload.u.lastIndexOf(payload.w) === -1 && payload.w.lastIndexOf('ab') === 249999", True),
    ],
)  # fmt: skip
def test_long_and_large_conditions_have_an_answer(text, holds):
    assert (verdict(text, SEEN).fault, verdict(text, SEEN).holds) == ("", holds)


def fuzzed(count, seed, made):
    dice = random.Random(seed)
    for _ in range(count):
        text = made(dice)
        found = verdict(text, NASTY)
        assert isinstance(found.holds, bool)
        assert not (found.fault and found.holds)
        assert not syntax_fault(text) or found.fault
        found.fault.encode()
        assert len(found.fault) < 1_300


@pytest.mark.parametrize("made", [pieced, grown, mutated])
def test_no_expression_of_two_thousand_crashes(made):
    fuzzed(2_000, 1, made)


@pytest.mark.campaign
@pytest.mark.parametrize("made", [pieced, grown, mutated])
def test_no_expression_of_a_hundred_thousand_crashes(made):
    fuzzed(100_000, 2, made)


@given(st.text(max_size=80))
def test_any_text_is_a_condition_or_a_fault(text):
    assert isinstance(verdict(text, SEEN).fault, str)


EVALUATE = """
const [seen, expressions] = require('fs').readFileSync(0, 'utf8').split('\\n');
const evaluated = text => {
    const {payload, results, errors, item} = JSON.parse(seen);
    const made = new Function('payload', 'results', 'errors', 'item', `"use strict"; return (${text}\\n)`);
    const value = made(payload, results, errors, item);
    return {truth: Boolean(value), kind: typeof value, text: String(value)};
};
console.log(JSON.stringify(JSON.parse(expressions).map(text => {
    try { return evaluated(text); } catch (error) { return {error: String(error)}; }
})));
"""


def of_javascript(expressions):
    """Evaluate each expression with Node.js, which is installed with the test packages."""
    given_ = f"{json.dumps(NASTY)}\n{json.dumps(expressions)}"
    ran = subprocess.run(
        [node(), "-e", EVALUATE], input=given_, capture_output=True, text=True, check=True, timeout=300
    )
    return json.loads(ran.stdout)


def compared(count, seed):
    dice = random.Random(seed)
    made = (grown(dice) for _ in range(count))
    # leave out assignments
    expressions = [text for text in made if len(text) < 700 and "--" not in text and "++" not in text]
    answered = 0
    for text, found in zip(expressions, of_javascript(expressions), strict=True):
        own = verdict(text, NASTY)
        assert bool(own.fault) == ("error" in found), (text, own, found)
        if "error" not in found:
            answered += 1
            assert own.holds == found["truth"], (text, own, found)
            for claim in (f"typeof ({text}) === '{found['kind']}'", f"'' + ({text}) === {json.dumps(found['text'])}"):
                assert verdict(claim, NASTY).holds, (claim, verdict(claim, NASTY), found)
    assert answered > len(expressions) / 3


def test_three_thousand_expressions_mean_what_they_mean_in_javascript():
    compared(3_000, 1)


@pytest.mark.campaign
def test_a_hundred_thousand_expressions_mean_what_they_mean_in_javascript():
    compared(100_000, 2)
