from decimal import Decimal

from ledger.cli import main
from ledger.invoice import Invoice, Line
from ledger.statement import statement_of


def invoice(number, date, cents):
    return Invoice(number, date, (Line("thing", Decimal(1), cents, Decimal("19")),))


def test_a_statement_has_the_invoices_of_its_month_in_order():
    invoices = [invoice("3", "2026-03-09", 100), invoice("1", "2026-03-01", 100), invoice("2", "2026-04-01", 100)]
    assert [chosen.number for chosen in statement_of(invoices, "2026-03").invoices] == ["1", "3"]


def test_a_statement_totals_its_invoices():
    statement = statement_of([invoice("1", "2026-03-01", 1000), invoice("2", "2026-03-02", 2000)], "2026-03")
    assert (statement.net, statement.tax, statement.gross) == (3000, 570, 3570)


def test_an_unknown_invoice_is_named(tmp_path, capsys):
    export = tmp_path / "export.csv"
    export.write_text("number,date,description,quantity,unit_price,tax_rate,discount\n")
    assert main(["invoice", str(export), "9"]) == 1
    assert "no invoice 9" in capsys.readouterr().out
