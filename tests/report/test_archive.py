"""A bench as one file that can be cited, and made again."""

import io
import json
import tarfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from stackmem.bench.ledger import PLAN
from stackmem.bench.results import read_results
from stackmem.errors import TraceError, UsageError
from stackmem.report.bench_archive import differences, read_archive, refuse_unlike, write_archive
from tests.bench.benches import benched, planned, small_tasks
from tests.stage import mounted


@pytest.fixture
def made(stage, tmp_path) -> Path:
    benched(planned(*small_tasks(stage, "one")), tmp_path / "bench")
    write_archive(tmp_path / "bench", tmp_path / "bench.tar.gz")
    return tmp_path / "bench.tar.gz"


def content(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}


def packed(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def test_an_archive_holds_what_a_stranger_needs(made):
    files = content(made)
    assert set(files) == {
        "manifest.json", "plan.json", "results.jsonl", "report.md", "prices.json", "environment.txt", "REPEAT.txt",
        "CITATION.cff",
    }  # fmt: skip
    assert b"msgspec==" in files["environment.txt"]
    assert b"stackmem bench --repeat bench.tar.gz -o again" in files["REPEAT.txt"]
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


def test_what_differs_is_named_by_trial_and_column(made, tmp_path):
    held = read_archive(made)
    name = sorted(held.rows)[0]
    other = replace(held, rows={**held.rows, name: {**held.rows[name], "steps": 99}, "gone": {"id": "gone"}})
    said = differences(other, tmp_path / "bench")
    assert said == ["gone: not made here", f"{name}: steps 99 became {read_results(tmp_path / 'bench')[0]['steps']}"]


@pytest.mark.parametrize("name", [PLAN, "results.jsonl"])
def test_a_plan_or_results_with_another_digest_are_refused(made, tmp_path, name):
    files = content(made)
    files[name] = files[name].replace(b"claude-sonnet-5-5", b"claude-opus-4-8") + b"\n"
    with pytest.raises(TraceError, match=f"{name} of .* is not what was archived"):
        read_archive(packed(tmp_path / "other.tar.gz", files))


def test_another_version_plugin_or_world_is_refused_by_name(made):
    held = read_archive(made)
    for changes, says in (
        ({"version": "0.0.1"}, "was made by stackmem 0.0.1"),
        ({"plugins": {"acme 1.0": "abc"}}, "the plug-in acme 1.0 is not the one"),
        ({"worlds": {"ledger-h60": "abc"}}, "the world ledger-h60 is not the one"),
    ):
        with pytest.raises(UsageError, match=says):
            refuse_unlike(replace(held, manifest=replace(held.manifest, **changes)))


def test_what_is_no_archive_is_refused_in_a_sentence(made, tmp_path):
    whole = made.read_bytes()
    for number, data in enumerate((b"", b"no tar at all", whole[: len(whole) // 2], whole[:20])):
        path = tmp_path / f"broken-{number}.tar.gz"
        path.write_bytes(data)
        with pytest.raises((TraceError, UsageError)):
            read_archive(path)
    for path in (tmp_path, tmp_path / "nowhere.tar.gz"):
        with pytest.raises((TraceError, UsageError)):
            read_archive(path)
    for files in ({}, {"manifest.json": b"{}"}, {**content(made), "manifest.json": b"[1]"}):
        with pytest.raises(TraceError, match="is no archive of results"):
            read_archive(packed(tmp_path / "odd.tar.gz", files))


def test_a_link_in_place_of_the_plan_is_no_plan(made, tmp_path):
    files = content(made)
    path = tmp_path / "link.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            if name == PLAN:
                member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            member.size = 0 if name == PLAN else len(data)
            archive.addfile(member, None if name == PLAN else io.BytesIO(data))
    with pytest.raises(TraceError, match="is no archive of results"):
        read_archive(path)


def test_a_folder_without_a_bench_and_a_place_that_cannot_be_written_are_said(made, tmp_path):
    with pytest.raises(UsageError, match="holds no bench"):
        write_archive(tmp_path / "empty", tmp_path / "x.tar.gz")
    with pytest.raises(UsageError, match="cannot be written"):
        write_archive(tmp_path / "bench", tmp_path / "nowhere" / "x.tar.gz")


def test_the_command_line_archives_repeats_and_says_equal(stage):
    words = ("--models", "sim/bounded-reader", "--isolation", "memory", "--fsync", "none", "--keep-traces", "none")
    asked = ("bench", "ledger", "--strategies", "full", "--horizon", "12", *words, "-o", "one", "--quiet")
    assert stage.call(*asked, "--archive", "one.tar.gz").returncode == 0
    again = stage.call("bench", "--repeat", "one.tar.gz", "-o", "two", "--quiet")
    assert again.returncode == 0
    assert "equal: 1 trials" in again.stdout
    refused = stage.call("bench", "ledger", "--repeat", "one.tar.gz", "-o", "three")
    assert refused.returncode == 2
    assert "--repeat makes a bench as it was archived" in refused.stderr
