"""Counts what web searches cost."""

from __future__ import annotations

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from .network import SearchBill
from .pricing import Price, reply_usd
from .state import State


def search_usd(cost: SearchBill, own: Price | None) -> float | None:
    """Return the USD of a search with its fee, or None if the price of the run's own model is unknown."""
    usd = reply_usd(cost.usage, own, UNSET) if cost.usage.total else 0.0
    return None if usd is None else usd + cost.fee_usd


def after_search(state: State, cost: SearchBill | UnsetType) -> State:
    """Return the state with the tokens and the cost of a search."""
    if cost is UNSET:
        return state
    usd = search_usd(cost, state.begun.price)
    return replace(
        state, usage=state.usage + cost.usage, usd=state.usd + (usd or 0.0), unpriced=state.unpriced + (usd is None)
    )
