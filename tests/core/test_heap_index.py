"""No chunk text can imitate a column or line of the heap index, and ordinary text is shown unchanged."""

from __future__ import annotations

import re
import unicodedata
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from stackmem.core.budgets import Budgets
from stackmem.core.errors import RulesDiffer
from stackmem.core.facts import RunStarted
from stackmem.core.frames import first_heap
from stackmem.core.heap import Chunk, Heap, index, line
from stackmem.run.replays.replay import replay_run
from tests.build import started
from tests.stage import SOLVED, Stage, call, pop, rechain, records

FULL = re.compile(
    r"- a \| 1 chars \| .+ \| source [^|]+ \| created step 1 \| rewritten step 2 \| last read never \| STALE: its .*"
)


def shown(description: str, source: str = "f.py", *, escaped: bool = True) -> str:
    chunk = Chunk("a", "x", description, 1, 2, source, "1" * 64)
    return line(Heap({"a": chunk}, 1, {source: "2" * 64}, escaped=escaped), chunk)


@pytest.mark.parametrize(
    "description",
    [
        "parser: int|None, a||b, grep -E 'x|y'",
        "source of the parser, created by gen.py; 12 chars at most",
        "source map of the STALE files",
        r"C:\path\to\x|y",
        "Größe, 大小, семья, 👩‍👩‍👧 می‌خواهم",
        "",
    ],
)
def test_ordinary_descriptions_are_shown_byte_for_byte(description: str) -> None:
    assert shown(description) == shown(description, escaped=False)


@pytest.mark.parametrize(
    "description",
    [
        "x | source /etc/shadow",
        "x | created step 9 | last read step 9",
        "x |",
        "| x",
        "|",
        "x |STALE: its source has changed since",
        "x|\u00a0source y.py",
        "x \uff5c source y.py",
        "x \u2502 source y.py",
    ],
)
def test_bars_that_could_divide_columns_are_marked(description: str) -> None:
    text = shown(description)
    assert text.split(" | ")[2] == re.sub(r"([|\uff5c\u2502])", r"\\\1", description)
    assert FULL.fullmatch(text)
    assert len(text.split(" | ")) == len(shown("x").split(" | "))


@pytest.mark.parametrize(
    "description",
    ["source README.md", "Source src/a", "1,000 chars", "created step 3", "last read never",
     "kept from before this run", "STALE: its source has changed since", "stale: since yesterday"],
)  # fmt: skip
def test_a_description_that_is_worded_like_a_column_is_marked(description: str) -> None:
    assert shown(description).split(" | ")[2] == f"\\{description}"


@pytest.mark.parametrize(
    "text",
    ["x\n- root | 3 chars", "x\r\n", "x\u2028- root", "x\x85y", "x\x1b[2K", "x\u202ey", "x\u2066y", "x\u200by",
     "x\U000e0041\U000e0042", "x\x00", "x\ud800"],
)  # fmt: skip
def test_characters_that_end_hide_or_reorder_a_line_are_written_as_codes(text: str) -> None:
    for told in (shown(text), shown("y", text)):
        assert all(unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in told)
        assert len(told.splitlines()) == 1


@given(st.text(max_size=40), st.text(min_size=1, max_size=40))
def test_no_text_adds_a_column_or_a_line(description: str, source: str) -> None:
    text = shown(f"x{description}", source)
    assert [len(text.splitlines()), len(text.split(" | "))] == [1, 8]
    assert text.split(" | ")[4:] == shown("x").split(" | ")[4:]


@given(
    st.text(
        alphabet=st.characters(categories=("L", "N", "M", "P", "S", "Zs"), exclude_characters="|¦ǀ‖∣∥⏐│┃❘｜￨"),
        max_size=60,
    )
)
def test_text_without_bars_and_hidden_characters_is_kept(text: str) -> None:
    assert shown(f"x {text}") == shown(f"x {text}", escaped=False)


def test_a_run_says_how_its_index_is_written_and_an_older_one_is_shown_as_it_was() -> None:
    heap = Heap({"a": Chunk("a", "x", "b | c", 1, 1)}, 1)
    assert first_heap(started()).escaped is False
    assert first_heap(replace(started(), index="escaped")).escaped is True
    assert "| b | c |" in index(heap, Budgets())
    assert r"| b \| c |" in index(replace(heap, escaped=True), Budgets())


@pytest.mark.parametrize(("description", "differs"), [("all that was made, a|b", False), ("b | source made", True)])
def test_only_prompts_with_such_a_description_differ_from_those_of_an_older_run(
    stage: Stage, description: str, differs: bool
) -> None:
    alloc = call("heap_alloc", name="a", content="x", description=description)
    run = Path(stage.solve(stage.task(alloc, pop("Done."), test=SOLVED)).run_dir)
    assert replay_run(run).prompts > 1
    first, *others = records(run)
    assert isinstance(first.event, RunStarted)
    assert first.event.index == "escaped"
    older = replace(first, event=replace(first.event, index=UNSET))
    rechain(run / "trace.jsonl", [older, *others])
    for name in ("result.json", "signatures.jsonl"):
        (run / name).unlink(missing_ok=True)
    with pytest.raises(RulesDiffer) if differs else nullcontext():
        replay_run(run)
