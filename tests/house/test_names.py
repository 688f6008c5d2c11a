"""Names say what a value is: the number of participles and adverbs among them can only fall."""

import ast
from pathlib import Path

from scripts.names import counts, definitions, limits, public, public_names

PUBLIC = {
    "Box.left": "the left edge; the other fields are right, top and bottom",
    "TemplateEnvironment.call_binop(left)": "the left operand, in the signature of Jinja",
    "apply_infix(left)": "the left operand",
    "equal(left)": "the left operand",
    "spent": "stackmem.spent() of Python programs, which is documented",
    "strictly_equal(left)": "the left operand",
}


def test_no_name_becomes_more_frequent() -> None:
    """Choose a noun for the new value; ``python scripts/names.py --places NAME`` prints the lines."""
    allowed = limits()
    numbers = {name: by.total() for name, by in counts().items()}
    more = {name: f"{number}, allowed {allowed.get(name, 0)}" for name, number in numbers.items()
            if number > allowed.get(name, 0)}  # fmt: skip
    assert more == {}


def test_no_public_name_is_vague() -> None:
    """Name the value: ``python scripts/names.py --public`` prints the lines. A new exception needs a reason here."""
    assert {name: place for name, place in public().items() if name not in PUBLIC} == {}
    assert PUBLIC.keys() <= public().keys()


def test_each_kind_of_public_definition_is_found() -> None:
    source = """
MISSED = 1
_KEPT = 2

class Row:
    why: str
    _why: str

    def __init__(self, given, *, named): self.held, self._held = given, named
    def shown(self): ...
    def _said(self, told): ...

class _Hidden:
    why: str

def find(known): ...
"""
    assert [name for _, name in public_names(ast.parse(source))] == [
        "MISSED", "Row.why", "Row.held", "Row.__init__(given)", "Row.__init__(named)", "Row.shown", "find(known)"
    ]  # fmt: skip


def test_each_kind_of_definition_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "LEAST_TASKS = 1\n\n\nclass Row:\n    why: str = ''\n\n\ndef _found(told):\n"
        "    left, match = told\n    return [one for one in left], told.asked, Row(why='')\n"
    )
    assert sorted(definitions(path)) == [
        (1, "least_tasks"),
        (5, "why"),
        (8, "found"),
        (8, "told"),
        (9, "left"),
        (10, "one"),
    ]
