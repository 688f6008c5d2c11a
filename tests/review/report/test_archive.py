"""A bench as one citable file, from which it can be reproduced."""

import io
import json
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from stackmem.core.errors import TraceError, UsageError
from stackmem.lab.bench.ledger import PLAN
from stackmem.lab.bench.results import read_results
from stackmem.lab.comparison.bench_archive import differences, read_archive, refuse_unlike, write_archive
from tests.lab.bench.benches import benched, planned, small_tasks
from tests.stage import mounted


@pytest.fixture
def made(stage, tmp_path) -> Path:
    benched(planned(*small_tasks(stage, "one")), tmp_path / "bench")
    write_archive(tmp_path / "bench", tmp_path / "bench.zip")
    return tmp_path / "bench.zip"


def content(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def test_an_archive_holds_what_a_stranger_needs(made):
    files = content(made)
    assert set(files) == {
        "manifest.json", "plan.json", "results.jsonl", "report.md", "prices.json", "environment.txt", "REPEAT.txt",
        "CITATION.cff",
    }  # fmt: skip
    assert b"msgspec==" in files["environment.txt"]
    assert b"stackmem bench --repeat bench.zip -o again" in files["REPEAT.txt"]
    assert b"cff-version: 1.2.0" in files["CITATION.cff"]
    assert json.loads(files["prices.json"])["claude-sonnet-5-5"]["price"]
    manifest = json.loads(files["manifest.json"])
    assert len(manifest["code"]) == 64
    assert set(manifest["files"]) == set(files) - {"manifest.json"}


@mounted
def test_a_bench_that_is_made_again_is_equal(made, tmp_path):
    held = read_archive(made)
    refuse_unlike(held)
    benched(held.plan, tmp_path / "again")
    assert differences(held, tmp_path / "again") == []


def test_differences_are_named_by_trial_and_column(made, tmp_path):
    held = read_archive(made)
    name = sorted(held.rows)[0]
    other = replace(held, rows={**held.rows, name: {**held.rows[name], "steps": 99}, "gone": {"id": "gone"}})
    said = differences(other, tmp_path / "bench")
    assert said == ["gone: missing here", f"{name}: steps 99 became {read_results(tmp_path / 'bench')[0]['steps']}"]


@pytest.mark.parametrize("name", [PLAN, "results.jsonl"])
def test_a_plan_or_results_with_another_digest_are_refused(made, tmp_path, name):
    files = content(made)
    files[name] = files[name].replace(b"claude-sonnet-5-5", b"claude-opus-4-8") + b"\n"
    with pytest.raises(TraceError, match=f"{name} in .* does not match its digest"):
        read_archive(packed(tmp_path / "other.zip", files))


def test_another_version_plugin_or_world_is_refused_by_name(made):
    held = read_archive(made)
    for changes, says in (
        ({"version": "0.0.1"}, "was created by stackmem 0.0.1"),
        ({"plugins": {"acme 1.0": "abc"}}, "the plug-in acme 1.0 that was used before is not installed in "),
        ({"worlds": {"ledger-h60": "abc"}}, "the world ledger-h60 differs from the archive's"),
    ):
        with pytest.raises(UsageError, match=says):
            refuse_unlike(replace(held, manifest=replace(held.manifest, **changes)))


def test_an_invalid_archive_is_refused_in_one_sentence(made, tmp_path):
    whole = made.read_bytes()
    for number, data in enumerate((b"", b"no tar at all", whole[: len(whole) // 2], whole[:20])):
        path = tmp_path / f"broken-{number}.zip"
        path.write_bytes(data)
        with pytest.raises((TraceError, UsageError)):
            read_archive(path)
    for path in (tmp_path, tmp_path / "nowhere.zip"):
        with pytest.raises((TraceError, UsageError)):
            read_archive(path)
    for files in ({}, {"manifest.json": b"{}"}, {**content(made), "manifest.json": b"[1]"}):
        with pytest.raises(TraceError, match="is not an archive of results"):
            read_archive(packed(tmp_path / "odd.zip", files))


def test_a_link_in_place_of_the_plan_is_refused(made, tmp_path):
    files = content(made)
    link = zipfile.ZipInfo(PLAN)
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as archive:
        archive.writestr(link, files.pop(PLAN))
        for name, data in files.items():
            archive.writestr(name, data)
    with pytest.raises(TraceError, match=r"is not an archive of results .*plan.json is not a plain file"):
        read_archive(tmp_path / "link.zip")


def test_an_archive_of_the_old_format_is_refused_and_says_how_to_make_a_new_one(tmp_path):
    with tarfile.open(tmp_path / "old.tar.gz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("manifest.json"), io.BytesIO())
    with pytest.raises(UsageError, match=r"is a gzipped tar from an older version .* create the archive again"):
        read_archive(tmp_path / "old.tar.gz")


def test_a_folder_without_a_bench_and_a_place_that_cannot_be_written_are_said(made, tmp_path):
    with pytest.raises(UsageError, match="does not contain a bench"):
        write_archive(tmp_path / "empty", tmp_path / "x.zip")
    with pytest.raises(UsageError, match="cannot be written"):
        write_archive(tmp_path / "bench", tmp_path / "nowhere" / "x.zip")


def test_the_command_line_archives_repeats_and_says_equal(stage):
    words = ("--models", "sim/bounded-reader", "--isolation", "memory", "--fsync", "none", "--keep-traces", "none")
    asked = ("bench", "ledger", "--strategies", "full", "--horizon", "12", *words, "-o", "one", "--quiet")
    assert stage.call(*asked, "--archive", "one.zip").returncode == 0
    again = stage.call("bench", "--repeat", "one.zip", "-o", "two", "--quiet")
    assert again.returncode == 0
    assert "equal: 1 trial" in again.stdout
    refused = stage.call("bench", "ledger", "--repeat", "one.zip", "-o", "three")
    assert refused.returncode == 2
    assert "--repeat uses the archived options" in refused.stderr
