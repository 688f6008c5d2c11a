"""The command line: print an invoice, or the statement of a month."""

from ledger.invoice import read_invoices
from ledger.money import format_amount
from ledger.statement import statement_of

USAGE = "usage: ledger invoice FILE NUMBER | ledger statement FILE YYYY-MM"


def main(arguments):
    match arguments:
        case ["invoice", path, number]:
            found = [invoice for invoice in read_invoices(path) if invoice.number == number]
            if not found:
                print(f"no invoice {number} in {path}")
                return 1
            print_invoice(found[0])
        case ["statement", path, month]:
            print_statement(statement_of(read_invoices(path), month))
        case _:
            print(USAGE)
            return 2
    return 0


def print_invoice(invoice):
    print(f"Invoice {invoice.number} of {invoice.date}")
    for line, amount in zip(invoice.lines, invoice.discounted()):
        print(f"  {line.description:<28}{line.quantity:>8}{line.tax_rate:>7}%{format_amount(amount):>14}")
    _print_totals(invoice)


def print_statement(statement):
    print(f"Statement of {statement.month}")
    for invoice in statement.invoices:
        figures = "".join(f"{format_amount(cents):>14}" for cents in (invoice.net, invoice.tax, invoice.gross))
        print(f"  {invoice.number:<10}{invoice.date:<12}{figures}")
    _print_totals(statement)


def _print_totals(document):
    for rate, tax in sorted(document.tax_by_rate().items()):
        print(f"  tax {rate:>5}%{format_amount(tax):>47}")
    for name in ("net", "tax", "gross"):
        print(f"  {name:<11}{format_amount(getattr(document, name)):>46}")
