"""The documents name what is there: the map is as the modules say, and a path in a page leads to a file."""

import re

from scripts import structure
from tests.house.sources import ROOT, files, modules

ROOMS = {path.relative_to(ROOT / "stackmem").parts[0] for path in modules()}


def dead_paths(text: str) -> list[str]:
    """The paths of modules in a page's code spans that lead nowhere; a word in capitals stands for any name."""
    named = re.findall(r"`(?:stackmem/)?((?:[a-z_]+/)+[A-Za-z_]+\.py)`", text)
    ours = [name for name in named if name.split("/")[0] in ROOMS and not re.search(r"[A-Z]", name)]
    return [name for name in ours if not (ROOT / "stackmem" / name).is_file() and not (ROOT / name).is_file()]


def test_the_map_is_as_the_modules_say():
    kept = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")
    assert kept == structure.module_map(), "run: python scripts/structure.py --map > docs/map.md"


def test_every_path_of_a_module_in_the_docs_leads_to_a_file():
    pages = [path for path in files("*.md") if path.parent.name != "decisions" and path.name != "CHANGELOG.md"]
    assert {path.name: dead for path in pages if (dead := dead_paths(path.read_text(encoding="utf-8")))} == {}


def test_a_path_that_leads_nowhere_is_seen():
    assert dead_paths("`core/machine.py` `memory/NAME.py` `core/gone.py` `stackmem/run/gone.py` `elsewhere/x.py`") == [
        "core/gone.py", "run/gone.py",
    ]  # fmt: skip
