"""docs/rounding.md, told a second time with fractions, and compared with what the package answers."""

import json
import os
import random
import shlex
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

WORKSPACE = Path(os.environ["WORKSPACE"])
APART = shlex.split(os.environ.get("APART", ""))  # holds the code under test apart from this folder and the verdict
PROBE = Path(__file__).with_name("probe.py")

ROUNDED = {
    "0": 0, "0.4": 0, "0.5": 1, "1.5": 2, "2.5": 3, "2.49999": 2, "-0.4": 0, "-0.5": -1, "-0.6": -1, "-1.5": -2,
    "-2.4": -2, "-2.5": -3, "-2.6": -3, "-7": -7, "1234567.5": 1234568, "-1234567.5": -1234568,
}  # fmt: skip


def half_away(value):
    sign = -1 if value < 0 else 1
    return sign * ((2 * abs(value).numerator + value.denominator) // (2 * value.denominator))


def shared(total, weights):
    whole = sum(weights)
    if not whole:
        return [0] * len(weights)
    exact = [Fraction(total * weight, whole) for weight in weights]
    cut = [int(share) for share in exact]
    left = total - sum(cut)
    by_loss = sorted(range(len(weights)), key=lambda index: (-abs(exact[index] - cut[index]), index))
    for index in by_loss[: abs(left)]:
        cut[index] += 1 if left > 0 else -1
    return cut


def figures(invoice):
    amounts = [half_away(Fraction(quantity) * unit) for quantity, unit, _ in invoice["lines"]]
    lines = [amount - share for amount, share in zip(amounts, shared(invoice["discount"], amounts), strict=True)]
    nets = {}
    for (_, _, rate), amount in zip(invoice["lines"], lines, strict=True):
        nets[rate] = nets.get(rate, 0) + amount
    taxes = {rate: half_away(Fraction(net) * Fraction(rate) / 100) for rate, net in nets.items()}
    net, tax = sum(lines), sum(taxes.values())
    return {"net": net, "tax": tax, "gross": net + tax, "taxes": taxes, "nets": nets, "lines": lines}


def mirrored(value):
    if isinstance(value, dict):
        return {key: mirrored(inner) for key, inner in value.items()}
    return [-inner for inner in value] if isinstance(value, list) else -value


def some_invoices():
    rng = random.Random(20260)
    for number in range(60):
        lines = [
            [
                rng.choice(["1", "2", "3", "0.5", "1.25", "0.333", "12"]),
                rng.randint(1, 20_000),
                rng.choice(["7", "19", "5.5"]),
            ]
            for _ in range(rng.randint(1, 7))
        ]
        discount = rng.choice([0, 1, 7, 99, 100, 250])
        yield {"number": str(number), "date": f"2026-0{rng.randint(1, 3)}-1{rng.randint(0, 9)}", "lines": lines,
               "discount": discount}  # fmt: skip


def credit_note(invoice):
    lines = [["-" + quantity, unit, rate] for quantity, unit, rate in invoice["lines"]]
    return {**invoice, "number": "CN-" + invoice["number"], "lines": lines, "discount": -invoice["discount"]}


def some_shares():
    rng = random.Random(4)
    yield from [(100, [1, 1, 1]), (-100, [-1, -1, -1]), (2, [5, 5, 5]), (1, [0, 3, 3]), (0, [4, 4]), (0, [0, 0])]
    yield from [(7, [1]), (-7, [-3]), (245, [2835, 705, 548]), (100, [745, 235, 2140]), (5, [1] * 7), (-5, [2, 2, 2])]
    for _ in range(80):
        sign = rng.choice([1, -1])
        yield sign * rng.randint(0, 999), [sign * rng.randint(1, 9_999) for _ in range(rng.randint(1, 8))]


INVOICES = list(some_invoices())
NOTES = [credit_note(invoice) for invoice in INVOICES]
SHARES = list(some_shares())
MONTHS = ["2026-01", "2026-02", "2026-03", "2027-01"]


@pytest.fixture(scope="module")
def ask():
    questions = [
        *(["round", text] for text in ROUNDED),
        *(["allocate", total, weights] for total, weights in [*SHARES, (5, [3, -1]), (5, [0, 0])]),
        *(["invoice", invoice] for invoice in [*INVOICES, *NOTES]),
        *(["statement", INVOICES[:50] + NOTES[:25], month] for month in MONTHS),
    ]
    done = subprocess.run(
        [*APART, sys.executable, "-P", "-B", str(PROBE), str(WORKSPACE / "src")],
        input="".join(json.dumps(question) + "\n" for question in questions),
        capture_output=True,
        text=True,
        timeout=60,
        cwd=WORKSPACE,
        check=False,
    )
    print(done.stderr[-2000:])
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    answers = {json.dumps(question): line for question, line in zip(questions, lines, strict=False)}
    return lambda *question: answers.get(json.dumps(list(question)), "no answer")


@pytest.mark.parametrize("text", ROUNDED)
def test_r1_halves_go_away_from_zero(ask, text):
    assert ask("round", text) == ROUNDED[text]


@pytest.mark.parametrize(("total", "weights"), SHARES)
def test_r3_shares_go_by_the_largest_fraction(ask, total, weights):
    assert ask("allocate", total, weights) == shared(total, weights)


def test_r3_what_cannot_be_shared_is_refused(ask):
    assert ask("allocate", 5, [3, -1]) == {"raises": "ValueError"}
    assert ask("allocate", 5, [0, 0]) == {"raises": "ValueError"}


@pytest.mark.parametrize("index", range(len(INVOICES)))
def test_r2_an_invoice_and_r5_its_mirror(ask, index):
    expected = figures(INVOICES[index])
    assert ask("invoice", INVOICES[index]) == expected
    assert ask("invoice", NOTES[index]) == mirrored(expected)


@pytest.mark.parametrize("month", MONTHS)
def test_r4_a_statement_is_the_sum_of_its_invoices(ask, month):
    documents = [figures(one) for one in INVOICES[:50] + NOTES[:25] if one["date"].startswith(month)]
    found = ask("statement", INVOICES[:50] + NOTES[:25], month)
    for name in ("net", "tax", "gross"):
        assert found[name] == sum(document[name] for document in documents)
    for name in ("taxes", "nets"):
        rates = {rate for document in documents for rate in document[name]}
        assert found[name] == {rate: sum(document[name].get(rate, 0) for document in documents) for rate in rates}
