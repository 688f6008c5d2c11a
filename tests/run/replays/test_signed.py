"""A run is signed while it is made; without the key nobody can create a run that verifies."""

import json
import os
import shutil
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest

from stackmem.core.errors import TraceError
from stackmem.core.facts import ChecksReturned, FramePopped
from stackmem.review.kept.pack import pack, unpack
from stackmem.run.replays.replay import replay_run
from stackmem.run.result import RunResult
from stackmem.trace.lineage import RunReader
from tests.stage import SOLVED, UNSOLVED, Stage, command, pop, push, rechain, records

REPLIES = (push(), command("echo x > made"), pop("Part."), pop("Done."))


def solve(stage: Stage, name: str = "small", test: str = UNSOLVED) -> Path:
    return Path(stage.solve(stage.task(*REPLIES, name=name, test=test)).run_dir)


def signatures(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / "signatures.jsonl").read_bytes().splitlines()]


def key_file() -> Path:
    return Path(os.environ["XDG_STATE_HOME"], "stackmem", "keys", "signing.pem")


def says(stage: Stage, run: Path, code: int = 7) -> str:
    replayed = stage.call("replay", run, "--signed")
    assert replayed.returncode == code, replayed.stdout + replayed.stderr
    assert len(replayed.stderr.splitlines()) == (1 if code else 0)
    return replayed.stderr or replayed.stdout


@pytest.fixture
def run(stage: Stage, tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))  # with its own key
    return solve(stage)


def test_a_run_is_signed_where_a_frame_ends_and_at_its_end(stage: Stage, run: Path):
    popped = next(record.seq for record in records(run) if isinstance(record.event, FramePopped))
    first, *_, last = signatures(run)
    assert (first["kind"], first["records"] - popped in (0, 1), last["kind"]) == ("frame", True, "end")
    assert (last["records"], set(last["files"])) == (
        len(records(run)), {"result.json", "changes.patch", "changes.json"},
    )  # fmt: skip
    assert "signed completely by this machine" in says(stage, run, 0)
    signed = json.loads(stage.call("replay", run, "--signed", "--json").stdout)["signed"]
    assert signed == {"keys": ["this machine"], "signatures": len(signatures(run)), "found": []}
    assert [path.stat().st_mode & 0o777 for path in (key_file(), run / "signatures.jsonl")] == [0o600, 0o600]


def test_a_pack_carries_its_signatures_and_they_are_checked_where_the_key_is_trusted(stage: Stage, run: Path, tmp_path):
    pack(run, tmp_path / "run.zip")
    assert "by this machine" in says(stage, tmp_path / "run.zip", 0)
    ours = stage.call("keys", "export").stdout.strip()
    key_file().unlink()  # another machine
    assert f"signed by the key {ours}, which you do not trust" in says(stage, tmp_path / "run.zip")
    assert stage.call("keys", "trust", ours, "Ann's laptop").returncode == 0
    assert "by Ann's laptop" in says(stage, tmp_path / "run.zip", 0)
    assert ours in stage.call("keys", "list").stdout
    assert stage.call("keys", "distrust", ours).returncode == 0
    assert "do not trust" in says(stage, tmp_path / "run.zip")
    assert stage.call("keys", "distrust", ours).returncode == 2
    assert stage.call("keys", "trust", "zz", "Ann").returncode == 2


def forged_and_rechained(run: Path, other: Path) -> None:
    *kept, judged = records(run)
    rechain(run / "trace.jsonl", [*kept, msgspec.structs.replace(judged, event=ChecksReturned({"reward": 1.0}))])
    (run / "result.json").unlink()


