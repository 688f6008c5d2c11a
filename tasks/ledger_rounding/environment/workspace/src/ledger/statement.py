"""Statements: the invoices of one month and what they come to."""

from dataclasses import dataclass

from ledger.invoice import tax_on


@dataclass(frozen=True)
class Statement:
    month: str  # YYYY-MM
    invoices: tuple

    def net_by_rate(self):
        nets = {}
        for invoice in self.invoices:
            for rate, net in invoice.net_by_rate().items():
                nets[rate] = nets.get(rate, 0) + net
        return nets

    def tax_by_rate(self):
        return {rate: tax_on(net, rate) for rate, net in self.net_by_rate().items()}

    @property
    def net(self):
        return sum(self.net_by_rate().values())

    @property
    def tax(self):
        return sum(self.tax_by_rate().values())

    @property
    def gross(self):
        return self.net + self.tax


def statement_of(invoices, month):
    """The statement of a month; its invoices are in order of date, then number."""
    chosen = [invoice for invoice in invoices if invoice.date.startswith(month + "-")]
    return Statement(month, tuple(sorted(chosen, key=lambda invoice: (invoice.date, invoice.number))))
