"""``stackmem lint`` for workflows: a source is read with what it loads, and never run."""

from __future__ import annotations

from stackmem.core.requests import LoadSource
from stackmem.languages.language import Finding, Reading
from stackmem.languages.operations import Source

from .analysis import Analysis, Fault, tasks_of
from .errors import Places, SexpSyntaxError
from .nodes import Atom, Form, Name, Node, bound_names
from .reader import read
from .settings import split_budget

_MOST_FILES = 50


def lint(path: str, text: str) -> Reading:
    """The findings, as a tuple of ``Finding``."""
    try:
        nodes, _ = split_budget(read(text, path))
    except SexpSyntaxError as error:
        return (Finding(path, error.line, error.column, "error", "sexp/syntax", error.error_details),)
    known, faults = yield from _loaded(path, nodes)
    analysis = Analysis(nodes, frozenset(known))
    places = Places(text)
    return tuple(_finding(path, places.of(fault.at), fault) for fault in (*faults, *analysis.faults))


def inputs_of(path: str, nodes: list[Node]) -> Reading:
    """The names that the program uses and does not bind, as a set; what it loads is read."""
    known, _ = yield from _loaded(path, nodes)
    return Analysis(nodes, frozenset(known)).free


def _loaded(path: str, nodes: list[Node]) -> Reading:
    """``(names that the libraries bind, faults)``."""
    known: set[str] = set()
    faults: list[Fault] = []
    seen: set[str] = set()
    waiting = [(path, load, name) for load, name in _loads(nodes)]
    while waiting and len(seen) < _MOST_FILES:
        beside, load, name = waiting.pop()
        source: Source = yield LoadSource(name, beside)
        if source.failed:
            if beside == path:
                faults.append(Fault(load.at, "error", "unreadable library", f"'{name[:80]}': {source.failed}"))
            continue
        if source.path in seen:
            continue
        seen.add(source.path)
        try:
            inner = read(source.text, source.path)
        except SexpSyntaxError as error:
            faults.append(Fault(load.at, "error", "unreadable library", f"'{name[:80]}': {error.error_details}"))
            continue
        known |= bound_names(inner) | {task for task, _, _ in tasks_of(inner)}
        waiting += [(source.path, form, named) for form, named in _loads(inner)]
    return known, faults


def _loads(nodes: list[Node]) -> list[tuple[Form, str]]:
    """Every ``(load "…")`` with a path that is written there."""
    found: list[tuple[Form, str]] = []
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Form):
            continue
        waiting += node.items
        if len(node.items) == 2 and isinstance(node.items[0], Name) and node.items[0].name == "load":
            named = node.items[1]
            if isinstance(named, Atom) and isinstance(named.value, str):
                found.append((node, named.value))
    return found


def _finding(path: str, place: tuple[int, int], fault: Fault) -> Finding:
    severity = "error" if fault.severity == "error" else "warning"
    code = "sexp/" + fault.title.replace(" ", "-")
    return Finding(path, *place, severity, code, fault.message)  # type: ignore[arg-type]
