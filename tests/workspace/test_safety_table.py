"""The table of hostile cases is current, and no case contradicts itself about a level."""

from tests.workspace.people import for_everyone
from tests.workspace.safety_table import PAGE, cases, cells, contradictions, sentence, written
from tests.workspace.sandboxes import hostile


def test_the_page_on_safety_holds_the_table_of_cases():
    page = PAGE.read_text("utf-8")
    assert page == written(page), "run: python -m tests.workspace.safety_table"


def test_no_case_claims_two_things_of_one_level():
    assert contradictions() == []


def test_cells_say_what_runs_what_is_documented_and_what_is_neither():
    def body(place, level, opened):
        """Does nothing."""

    assert cells(for_everyone(body)) is None
    case = hostile("bubblewrap on a layer", "namespaces", documented=("none",))(body)
    assert cells(case) == ("holds", "holds", "not run", "documented")
    assert cells(hostile("none", moot=("landlock",))(body)) == ("not run", "not run", "n/a", "holds")


def test_a_case_has_one_row():
    told = [(subject, sentence(name)) for subject, name, _ in cases()]
    assert len(told) == len(set(told)) > 150
