"""A bill of the provider's cache as lines."""

from __future__ import annotations

from stackmem.kept.cache_bill import CacheBill


def lines(found: CacheBill) -> list[str]:
    """The tokens by class, the cost, and how often the prefix broke and why."""
    usage, bill = found.bill.usage, found.bill
    told = [
        f"under the cache of {found.model}, which keeps prefixes of {found.minimum_tokens:,} tokens and more; "
        f"tokens counted as {found.counted}",
        f"  read {usage.cache_read:,}, written {usage.cache_write_5m:,} for 5 minutes and {usage.cache_write_1h:,} "
        f"for 1 hour, uncached {usage.uncached:,}, output {usage.output:,}",
    ]
    if bill.usd is None or bill.usd_without_cache is None:
        told.append("  cost unknown: the table has no price of this model")
    else:
        told.append(f"  cost ${bill.usd:,.4f}; without a cache ${bill.usd_without_cache:,.4f}")
    if bill.not_sent:
        told.append(
            f"  {bill.not_sent:,} of {bill.requests:,} prompts are not those that were sent: the run was imported, "
            "or made under other rules"
        )
    whole = bill.requests - sum(bill.broken.values())
    told.append(f"  {whole:,} of {bill.requests:,} requests went on from where their conversation had ended")
    told += [f"  {times:,} did not: {why}" for why, times in sorted(bill.broken.items(), key=lambda one: -one[1])]
    return told
