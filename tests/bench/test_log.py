"""A bench's log only grows, and shows of each entry that it belongs to it."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from stackmem.bench.log import BenchEntry, BenchLog, audit_path, leaf_hash, root_of_path, tree_root
from stackmem.errors import TraceError
from stackmem.trace.pack import pack
from stackmem.trace.signatures import SigningKey
from tests.stage import Stage, command, pop

# The tree that other implementations of RFC 6962 test with: eight inputs, and the root of the first N.
INPUTS = [
    bytes.fromhex(each)
    for each in (
        "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f",
    )
]  # fmt: skip
ROOTS = {
    0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}


@pytest.mark.parametrize("size", ROOTS)
def test_a_root_is_the_one_that_others_make(size):
    assert tree_root([leaf_hash(each) for each in INPUTS[:size]]).hex() == ROOTS[size]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 13])
def test_each_entry_has_a_path_to_the_root_and_no_other_has(size):
    leaves = [leaf_hash(bytes([number])) for number in range(size)]
    root = tree_root(leaves)
    for index, leaf in enumerate(leaves):
        path = audit_path(index, leaves)
        assert root_of_path(index, size, leaf, path) == root
        assert root_of_path(index, size, leaf_hash(b"other"), path) != root
        assert root_of_path((index + 1) % (size + 1), size, leaf, path) != root
        assert root_of_path(index, size, leaf, [*path, root]) != root
        assert not path or root_of_path(index, size, leaf, path[:-1]) != root


@pytest.fixture
def log(tmp_path: Path) -> BenchLog:
    log = BenchLog(tmp_path)
    for number in range(3):
        log.add(BenchEntry(f"{number:064x}", "solved", trial=f"trial-{number}"))
    log.sign(SigningKey)
    return log


def test_a_line_that_a_crash_cut_short_is_none(log, tmp_path):
    with (tmp_path / "log.jsonl").open("ab") as file:
        file.write(b'{"digest":')
    BenchLog(tmp_path).add(BenchEntry("f" * 64, "solved", run="late"))
    assert [entry.trial or entry.run for entry in BenchLog(tmp_path).entries] == [
        "trial-0", "trial-1", "trial-2", "late",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"trial-1", b"trial-9"), (b'"solved"', b'"failed"'), (b"\n", b"\n{}\n"), (b"\n", b"")],
    ids=["renamed", "judged otherwise", "a line that is none", "two lines in one"],
)
def test_a_log_that_was_changed_after_it_was_signed_is_refused(log, tmp_path, old, new):
    path = tmp_path / "log.jsonl"
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    with pytest.raises(TraceError):
        BenchLog(tmp_path)


@pytest.mark.parametrize("end", [0, 1, 200])
def test_a_log_that_was_cut_after_it_was_signed_is_refused(log, tmp_path, end):
    path = tmp_path / "log.jsonl"
    path.write_bytes(path.read_bytes()[:end])
    with pytest.raises(TraceError, match="some were changed or lost"):
        BenchLog(tmp_path)


def test_a_bench_proves_its_trials_and_takes_a_pack_once(stage: Stage, tmp_path):
    task = stage.task(command("echo x > made"), pop("Done."))
    options = ("--models", "demo", "--strategies", "stackheap", "--isolation", "none", "--fsync", "none")
    assert stage.call("bench", task, *options, "--jobs", 1, "-o", tmp_path / "bench", "--quiet").returncode == 0
    bench = tmp_path / "bench"
    checked = json.loads(stage.call("log", "check", bench, "--json").stdout)
    assert (checked["entries"], checked["rows"], checked["signed"], checked["signed_by"]) == (1, 1, 1, "this machine")
    row = json.loads((bench / "ledger.jsonl").read_bytes())

    proof = stage.call("log", "prove", bench, row["id"]).stdout
    (tmp_path / "proof.json").write_text(proof)
    verified = stage.call("log", "verify", tmp_path / "proof.json", bench / row["run"])
    assert (verified.returncode, "entry 1 of 1" in verified.stdout) == (0, True), verified.stderr
    (tmp_path / "proof.json").write_text(proof.replace('"solved"', '"finished"'))
    assert "the proof is false" in stage.call("log", "verify", tmp_path / "proof.json").stderr

    other = Path(stage.solve(task).run_dir)
    pack(other, tmp_path / "other.zip")
    (tmp_path / "proof.json").write_text(proof)
    assert "it is another run" in stage.call("log", "verify", tmp_path / "proof.json", tmp_path / "other.zip").stderr
    assert stage.call("log", "add", bench, tmp_path / "other.zip").returncode == 0
    for again in (tmp_path / "other.zip", other, bench / row["run"]):
        refused = stage.call("log", "add", bench, again)
        assert (refused.returncode, "a run counts once" in refused.stderr) == (2, True)
    (other / "signatures.jsonl").unlink()
    assert "is not signed" in stage.call("log", "add", bench, other).stderr
    assert "holds no log" in stage.call("log", "add", tmp_path, other).stderr
    assert json.loads(stage.call("log", "check", bench, "--json").stdout)["signed"] == 2

    ledger = (bench / "ledger.jsonl").read_bytes()
    (bench / "ledger.jsonl").write_bytes(ledger.replace(b'"outcome":"solved"', b'"outcome":"better"'))
    refused = stage.call("log", "check", bench)
    assert (refused.returncode, "line 1 of" in refused.stderr) == (7, True)


def test_of_a_run_that_was_resumed_after_an_end_only_one_end_counts_whichever_comes_first(stage: Stage, tmp_path):
    task = stage.task(command("echo x > made"), pop("Done."))
    options = ("--models", "demo", "--strategies", "stackheap", "--isolation", "none", "--fsync", "none")
    assert stage.call("bench", task, *options, "--jobs", 1, "-o", tmp_path / "bench", "--quiet").returncode == 0
    run = Path(stage.solve(task, max_steps=1).run_dir)
    pack(run, tmp_path / "limited.zip")
    assert stage.call("resume", run, "--max-steps", 5).returncode == 0
    pack(run, tmp_path / "done.zip")
    shutil.copytree(tmp_path / "bench", tmp_path / "other")
    for bench, first, second in (("bench", "limited", "done"), ("other", "done", "limited")):
        added = stage.call("log", "add", tmp_path / bench, tmp_path / f"{first}.zip")
        assert added.returncode == 0, added.stderr
        refused = stage.call("log", "add", tmp_path / bench, tmp_path / f"{second}.zip")
        assert (refused.returncode, "a run counts once" in refused.stderr) == (2, True)


def test_a_leaf_is_no_node():
    assert leaf_hash(b"") == hashlib.sha256(b"\0").digest()
