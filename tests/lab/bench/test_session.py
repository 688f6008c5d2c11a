"""Conversation trials: a simulated user makes a world's requests, under each kind of session."""

from pathlib import Path

import msgspec
import pytest
from msgspec import UNSET

from stackmem import UsageError, replay
from stackmem.core.facts import FramePushed, RunStarted
from stackmem.core.person_facts import PersonSaid
from stackmem.core.requests import AskPermission, AskUser
from stackmem.lab.bench.bench import Means, run_bench
from stackmem.lab.bench.plan import BenchPlan, Variant
from stackmem.lab.bench.planning import make_plan
from stackmem.lab.bench.results import read_results
from stackmem.lab.bench.session import Requester
from stackmem.lab.bench.suite import SuiteRequest
from stackmem.lab.worlds import WORLDS
from stackmem.run.ports import Left
from tests.stage import events

REQUESTS = 6
SETTINGS = {"isolation": "memory", "fsync": "none", "window_tokens": 2_000_000}
NEW = "full, new sessions"


def planned(**more) -> BenchPlan:
    given = {
        "worlds": ("workday",), "strategies": ("stackheap", "full"), "models": ("sim/bounded-reader",),
        "variants": (Variant(NEW, "full", session="new"),), "horizons": (100,), "settings": SETTINGS,
        "session": "frame", "pause_seconds": 60.0,
    } | more  # fmt: skip
    return make_plan(SuiteRequest(**given), Path.cwd(), {})


@pytest.fixture(scope="module")
def day(tmp_path_factory) -> tuple[Path, dict[str, dict]]:
    """Run a short day under each kind of session; return its rows by strategy."""
    folder = tmp_path_factory.mktemp("day") / "bench"
    run_bench(planned(), folder, Means(1))
    return folder, {row["strategy"]: row for row in read_results(folder)}


def test_every_kind_of_session_does_the_whole_day(day):
    _, rows = day
    assert {name: (row["outcome"], row["session"]) for name, row in rows.items()} == {
        "stackheap": ("solved", "frame"), "full": ("solved", "frame"), NEW: ("solved", "new"),
    }  # fmt: skip


def test_replay_verifies_the_day(day):
    folder, rows = day
    for row in rows.values():
        verified = replay(folder / row["run"])
        assert verified.prompts > 0


def test_each_request_is_a_frame_where_there_are_frames_and_a_session_where_each_has_its_own(day):
    folder, rows = day
    runs = {name: sorted((folder / row["run"]).parent.iterdir()) for name, row in rows.items()}
    assert {name: len(found) for name, found in runs.items()} == {"stackheap": 1, "full": 1, NEW: REQUESTS}
    pushed = [event for event in events(runs["stackheap"][0], FramePushed) if isinstance(event.request, str)]
    assert len(pushed) == len(events(runs["full"][0], PersonSaid)) == REQUESTS
    assert events(runs["full"][0], FramePushed) == []
    assert [len(events(run, PersonSaid)) for run in runs[NEW]] == [1] * REQUESTS


def test_known_work_appears_with_the_instructions_without_units(day):
    folder, rows = day
    for row in rows.values():
        (start,) = events(folder / row["run"], RunStarted)
        assert "./work plan A-B" in start.instructions
        assert "Do units" not in start.instructions


def test_a_session_looks_up_only_facts_it_no_longer_has(day):
    _, rows = day
    assert rows["stackheap"]["repeated_looks"] == 0
    assert rows["full"]["repeated_looks"] == 0
    looks = msgspec.json.decode(rows[NEW]["requests"])["repeated_looks"]
    assert looks[0] == 0
    assert all(looks[1:])


def test_the_requests_add_up_to_the_trial(day):
    _, rows = day
    for row in rows.values():
        told = msgspec.json.decode(row["requests"])
        assert {len(one) for one in told.values()} == {REQUESTS}
        assert sum(told["steps"]) == row["steps"]
        assert sum(told["repeated_looks"]) == row["repeated_looks"]
        for column, kind in (("bill_read", "cache_read"), ("bill_write_5m", "cache_write_5m")):
            assert sum(told[kind]) == row[column]
        assert row["not_sent"] == 0


def test_facts_out_of_sight_are_reported_for_a_single_session(day):
    _, rows = day
    assert rows["stackheap"]["facts_used"] > 0
    assert rows[NEW]["facts_used"] is None


def test_a_pause_that_outlives_the_cache_makes_the_history_be_written_again(tmp_path, day):
    _, rows = day
    run_bench(planned(strategies=("full",), variants=(), pause_seconds=400.0), tmp_path / "bench", Means(1))
    (row,) = read_results(tmp_path / "bench")
    assert row["fingerprint"] == rows["full"]["fingerprint"]
    assert row["bill_write_5m"] > 2 * rows["full"]["bill_write_5m"]
    assert row["bill_read"] + row["bill_write_5m"] == rows["full"]["bill_read"] + rows["full"]["bill_write_5m"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"worlds": ("ledger",)}, "ledger has no separate requests"),
        ({"worlds": ("all",)}, "env_trap has no separate requests"),
        ({"settings": {"isolation": "none"}}, "needs --isolation memory"),
        ({"pause_seconds": -1.0}, "invalid pause of -1"),
        ({"pause_seconds": float("nan")}, "invalid pause of nan"),
    ],
)
def test_a_session_that_cannot_be_is_refused(more: dict, said: str):
    with pytest.raises(UsageError, match=said):
        planned(**more)


def test_all_worlds_are_those_that_are_one_task():
    plan = planned(worlds=("all", "workday"), session=None, variants=())
    assert len(plan.subjects) == len(WORLDS)
    assert [one.family for one in planned(worlds=("all",), session=None, variants=()).subjects] == [
        one.family for one in plan.subjects[:-1]
    ]


def test_the_person_leaves_every_decision_to_the_agent_and_allows_nothing():
    person = Requester(["one", "two"])
    assert [person.request(), person.request()] == ["one", "two"]
    with pytest.raises(Left):
        person.request()
    assert person.answer(AskUser("Which?")) == "Decide that yourself; I know no more than I have said."
    assert not person.decide(AskPermission("run_command", "ls")).allow


def test_files_kept_between_sessions_spare_later_sessions_the_search(tmp_path):
    """``heap = "keep"`` keeps the memory files of a session for the next session of the trial, and for no other."""
    variants = (
        Variant("lost", "memory_files", session="new"),
        Variant("kept", "memory_files", session="new", settings={"heap": "keep"}),
    )
    run_bench(planned(strategies=(), variants=variants), tmp_path / "bench", Means(1))
    rows = {row["strategy"]: row for row in read_results(tmp_path / "bench")}
    assert {row["outcome"] for row in rows.values()} == {"solved"}
    runs = {name: sorted((tmp_path / "bench" / row["run"]).parent.iterdir()) for name, row in rows.items()}
    first_files = {name: [_kept_files(run) for run in found] for name, found in runs.items()}
    assert first_files["lost"] == [0] * REQUESTS
    first, *later = sorted(first_files["kept"])  # names of runs that began in the same second are in no order
    assert first == 0
    assert all(later)
    assert rows["kept"]["repeated_looks"] < rows["lost"]["repeated_looks"]
    assert rows["kept"]["bill_usd"] < rows["lost"]["bill_usd"]


def _kept_files(run: Path) -> int:
    (start,) = events(run, RunStarted)
    return 0 if start.heap is UNSET else len(start.heap.files)
