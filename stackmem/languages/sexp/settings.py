"""``(budgets (steps N) (depth N))`` at the head of a program's file."""

from __future__ import annotations

from msgspec import structs

from .budget import Budget
from .errors import Place, SexpSyntaxError
from .nodes import Atom, Form, Name, Node

MOST = {"steps": 1_000_000_000, "depth": 100_000}


def split_budget(nodes: list[Node]) -> tuple[list[Node], Budget]:
    """The expressions without the first where it sets budgets, and the budget.

    Raises:
        SexpSyntaxError: It is written wrongly, or asks for more than there may be.

    """
    first = nodes[0]
    head = first.items[0] if isinstance(first, Form) and first.items else None
    if not isinstance(first, Form) or not isinstance(head, Name) or head.name != "budgets":
        return nodes, Budget()
    found: dict[str, int] = {}
    for clause in first.items[1:]:
        pair = clause.items if isinstance(clause, Form) else []
        name = pair[0].name if len(pair) == 2 and isinstance(pair[0], Name) else ""
        count = pair[1].value if name and isinstance(pair[1], Atom) else None
        if name not in MOST or name in found or type(count) is not int or not 1 <= count <= MOST[name]:
            told = " and ".join(f"({key} N) with N from 1 to {most:,}" for key, most in MOST.items())
            place = Place.of(first.source.path, first.source.text, first.at)
            message = f"'budgets' takes {told}, each at most once."
            raise SexpSyntaxError(message, first.source.text, message, place)
        found[name] = count
    return nodes[1:], structs.replace(Budget(), **found)
