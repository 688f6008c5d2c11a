"""``history``: a world made from the commits of a repository, this project's or another one."""

import subprocess
from pathlib import Path

import pytest

from stackmem.core.errors import UsageError
from stackmem.lab.worlds import design, make
from stackmem.lab.worlds.families.history import commits_of, own_commits
from stackmem.lab.worlds.oracle import Oracle


def repository(folder: Path, commits: int = 30) -> Path:
    folder.mkdir()
    run = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)
    for number in range(commits):
        place = folder / f"part {number % 3}" / f"Ä{number % 4}.txt"
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"{number}\n", encoding="utf-8")
        subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
        subprocess.run([*run, "commit", "-qm", f"done unit {number} = x @ 3"], cwd=folder, check=True)
    return folder


def test_the_commits_of_this_project_come_with_it():
    commits = own_commits()
    assert len(commits) >= 300
    assert all(commit.files and commit.subject for commit in commits)


def test_a_repository_that_is_named_becomes_a_world(tmp_path):
    place = repository(tmp_path / "her")
    world = design("history", 3, 40, 1.0, place)
    assert abs(len(world.calls) - 40) <= 1
    assert world.world.extras["commits"] == 30
    assert Oracle(world.files, len(world.world.units)).play()
    first = commits_of(place / "part 1")[0]
    assert [path for path, _, _ in first.files] == ["part 0/Ä0.txt"]
    assert make("history", 3, 40, 1.0, tmp_path / "task", place).is_dir()


def test_each_state_is_that_of_a_real_commit(tmp_path):
    place = repository(tmp_path / "her")
    blobs = {blob for commit in commits_of(place) for _, _, blob in commit.files}
    rows = design("history", 1, 60, 0.0, place).world.facts
    states = [row.value for row in rows if row.key.startswith("part.")]
    assert states
    assert set(states) <= blobs | {"none"}


def test_invalid_sources_are_refused_in_one_sentence(tmp_path):
    few = repository(tmp_path / "few", 3)
    with pytest.raises(UsageError, match="has 3 commits that change files; at least 10 are needed"):
        design("history", 1, 60, 1.0, few)
    with pytest.raises(UsageError, match="is not in a git repository"):
        design("history", 1, 60, 1.0, tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        design("history", 1, 60, 1.0, tmp_path / "nowhere")
    with pytest.raises(UsageError, match="is only for the family history"):
        design("ledger", 1, 60, 1.0, few)
