"""The programs on the APL page exist exactly as printed and do what the page says."""

import re
from pathlib import Path

import pytest

from stackmem.languages.apl.template_language import _FILTERS, TemplateEnvironment
from tests.compliance.apl_stage import load_cases
from tests.docs.test_pages import DOCS, environ, shell
from tests.house.test_docs import FENCE, read
from tests.stage import mounted

PAGE = DOCS / "programs" / "apl.md"
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", read(PAGE), re.M | re.S))
NAMED = re.compile(r"# ([\w./-]+)\n")


def files(section: str) -> dict[str, str]:
    """Return the files that a section shows: blocks whose first line is a comment with a name."""
    found = [(NAMED.match(block["body"]), block["body"]) for block in FENCE.finditer(section)]
    return {name[1]: body for name, body in found if name}


def commands(section: str) -> list[tuple[str, str]]:
    """Return each command with its output."""
    blocks = [block["body"] for block in FENCE.finditer(section) if block["language"].strip() == "console"]
    return [(line, rest) for block in blocks for line, rest in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M)]


@mounted
@pytest.mark.parametrize("name", [name for name, section in SECTIONS.items() if commands(section)])
def test_the_programs_of_a_section_do_what_it_says(name, tmp_path, home):
    section = SECTIONS[name]
    folder = tmp_path / "program"
    for path, text in files(section).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    for number, (command, printed) in enumerate(commands(section)):
        place = Path(home) / str(number)
        place.mkdir()
        ran = shell(command, folder, environ(place))
        assert ran.stdout.replace(str(folder), "/home/me/program") == printed, ran.stderr
        assert ran.returncode == 0, ran.stderr


def test_every_finding_is_explained():
    titles = {line.split(" ", 2)[2] for _, case in load_cases() for line in case.lint or ()}
    codes = {f"`apl/{re.sub(r'[^a-z0-9]+', '-', title.lower()).strip('-')}`" for title in titles}
    assert sorted(code for code in codes if code not in SECTIONS["The linter"]) == []


def test_every_error_type_is_explained():
    kinds = {case.halt["type"] for _, case in load_cases() if case.halt and "type" in case.halt}
    assert sorted(kind for kind in kinds if f"`{kind}`" not in SECTIONS["Errors"]) == []


def test_every_filter_is_named():
    text = SECTIONS["Templates and conditions"]
    own = {"concatenated", "counted", "or_none", "own_result", "d"}
    assert sorted(set(TemplateEnvironment().filters) - own - set(re.findall(r"\w+", text))) == []
    assert set(_FILTERS) <= set(TemplateEnvironment().filters)
