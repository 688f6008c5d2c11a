"""The documents match the code: the map matches the modules, and every path in a page exists."""

import re

from scripts import structure
from tests.house.sources import ROOT, files, modules

ROOMS = {path.relative_to(ROOT / "stackmem").parts[0] for path in modules()}


def dead_paths(text: str) -> list[str]:
    """Return module paths in a page's code spans that do not exist; a word in capitals stands for any name."""
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


def rows(title: str) -> list[str]:
    """Return the first column of the glossary's tables under a heading; each cell has one or more words."""
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    before, _, unused = page.partition("## Words that are not used")
    lines = (unused if title == "unused" else before).splitlines()
    return [line.split("|")[1].strip() for line in lines if line.startswith("| ") and "---" not in line][1:]


def class_names(room: str = "") -> dict[str, list[str]]:
    """Map class name to its words in lower case, for a room or the whole package."""
    places = [path for path in modules() if path.is_relative_to(ROOT / "stackmem" / room)]
    names = [name for path in places for name in structure.outline(path).classes]
    return {name: [word.lower() for word in re.findall(r"[A-Z][a-z0-9]*", name)] for name in names}


def test_a_class_of_the_core_is_called_by_a_word_of_the_glossary():
    terms = {word.lower() for row in rows("used") for word in re.findall(r"[A-Za-z]+", row)}

    def known(word: str) -> bool:
        return any(
            form in terms for form in (word, f"{word}s", f"{word}e", word.removesuffix("s"), word[:-1], word[:-2])
        )

    # Facts, effects and tools start with a subject or a verb; one word that the glossary explains is enough.
    unknown = [name for name, words in class_names("core").items() if name[0] != "_" and not any(map(known, words))]
    assert sorted(unknown) == sorted(UNEXPLAINED)


UNEXPLAINED = {
    "ConversationSearch": "the tool of `letta` and `handoff`",
    "Continued": "a part of ProgramStarted, which says from which run",
    "FirstLook": "the files that a small model sees before its first step",
    "Expand": "the tool of `expandable`",
    "LiveMoments": "the fact that a debugger reads when a program continues live",
    "PromptText": "a template that a strategy reads, by its name",
    "Pending": "a part of the state: the reply that is not settled yet",
    "Return": "the tool of `fold`",
    "Said": "a fact of a program; traces hold the name",
    "StackmemError": "the base of all exceptions",
    "Text": "plain text is what it says",
    "Thinking": "providers call it so",
    "Voice": "how a fact is put into words",
    "WebFetch": "the tool `web_fetch`; other agents call it so",
    "WebSearch": "the tool `web_search`; other agents call it so",
}
"""Classes of the core without a glossary word, and the reason."""


def test_no_class_has_a_word_that_the_glossary_leaves_out():
    unused = {word for row in rows("unused") for word in re.findall(r"[a-z]+", row)} - {"memory", "session", "store"}
    assert [name for name, words in class_names().items() if name[0] != "_" and unused & set(words)] == []
