"""``stackmem heap``: commands for chunks that outlive their runs."""

import json
from pathlib import Path

import pytest

from tests.stage import Stage


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "spec.md").write_text("first", encoding="utf-8")
    return tmp_path / "project"


def test_chunks_are_written_read_listed_and_freed(stage: Stage, folder: Path) -> None:
    assert "no chunks are stored here" in stage.call("heap", "list", cwd=folder).stdout
    written = stage.call("heap", "write", "env", "-t", "make test", "--description", "How to test.", cwd=folder)
    assert (written.returncode, written.stdout) == (0, "")
    stage.call("heap", "write", "spec", "-t", "All.", "--source", "spec.md", cwd=folder)
    assert stage.call("heap", "read", "env", "--folder", folder).stdout == "make test"
    rows = json.loads(stage.call("heap", "list", "--all", "--json").stdout)
    assert [(row["name"], row["chars"], row["state"]) for row in rows] == [("env", 9, ""), ("spec", 4, "fresh")]
    (folder / "spec.md").write_text("second", encoding="utf-8")
    assert "STALE" in stage.call("heap", "list", cwd=folder).stdout
    assert stage.call("heap", "free", "env", cwd=folder).returncode == 0
    refused = stage.call("heap", "read", "env", cwd=folder)
    assert (refused.returncode, "unknown chunk 'env'; nearest: spec" in refused.stderr) == (2, True)


def test_stale_old_and_orphaned_chunks_are_pruned(stage: Stage, folder: Path) -> None:
    for name in ("a", "b"):
        stage.call("heap", "write", name, "-t", "x", "--source", "spec.md" if name == "a" else "", cwd=folder)
    (folder / "spec.md").unlink()
    assert stage.call("heap", "prune", "--stale", "--dry-run", cwd=folder).stdout == "a would be freed\n"
    assert stage.call("heap", "prune", "--stale", cwd=folder).stdout == "a freed\n"
    assert stage.call("heap", "prune", "--older-than", "1h", cwd=folder).stdout == ""
    assert stage.call("heap", "prune", "--older-than", "0h", cwd=folder).stdout == "b freed\n"
    stage.call("heap", "write", "c", "-t", "x", cwd=folder)
    folder.rename(folder.with_name("moved"))
    assert str(folder) in stage.call("heap", "prune", "--gone").stdout
    assert json.loads(stage.call("heap", "list", "--all", "--json").stdout) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("write", "a b", "-t", "x"), "is not a valid name"),
        (("write", "a", "-t", ""), "is empty"),
        (("write", "a", "-t", "x", "--source", "../x"), "outside the workspace"),
        (("write", "a", "-t", "x" * 1_000_001), "of 1,000,000 characters"),
        (("read", "a"), "the kept heap is empty"),
        (("prune",), "missing selection; pass --older-than AGE"),
        (("list", "--folder", "nowhere"), "is not a folder"),
    ],
)
def test_impossible_requests_are_refused(stage: Stage, folder: Path, arguments: tuple[str, ...], told: str) -> None:
    done = stage.call("heap", *arguments, cwd=folder)
    assert (done.returncode, told in done.stderr) == (2, True), done.stderr