def signed_by_a_key_of_ones_own(run: Path, other: Path) -> None:
    lines = [line | {"key": "ab" * 32} for line in signatures(run)]
    (run / "signatures.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def another_signature_under_the_same_key(run: Path, other: Path) -> None:
    lines = signatures(run)
    lines[-1]["signature"] = lines[0]["signature"]
    (run / "signatures.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def cut_and_rechained(run: Path, other: Path) -> None:
    (run / "trace.jsonl").write_bytes(b"".join((run / "trace.jsonl").read_bytes().splitlines(keepends=True)[:-1]))
    (run / "result.json").unlink()


def cut_with_its_signatures(run: Path, other: Path) -> None:
    first = signatures(run)[0]
    lines = (run / "trace.jsonl").read_bytes().splitlines(keepends=True)[: first["records"]]
    (run / "trace.jsonl").write_bytes(b"".join(lines))
    (run / "signatures.jsonl").write_text(json.dumps(first) + "\n")
    (run / "result.json").unlink()


def replaced(name: str):
    return lambda run, other: shutil.copy(other / name, run)


def appended_to_the_patch(run: Path, other: Path) -> None:
    with (run / "changes.patch").open("a", encoding="utf-8") as file:
        file.write("\n")


FORGERIES = [
    (forged_and_rechained, "and was signed as"),
    (signed_by_a_key_of_ones_own, "do not trust"),
    (another_signature_under_the_same_key, "was not made by its key"),
    (cut_and_rechained, "is unfinished: "),
    (cut_with_its_signatures, "is unfinished: "),
    (replaced("signatures.jsonl"), "and was signed as"),
    (replaced("trace.jsonl"), "one of the two was modified"),
    (replaced("result.json"), "one of the two was modified"),
    (appended_to_the_patch, "changes.patch of "),
    (lambda run, _: (run / "changes.json").unlink(), "changes.json of "),
    (lambda run, _: (run / "signatures.jsonl").unlink(), "is not signed"),
    (lambda run, _: (run / "signatures.jsonl").write_text("{}\n"), "is not a signature"),
]


def test_forged_mixed_cut_or_rechained_runs_never_pass(stage: Stage, run: Path, tmp_path):
    other = solve(stage, "other", SOLVED)
    pack(run, tmp_path / "run.zip")
    for number, (forge, expected) in enumerate(FORGERIES):
        copy = unpack(tmp_path / "run.zip", tmp_path / str(number))
        assert says(stage, copy, 0)
        forge(copy, other)
        assert expected in says(stage, copy), forge
        assert expected in says(stage, zipped(copy)), "same verdict for the pack"


def replayed_plain(stage: Stage, run: Path, code: int) -> str:
    replayed = stage.call("replay", run)
    assert replayed.returncode == code, replayed.stdout + replayed.stderr
    return replayed.stderr


def forged_with_a_result_that_agrees(run: Path, other: Path) -> None:
    *kept, judged = records(run)
    forged = [*kept, msgspec.structs.replace(judged, event=ChecksReturned({"reward": 1.0}))]
    rechain(run / "trace.jsonl", forged)
    result = json.loads((run / "result.json").read_bytes())
    reader = RunReader(run)
    assert list(reader)
    result |= {"outcome": "solved", "rewards": {"reward": 1.0}, "digest": reader.digest}
    (run / "result.json").write_text(json.dumps(result))


def changed_in_the_result(run: Path, other: Path) -> None:
    """A field that is not derived from the trace."""
    result = json.loads((run / "result.json").read_bytes())
    (run / "result.json").write_text(json.dumps(result | {"isolation": "bubblewrap, really"}))


CONTRADICTIONS = [
    (forged_with_a_result_that_agrees, "and was signed as"),
    (changed_in_the_result, "result.json of "),
    (appended_to_the_patch, "changes.patch of "),
    (another_signature_under_the_same_key, "was not made by its key"),
    (signed_by_a_key_of_ones_own, "was not made by its key"),
    (replaced("signatures.jsonl"), "and was signed as"),
]


def test_plain_replay_reports_signatures_that_contradict_the_run(stage: Stage, run: Path, tmp_path):
    other = solve(stage, "other", SOLVED)
    pack(run, tmp_path / "run.zip")
    for number, (forge, expected) in enumerate(CONTRADICTIONS):
        copy = unpack(tmp_path / "run.zip", tmp_path / str(number))
        replayed_plain(stage, copy, 0)
        forge(copy, other)
        assert expected in replayed_plain(stage, copy, 7), forge
        assert expected in replayed_plain(stage, zipped(copy), 7), "same verdict for the pack"


def test_plain_replay_compares_digests_without_the_package(stage: Stage, run: Path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    replay_run(run)
    appended_to_the_patch(run, run)
    with pytest.raises(TraceError, match="is not the one that was signed"):
        replay_run(run)


def test_plain_replay_accepts_keys_it_does_not_know_unsigned_runs_and_what_a_crash_leaves(stage: Stage, run: Path):
    key_file().unlink()
    replayed_plain(stage, run, 0)
    lines = (run / "trace.jsonl").read_bytes().splitlines(keepends=True)
    (run / "result.json").write_bytes(b"")  # a power cut lost its content
    replayed_plain(stage, run, 0)
    (run / "result.json").unlink()
    replayed_plain(stage, run, 0)
    (run / "trace.jsonl").write_bytes(b"".join(lines[:4]))
    replayed_plain(stage, run, 0)
    (run / "signatures.jsonl").unlink()
    replayed_plain(stage, run, 0)


def zipped(run: Path) -> Path:
    """Return the folder as a pack, without the checks of our own packer."""
    with zipfile.ZipFile(run.with_suffix(".zip"), "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(run.rglob("*")):
            archive.write(path, path.relative_to(run.parent))
    return run.with_suffix(".zip")


def test_a_pack_that_is_cut_anywhere_never_passes(stage: Stage, run: Path, tmp_path):
    pack(run, tmp_path / "run.zip")
    whole = (tmp_path / "run.zip").read_bytes()
    for size in (0, 1, len(whole) // 3, len(whole) // 2, len(whole) - 30, len(whole) - 1):
        (tmp_path / "cut.zip").write_bytes(whole[:size])
        replayed = stage.call("replay", tmp_path / "cut.zip", "--signed")
        assert (replayed.returncode in (2, 7), len(replayed.stderr.splitlines())) == (True, 1)


def test_records_behind_a_signed_end_and_an_older_end_beside_newer_files_do_not_pass(
    stage: Stage, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run = Path(stage.solve(stage.task(*REPLIES, test=SOLVED), max_steps=2).run_dir)
    ended, signed = (run / "trace.jsonl").read_bytes(), (run / "signatures.jsonl").read_bytes()
    assert stage.call("resume", run, "--max-steps", 20).returncode == 0
    assert says(stage, run, 0)
    signed_again = json.loads(stage.call("replay", run, "--signed", "--json").stdout)["signed"]
    assert (signed_again["found"], signed_again["signatures"]) == ([], len(signatures(run)))
    assert (run / "signatures.jsonl").read_bytes().startswith(signed)
    pack(run, tmp_path / "run.zip")
    older = unpack(tmp_path / "run.zip", tmp_path / "older")
    (older / "trace.jsonl").write_bytes(ended)
    (older / "signatures.jsonl").write_bytes(signed)
    assert "the records in between are lost" in says(stage, older)
    (older / "result.json").unlink()
    assert "result.json of " in says(stage, older)
    longer = unpack(tmp_path / "run.zip", tmp_path / "longer")
    (longer / "signatures.jsonl").write_bytes(signed)
    assert "is unfinished: " in says(stage, longer)


def test_a_killed_run_is_signed_by_whoever_goes_on_with_it_and_what_was_there_is_named(stage: Stage, run: Path):
    lines = (run / "trace.jsonl").read_bytes().splitlines(keepends=True)
    whole = (run / "signatures.jsonl").read_bytes()
    first = whole.index(b"\n") + 1
    for end in (0, 7, first, first + 7):  # kill -9 at any byte of the file
        (run / "signatures.jsonl").write_bytes(whole[:end])
        (run / "trace.jsonl").write_bytes(b"".join(lines[:-3]))
        (run / "result.json").unlink()
        assert ("unfinished" if end >= first else "is not signed") in says(stage, run)
        assert stage.call("resume", run).returncode == 1  # unsolved
        assert "were unsigned when a process continued the run, and were signed then" in says(stage, run, 0)


def test_a_signature_of_records_that_a_power_cut_took_is_no_obstacle(stage: Stage, run: Path):
    lines = (run / "trace.jsonl").read_bytes().splitlines(keepends=True)
    (run / "trace.jsonl").write_bytes(b"".join(lines[:4]))
    (run / "result.json").unlink()
    assert "is signed, but its trace ends at record 4" in says(stage, run)
    assert stage.call("resume", run).returncode == 1
    assert "records 1 to 4 were unsigned" in says(stage, run, 0)


def test_a_fork_is_signed_and_says_what_it_took_over(stage: Stage, run: Path):
    forked = stage.call("fork", run, "--at", "2", "--json", "--model", stage.script(pop("Part."), pop("Done.")))
    said = says(stage, Path(json.loads(forked.stdout)["run_dir"]), 0)
    assert "records 1 to" in said


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda key: key.chmod(0o644), "is open to other users"),
        (lambda key: key.write_bytes(b"x"), "is not an Ed25519 key"),
        (lambda key: (key.unlink(), key.mkdir(mode=0o700)), "cannot be read (Is a directory)"),
        (lambda key: (shutil.rmtree(key.parent), key.parent.write_text("")), "cannot be read (Not a directory)"),
    ],
    ids=["mode", "content", "folder", "no room for it"],
)
def test_without_a_key_the_run_goes_on_unsigned_and_says_so_in_one_sentence(stage: Stage, run: Path, spoil, expected):
    spoil(key_file())
    solved = stage.call("solve", stage.task(*REPLIES, name="again"), "--model", "demo", "--quiet")
    assert solved.returncode == 0
    (line,) = [line for line in solved.stderr.splitlines() if "the run is not signed: " in line]
    assert expected in line
    result = msgspec.json.decode(max(stage.runs.glob("*again*/result.json")).read_bytes(), type=RunResult)
    assert expected in result.unsigned
