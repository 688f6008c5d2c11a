"""One evaluation: the forms of the language, a host that knows tasks and tools, and a budget."""

from __future__ import annotations

from typing import Any

from .asks import Host
from .atoms import defatom_of
from .budget import Budget
from .environment import SexpEnvironment
from .forms import ADDED_FORMS, DOCUMENT_FORMS
from .invoking import Invoking
from .loops import LOOPS
from .machine import Doing, Machine
from .nodes import Node, bound_names
from .outside_forms import OUTSIDE_ADDED, OUTSIDE_FORMS
from .primitives import ADDED, DOCUMENT
from .values import contained, entered

OWN_FORMS = frozenset({*DOCUMENT_FORMS, *LOOPS, *OUTSIDE_FORMS, "defatom"})
"""The document's special forms; nothing overrides them."""
ADDITIONS = frozenset({*ADDED_FORMS, *OUTSIDE_ADDED, *ADDED})
"""What yields to a variable, a task or a tool of its name."""
OPERATORS = OWN_FORMS | ADDITIONS | frozenset(DOCUMENT)


class Evaluation:
    """Evaluates sources in their order, with one count of steps."""

    def __init__(self, host: Host, budget: Budget) -> None:
        invoking = Invoking(host)
        forms = {**DOCUMENT_FORMS, **LOOPS, **OUTSIDE_FORMS, "defatom": defatom_of(host)}
        added = {**ADDED_FORMS, **OUTSIDE_ADDED}
        self.machine = Machine(forms, added, budget, invoking.knows, invoking.invoke, invoking.apply_named)

    def run(self, nodes: list[Node], env: SexpEnvironment) -> Doing:
        """The last expression's value; yields asks.

        Raises:
            SexpEvaluationError: An expression cannot be evaluated.
            TaskError: A budget is spent, or a collaborator says so.

        """
        names = bound_names(nodes)
        scope: SexpEnvironment | None = env
        while scope is not None:
            for name, given in scope.bindings.items():
                scope.bindings[name] = entered(given, self.machine.meter.budget)
            names |= scope.bindings.keys()
            scope = scope.parent
        self.machine.bind_names(names)
        value: Any = []
        for node in nodes:
            value = yield from self.machine.evaluate(node, env)
        list(contained(value, self.machine.meter.budget))
        return value
