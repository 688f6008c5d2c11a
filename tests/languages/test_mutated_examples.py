"""Changes a few characters, words or lines of the example programs: each result is read, or rejected with a position.

Lint and run agree on them: an error that ends every run before its first effect is also a lint error.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.errors import Halted, UsageError
from stackmem.core.program_facts import Note, StepEntered
from stackmem.core.requests import LoadSource
from stackmem.languages.language import INTERPRETERS, Finding, Language, Launch, language_of, read_with
from stackmem.languages.running.opening import open_language
from stackmem.languages.running.prepare import source_reader, with_config
from stackmem.languages.running.sources import Loader

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = sorted(path for path in EXAMPLES.rglob("*.*") if language_of(path.name))
PIECES = (
    "(", ")", "[", "]", "{", "}", "{{", "}}", "{%", "'", '"', "`", "```", "```python\n", "---\n", ": ", "- ", "# ",
    "## ", "### ", "|", "&a ", "*a ", "!!str ", "? ", "<<: ", "\t", "\n", "\r", "\0", "\u2028", "é", "~", ".nan",
    "1e999", "9" * 25, "@playbook", "$x", "T1:BGN", "JMP 99", "nil", "'(", "(lambda (x) ", "(defatom ", "a..b",
    "ForEach", ",", "\\", "",
)  # fmt: skip
NEEDS_INPUT = ("Missing Required Input", "Missing Input")
PLACE = re.compile(r":\d+")


@st.composite
def mutated(draw: st.DrawFn, language: str) -> tuple[Path, str]:
    """Return a program's path, and its text with one to four changes."""
    path = draw(st.sampled_from([path for path in PROGRAMS if language_of(path.name) == language]))
    text = path.read_text("utf-8")
    for _ in range(draw(st.integers(1, 4))):
        lines = text.splitlines(keepends=True) or [""]
        one, other = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        match draw(
            st.sampled_from(["leave out", "repeat", "exchange", "indent", "cut", "insert", "insert", "replace"])
        ):
            case "leave out":
                del lines[one]
            case "repeat":
                lines.insert(one, lines[other])
            case "exchange":
                lines[one], lines[other] = lines[other], lines[one]
            case "indent":
                lines[one] = draw(st.sampled_from(["", " ", "  ", "\t"])) + lines[one].lstrip(" ")
            case "cut":
                lines[one:] = [lines[one][: draw(st.integers(0, len(lines[one])))]]
            case how:
                at = draw(st.integers(0, len(lines[one])))
                end = at + (draw(st.integers(1, 6)) if how == "replace" else 0)
                lines[one] = lines[one][:at] + draw(st.sampled_from(PIECES)) + lines[one][end:]
        text = "".join(lines)
    return path, text


def linted(language: Language, path: Path, text: str) -> tuple[Finding, ...]:
    own = {"config": str(with_config({}, language, path.parent, path).get("config", ""))} if language.config else {}
    found: tuple[Finding, ...] = read_with(language.lint(str(path), text, **own), source_reader(_loader(path)))
    return found


def _loader(path: Path) -> Loader:
    return Loader(path, (path.parent,))


def ended_before_effects(language: Language, path: Path, text: str) -> Halted | UsageError | None:
    """Return what ends the run before its first effect other than loading a source, if anything does."""
    options: dict[str, Any] = with_config({"checked": True}, language, path.parent, path)
    folder, load = str(path.parent), source_reader(_loader(path))
    program = language.start(Launch(str(path), text, {}, folder, folder, options))
    sent: Any = None
    try:
        while True:
            asked = program.send(sent)
            if isinstance(asked, StepEntered) or not isinstance(asked, LoadSource | Note):
                return None
            sent = load(asked) if isinstance(asked, LoadSource) else None
    except StopIteration:
        return None
    except (Halted, UsageError) as error:
        return error
    finally:
        program.close()


@pytest.mark.parametrize("language", sorted(set(INTERPRETERS.values())))
@given(data=st.data())
def test_a_changed_program_is_read_or_refused_with_its_place_and_lint_knows(language: str, data: st.DataObject) -> None:
    path, text = data.draw(mutated(language))
    opened = open_language(language)
    found = linted(opened, path, text)
    assert all(each.line >= 1 and each.column >= 1 for each in found)
    ended = ended_before_effects(opened, path, text)
    if not isinstance(ended, Halted) or ended.kind in NEEDS_INPUT or path.name.endswith(".tool.apl"):
        return
    assert PLACE.search(ended.report), ended.report
    assert any(each.severity == "error" for each in found), ended.report
