"""A study of recordings as one citable file, reproducible from the same recordings."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from stackmem.core.errors import TraceError, UsageError
from stackmem.lab.bench.evidence import RecordingEntry, study
from stackmem.lab.comparison.evidence_archive import differences, read_archive, refuse_unlike, write_archive
from tests.formats.foreign_runs import swe_agent

from .test_archive import content, packed

WORDS = ("stackmem", "evidence", "recordings", "--archive", "study.zip")


def recordings(place: Path) -> Path:
    for number, name in enumerate("ab", 1):
        (place / f"model-{name}@suite").mkdir(parents=True)
        (place / f"model-{name}@suite" / "task.traj").write_text(swe_agent(number), "utf-8")
    (place / "model-b@suite" / "nonsense.txt").write_text("nothing of the kind", "utf-8")
    return place


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return recordings(tmp_path / "recordings")


@pytest.fixture
def made(folder: Path, tmp_path: Path) -> Path:
    entries = study(folder, tmp_path / "rows.jsonl", 1, list[RecordingEntry]().append)
    write_archive(entries, folder, tmp_path / "study.zip", WORDS)
    return tmp_path / "study.zip"


def test_an_archive_holds_what_a_stranger_needs_and_no_recording(made):
    files = content(made)
    assert set(files) == {
        "manifest.json", "plan.json", "results.jsonl", "report.md", "prices.json", "environment.txt", "REPEAT.txt",
        "CITATION.cff",
    }  # fmt: skip
    plan = json.loads(files["plan.json"])
    assert sorted(plan["recordings"]) == [
        "model-a@suite/task.traj",
        "model-b@suite/nonsense.txt",
        "model-b@suite/task.traj",
    ]
    assert all(len(digest) == 64 for digest in plan["recordings"].values())
    assert (plan["reads"], plan["command"]) == ([0.1, 0.05, 0.025], " ".join(WORDS))
    assert b"stackmem evidence recordings --repeat study.zip -o again.html" in files["REPEAT.txt"]
    assert b"2 recordings" in files["CITATION.cff"]
    assert b"person" not in files["CITATION.cff"]
    assert set(json.loads(files["manifest.json"])["files"]) == set(files) - {"manifest.json"}
    assert b"# Recordings under memory strategies" in files["report.md"]


def test_a_study_that_is_made_again_is_equal_and_one_that_is_not_names_the_recording(made, folder, tmp_path):
    held = read_archive(made)
    refuse_unlike(held, folder)
    entries = study(folder, tmp_path / "again.jsonl", 1, list[RecordingEntry]().append)
    assert differences(held, entries) == []
    other = [replace(entry, steps=99) if entry.model == "model-a" else entry for entry in entries][:-1]
    said = differences(held, other)
    assert any(sentence.endswith("steps 2 became 99") for sentence in said)
    assert any(sentence.endswith("missing here") for sentence in said)


@pytest.mark.parametrize("change", ["another", "more", "gone"])
def test_other_recordings_are_refused_by_name(made, folder, change):
    held, path = read_archive(made), folder / "model-a@suite" / "task.traj"
    if change == "gone":
        path.unlink()
    else:
        (path if change == "another" else path.with_name("new.traj")).write_text(swe_agent(5), "utf-8")
    with pytest.raises(UsageError, match=r"model-a@suite/(task|new).traj, unlike the archive"):
        refuse_unlike(held, folder)


def test_figures_of_other_code_or_of_recordings_that_are_gone_are_not_archived(folder, tmp_path):
    entries = study(folder, tmp_path / "rows.jsonl", 1, list[RecordingEntry]().append)
    for wrong, says in (
        (replace(entries[0], code="f00"), "come from other code"),
        (replace(entries[0], file="gone"), "lacks gone"),
    ):
        with pytest.raises(UsageError, match=says):
            write_archive([wrong, *entries[1:]], folder, tmp_path / "study.zip", WORDS)
    with pytest.raises(UsageError, match="cannot be written"):
        write_archive(entries, folder, tmp_path / "nowhere" / "study.zip", WORDS)
    assert not list(tmp_path.glob("*.zip*"))


def test_an_invalid_study_archive_is_refused_in_one_sentence(made, tmp_path):
    files = content(made)
    for name, data in (("plan.json", b"{}"), ("results.jsonl", b"[1]\n"), ("results.jsonl", b'{"file": 3}\n')):
        wrong = {**files, name: data}
        with pytest.raises(TraceError, match=f"{name} in .* does not match its digest"):
            read_archive(packed(tmp_path / "odd.zip", wrong))
    with pytest.raises(TraceError, match="is not an archive of results"):
        read_archive(packed(tmp_path / "odd.zip", {}))


def test_the_command_line_archives_repeats_and_says_equal(stage):
    recordings(Path(stage.elsewhere, "recordings"))
    asked = ("evidence", "recordings", "--jobs", "1")
    assert stage.call(*asked, "-o", "one.md", "--archive", "one.zip").returncode == 0
    again = stage.call(*asked, "-o", "two.md", "--repeat", "one.zip")
    assert (again.returncode, "equal: 3 recordings" in again.stdout) == (0, True), again.stderr
    refused = stage.call(*asked, "-o", "one.md", "--repeat", "one.zip")
    assert (refused.returncode, "one.jsonl already contains figures" in refused.stderr) == (2, True)
    Path(stage.elsewhere, "recordings", "model-a@suite", "task.traj").write_text(swe_agent(4), "utf-8")
    refused = stage.call(*asked, "-o", "three.md", "--repeat", "one.zip")
    assert (refused.returncode, "recordings has another model-a@suite/task.traj" in refused.stderr) == (2, True)
