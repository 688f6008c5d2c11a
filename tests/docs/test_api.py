"""The Python API page lists every public name with its docstring."""

import re

import stackmem
from scripts import api
from tests.docs.test_pages import DOCS, read


def test_every_public_name_has_its_place_on_the_page():
    headings = re.findall(r"^### (\w+)$", read(DOCS / "api.md"), re.M)
    assert sorted(headings) == sorted(stackmem.__all__)


def test_arguments_errors_fields_and_methods_are_listed():
    page = api.page()
    assert "solve(\n    task: str | os.PathLike[str]" in page
    assert "- `observe`: Receives every fact" in page
    assert "- `UsageError`: The run does not exist." in page
    assert "| `max_usd` |" not in page  # a setting is not a field
    assert "| `cost_usd` | `float \\| None` | required |" in page
    assert "- `records() -> RunReader`: Return a reader of the records" in page
    assert "``" not in re.sub(r"^```.*$", "", page, flags=re.M)
