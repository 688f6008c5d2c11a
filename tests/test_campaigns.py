"""A campaign resumes at the point where it was stopped."""

from pathlib import Path

import msgspec
import pytest

from tests import campaigns
from tests.campaigns import Campaign, Progress


def campaign(place: Path, most: int = 5) -> Campaign:
    return Campaign("one thing", most, place, saved_every=1, kept=True)


def test_one_that_was_killed_goes_on_behind_the_last_piece_that_was_done(tmp_path: Path):
    for number in campaign(tmp_path):
        if number == 3:
            break
    assert list(campaign(tmp_path)) == [3, 4]
    assert list(campaign(tmp_path)) == []


def test_one_that_failed_does_that_piece_again(tmp_path: Path):
    pieces = iter(campaign(tmp_path))
    assert [next(pieces), next(pieces), next(pieces)] == [0, 1, 2]
    with pytest.raises(ZeroDivisionError):
        pieces.throw(ZeroDivisionError)  # type: ignore[attr-defined]
    assert next(iter(campaign(tmp_path))) == 2


def test_a_changed_program_restarts_the_campaign(tmp_path: Path):
    file = tmp_path / "one-thing.json"
    file.write_bytes(msgspec.json.encode(Progress("one thing", "another", 4, 5)))
    assert list(campaign(tmp_path)) == [0, 1, 2, 3, 4]


def test_a_share_of_the_time_ends_it_with_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STACKMEM_CAMPAIGN_SECONDS", "0")
    with pytest.raises(pytest.skip.Exception, match="1 of 5 are done"):
        list(campaign(tmp_path))
    with pytest.raises(pytest.skip.Exception, match="2 of 5 are done"):
        list(campaign(tmp_path))


def test_in_ci_all_of_it_is_done_and_nothing_kept(tmp_path: Path):
    assert list(Campaign("one thing", 3, tmp_path / "none", kept=False)) == [0, 1, 2]
    assert not (tmp_path / "none").exists()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    one = campaign(tmp_path)
    one.progress.counts = {"states": 1_234}
    list(one)
    monkeypatch.setattr(campaigns, "PLACE", tmp_path)
    return one


def test_the_table_tells_how_far_each_has_come(run: Campaign):
    (line,) = (line for line in campaigns.table().splitlines() if line.startswith("| one thing |"))
    assert run.progress.program in line
    assert line.endswith("| 5 | 5 | 0 s | 1,234 states |")


def test_in_a_document_the_lines_of_other_machines_stay(run: Campaign):
    others = "| zzz | abc | 2026-01-01 | 1 | 2 | 3 s |  |"
    empty = f"before\n{campaigns.BEGIN}\n{campaigns.END}\nafter\n"
    once = campaigns.with_table(empty)
    older = once.replace("1,234 states", "9 states").replace(campaigns.END, f"{others}\n{campaigns.END}")
    again = campaigns.with_table(older)
    assert again == once.replace(campaigns.END, f"{others}\n{campaigns.END}")
    assert campaigns.with_table(again) == again
    assert again.startswith("before\n")
    assert again.endswith("\nafter\n")


def test_a_document_without_marks_is_refused():
    with pytest.raises(ValueError, match="has no"):
        campaigns.with_table("no marks")
