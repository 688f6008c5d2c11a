"""The bounded reader's parsing of the worlds' lines and the index."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.lab.simulated.index import description, index_in
from stackmem.lab.simulated.lines import (
    Candidates,
    Changed,
    Excluded,
    Line,
    Next,
    Planned,
    StatedFact,
    StatedNeed,
    UnitFailed,
    UnitsDone,
    lines,
)

TABLE: list[tuple[str, list[Line]]] = [
    ("env.runner = ci/suite.sh", [StatedFact("env.runner", "ci/suite.sh", 0)]),
    ("  - rate.farm = 0.25 @ 47", [StatedFact("rate.farm", "0.25", 47)]),
    ("    12\trate.farm = 0.25", [StatedFact("rate.farm", "0.25", 0)]),
    ("12: rate.farm = 0.25  ", [StatedFact("rate.farm", "0.25", 0)]),
    ("not fix.drift = restart-node", [Excluded("fix.drift", "restart-node")]),
    ("changed gateway @ 12\nchanged env.mirror @ 3", [Changed("gateway", 12), Changed("env.mirror", 3)]),
    ("done unit 7\ndone units 1-12", [UnitsDone(7), UnitsDone(12)]),
    ("failed unit 3: wrong env.runner", [UnitFailed(3, "wrong env.runner")]),
    ("next unit 13 of 240", [Next(13, 240)]),
    ("candidate env.queue: redis in-process", [Candidates("env.queue", ("redis", "in-process"))]),
    (
        "unit 4: needs env.a <probe docs/a.md>, result.u2 <unit 2>; gives result.u4",
        [Planned(4, (StatedNeed("env.a", "probe docs/a.md"), StatedNeed("result.u2", "unit 2")), ("result.u4",))],
    ),
    ("unit 5: needs nothing", [Planned(5, (), ())]),
    ("unit 5: needs env.a <probe docs/a.md>, env.p", []),
    ("10:02:11 INFO  step edge/orders finished in 4.02 s", []),
    ("the value env.runner = pytest is old", []),
    ("Env.Runner = pytest", []),
    ("env.runner == pytest", []),
    ("`changed TOPIC @ 47`", []),
    ("rate.a = 1\nrate.b = 0.\n[... 900 of 1,500 characters left out ...]\n17\nrate.c = 3", [
        StatedFact("rate.a", "1", 0), StatedFact("rate.c", "3", 0),
    ]),
    ("rate.a = 1\nrate.b = 0.1\n[shortened: 400 of 900 characters; expand index 3 shows it whole]", [
        StatedFact("rate.a", "1", 0),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), TABLE, ids=[text[:40] for text, _ in TABLE])
def test_a_line_says_what_the_grammar_says(text: str, said: list[Line]) -> None:
    assert list(lines(text)) == said


@given(st.text(max_size=400))
def test_no_text_makes_it_raise(text: str) -> None:
    assert isinstance(lines(text), tuple)


@pytest.mark.parametrize(
    "text", ["a" * 400_000, " " * 400_000, "a.b = " * 60_000, "\n- " * 100_000, "\n[... x" * 60_000]
)
def test_hostile_lengths_cost_no_more_than_their_length(text: str) -> None:
    assert isinstance(lines(text), tuple)  # a quadratic pattern takes hours, more than a test's time limit


INDEX = """HEAP INDEX: 2 chunks, 1,234 of 10,000 characters used
- env | 34 chars | keys: runner, queue | created step 5 | rewritten step 9 | last read never
- field | 1,200 chars | keys: a, b … | source docs/map.md | created step 7 | last read step 8 | STALE: its source has \
changed since"""


def test_the_index_tells_what_chunks_hold_and_which_are_stale() -> None:
    index = index_in(f"words\n{INDEX}\nmore words", None)
    assert index is not None
    assert (index.used, index.budget, list(index.rows)) == (1_234, 10_000, ["env", "field"])
    env, field = index.rows.values()
    assert (env.items, env.is_complete, env.written, env.stale) == (frozenset({"runner", "queue"}), True, 9, False)
    assert (field.is_complete, field.source, field.stale) == (False, "docs/map.md", True)


def test_changes_of_the_index_add_to_it_and_take_away() -> None:
    added = "- rate | 40 chars | created step 9 | last read never"
    told = f"HEAP CHANGES: 40 of 10,000 characters used\n- env | freed\n{added}"
    index = index_in(told, index_in(INDEX, None))
    assert index is not None
    assert list(index.rows) == ["field", "rate"]


def test_a_text_without_an_index_leaves_the_one_before() -> None:
    before = index_in(INDEX, None)
    assert index_in("nothing of the kind", before) is before


@given(st.lists(st.from_regex(r"[a-z0-9][a-z0-9_-]{0,20}", fullmatch=True), min_size=1, max_size=40, unique=True))
def test_a_description_is_read_again_as_far_as_it_fits(items: list[str]) -> None:
    told = description(items, 200)
    assert len(told) <= 200
    head = "HEAP INDEX: 1 chunk, 9 of 10,000 characters used"
    index = index_in(f"{head}\n- a | 9 chars | {told} | created step 1 | last read never", None)
    assert index is not None
    row = index.rows["a"]
    assert row.items <= set(items)
    assert not row.is_complete or row.items == set(items)


@given(st.text(max_size=200))
def test_no_index_makes_it_raise(text: str) -> None:
    index_in(f"HEAP INDEX: {text}", None)
    index_in(f"{INDEX}\n- {text}", None)
