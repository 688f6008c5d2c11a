"""Invoices, credit notes and statements. Amounts are whole cents; the rules are in docs/rounding.md."""
