"""Hostile sources: each is read, or rejected with its line, in linear time."""

from __future__ import annotations

import pytest

from stackmem.core.errors import Halted, UsageError
from stackmem.languages.language import Finding, read_with
from stackmem.languages.operations import Source
from stackmem.languages.playbook.errors import PlaybookError
from stackmem.languages.playbook.language import LANGUAGE
from stackmem.languages.playbook.reader import read_program
from stackmem.languages.playbook.reply import read_reply
from tests.conftest import CAMPAIGN
from tests.growth import TIMES, stays_linear

from .stage import launch

SIZE = 100_000 if CAMPAIGN else 30_000
HEAD = "# A\nsays\n\n## P\nsays\n\n### Steps\n"
QUE = f"{HEAD}- 01:QUE "


def sources(size: int) -> dict[str, str]:
    def much(text: str) -> str:
        return (text * (size // len(text) + 1))[:size]

    return {
        "calls in calls": QUE + much("P("),
        "calls in calls with values": QUE + much("P(1,"),
        "long calls, 52 deep": QUE + ("P(" + "1," * 950) * 52,
        "lists in calls": QUE + much("P(["),
        "texts without an end": QUE + much("P('"),
        "calls side by side": QUE + much("P(1) "),
        "variables": QUE + "".join(f"$x{index} " for index in range(size // 8)),
        "a variable": QUE + "$" + much("x"),
        "blanks": QUE + "$x" + much(" ") + "y",
        "paragraphs": "# A\n## P\n" + much("x\n\n"),
        "steps": HEAD + much("- EXE\n"),
        "a number of a thousand parts": f"{HEAD}- {'1.' * 1_000}1:EXE",
        "fences without an end": "# A\n" + much("```python\n"),
        "agents": "".join(f"# A{index}\n## public: P\n### Steps\n- QUE A{index}.Q()\n" for index in range(size // 45)),
        "blank lines": much("\n"),
        "quotes": much("> "),
        "lists": much("- "),
        "brackets": QUE + much("["),
        "stars": QUE + much("*a "),
        "back-ticks": QUE + much("`a"),
        "links": "# A\n" + much("[a]: b\n"),
        "comments without an end": "# A\n<!--" + much("x\n"),
        "a heading": "# A\n## " + much("P("),
        "blanks in a heading": f"# A\n## a{much(' ')}(",
        "blanks before a name": f"# A\n## public{much(' ')}x(",
        "blanks in a type": f"# A\n## P($a:a{much(' ')}x()\n",
        "parameters": "# A\n## P(" + ",".join(f"$a{index}" for index in range(size // 60)) + ")\n### Steps\n- RET",
        "front matter without an end": "---\n" + much("x\n"),
        "NUL": much("\0"),
        "other ends of lines": HEAD.replace("\n", "\r") + "- EXE\r\n- RET\u2028- EXE\x85- EXE",
        "half a character": HEAD + "- RET \ud800",
        "a mark of byte order in the middle": HEAD + "\ufeff- RET",
        "UTF-16": (HEAD + "- RET").encode("utf-16").decode("latin-1"),
    }


SCALED = {size: sources(size) for size in (SIZE // TIMES, SIZE)}


def linted_and_outlined(name: str, size: int) -> tuple[tuple[Finding, ...], Halted | None]:
    """Return the lint findings, and the fault that the outline ends with, if any."""
    text = SCALED[size][name]
    found: tuple[Finding, ...] = read_with(LANGUAGE.lint("main.pb", text), lambda _: Source(""))
    try:
        read_with(LANGUAGE.outline(launch(text)), lambda _: Source(""))
    except Halted as fault:
        return found, fault
    except UsageError:
        assert name == "parameters"  # missing inputs
    return found, None


@pytest.mark.parametrize("name", SCALED[SIZE])
def test_a_hostile_source_is_linted_and_outlined_or_refused_with_its_line(name: str) -> None:
    text = SCALED[SIZE][name]
    came_of = {}

    def read(size: int) -> None:
        came_of[size] = linted_and_outlined(name, size)

    assert stays_linear(read, SIZE)
    found, halted = came_of[SIZE]
    assert all(0 < each.line <= len(text) + 1 and len(each.message) < 2_000 for each in found)
    errors = [each for each in found if each.severity == "error"]
    if halted is not None:
        assert f"At: main.pb:{errors[0].line}" in halted.report
        assert len(halted.report) < 2_000


@pytest.mark.parametrize(
    ("heading", "name", "params", "returns", "public"),
    [
        ("P", "P", [], "", False),
        ("public: say it ($a, $b:int = 1) -> list[str]", "SayIt", ["a", "b"], "list[str]", True),
        ("P->Optional(int)", "P", [], "Optional(int)", False),
        ("P($a=')') -> x", "P", ["a"], "x", False),
        ("P($a: list of str ,$b)", "P", ["a", "b"], "", False),
    ],
)
def test_a_heading_is_read(heading: str, name: str, params: list[str], returns: str, public: bool) -> None:
    book = read_program(f"# A\n## {heading}\n### Steps\n- RET\n").agents[0].playbooks[0]
    assert (book.name, [each.name for each in book.params], book.returns, book.public) == (
        name,
        params,
        returns,
        public,
    )


@pytest.mark.parametrize(
    "heading", ["P(", "P)", "P() x", "P() ->", "P ->", "(a)", "-> x", "P-Q", "P(a) x -> y", "public:"]
)
def test_what_is_no_heading_is_refused(heading: str) -> None:
    with pytest.raises(PlaybookError, match="a playbook is headed"):
        read_program(f"# A\n## {heading}\n")


def test_a_call_that_stands_in_a_text_is_none_and_one_in_an_argument_is() -> None:
    def told(step: str) -> list[str]:
        text = f"# A\n## P($a)\n### Steps\n- 01:QUE {step}\n- 02:YLD call\n- 03:RET\n"
        return [each.message for each in read_with(LANGUAGE.lint("main.pb", text), lambda _: Source(""))]

    assert told('Say("call Nobody(1)")') == []
    assert [message[:23] for message in told("P(Nobody(1))")] == ["unknown playbook Nobody"]
    assert told("P(P(1, 2))") == ["P($a) takes 1 arguments, 2 are given"]
    assert told("P(what the user asked (see Nobody))") == []


@pytest.mark.parametrize(
    "begins", ["`$x", "`$x:a", "`P", "Step[", "`Step[P", "`Var[$a", "`Var[$a:b", "`Return[", "`yld"]
)
def test_blanks_in_a_reply_take_time_by_their_number_alone(begins: str) -> None:
    assert read_reply(f"{begins}{' ' * SIZE}x").items
    assert stays_linear(lambda size: read_reply(f"{begins}{' ' * size}x"), SIZE)
