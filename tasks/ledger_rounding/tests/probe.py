"""Asks the ledger questions, in a process of its own: JSON lines in, JSON lines out; amounts are cents."""

import json
import os
import sys

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what the package prints is no answer
sys.path.insert(0, sys.argv[1])
from decimal import Decimal  # noqa: E402

from ledger.allocation import allocate  # noqa: E402
from ledger.invoice import Invoice, Line  # noqa: E402
from ledger.money import round_cents  # noqa: E402
from ledger.statement import statement_of  # noqa: E402


def invoice_of(described):
    lines = [Line("x", Decimal(quantity), unit, Decimal(rate)) for quantity, unit, rate in described["lines"]]
    return Invoice(described["number"], described["date"], tuple(lines), described["discount"])


def figures(document):
    taxes = {str(rate): tax for rate, tax in document.tax_by_rate().items()}
    nets = {str(rate): net for rate, net in document.net_by_rate().items()}
    return {"net": document.net, "tax": document.tax, "gross": document.gross, "taxes": taxes, "nets": nets}


def answer(question):
    match question:
        case ["round", text]:
            return round_cents(Decimal(text))
        case ["allocate", total, weights]:
            return list(allocate(total, weights))
        case ["invoice", described]:
            return {**figures(invoice_of(described)), "lines": list(invoice_of(described).discounted())}
        case ["statement", described, month]:
            return figures(statement_of([invoice_of(one) for one in described], month))


for line in sys.stdin:
    try:
        text = json.dumps(answer(json.loads(line)))
    except Exception as error:  # noqa: BLE001 - whatever it raises is the answer
        text = json.dumps({"raises": type(error).__name__})
    answers.write(text + "\n")
    answers.flush()
