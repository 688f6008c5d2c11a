"""A packed run is self-contained, and a malicious archive is refused without effect."""

import zipfile
from pathlib import Path

import pytest
from msgspec import json
from msgspec.structs import replace

from stackmem import TraceError, UsageError
from stackmem.core.facts import RunForked, ToolReturned
from stackmem.review.kept.pack import pack, unpack
from stackmem.trace.lineage import RunReader
from stackmem.trace.open_run import Run
from stackmem.trace.store import TraceWriter
from stackmem.trace.verify import verify
from tests.build import do, play, pop, started
from tests.trace.kept import keep, tree


@pytest.fixture
def parent(tmp_path) -> Run:
    folder = tmp_path / "runs" / "parent"
    before = tree(folder, {"src/a.py": "one\n", "kept": "same\n"})
    after = tree(folder, {"src/a.py": "two\n", "kept": "same\n", "src/deep/b!": b"\xff"})
    events = play(
        do("run_command", command="x"), do("run_command", command="y"), pop(), start=started(tree=before)
    ).events
    place = next(index for index, event in enumerate(events) if isinstance(event, ToolReturned))
    events[place] = replace(events[place], tree=after)
    (folder / "request.json").write_text('{"subject": "x", "flags": {"base_url": "http://me:secret@host", "depth": 2}}')
    (folder / "result.json").write_text('{"outcome": "finished"}')
    return Run(keep(folder, events))


@pytest.fixture
def child(parent) -> Run:
    moment = parent.moment(1)
    folder = parent.folder.parent / "child"
    (folder / "history.git" / "objects" / "info").mkdir(parents=True)
    (folder / "history.git" / "objects" / "info" / "alternates").write_text("../../../parent/history.git/objects\n")
    after = tree(folder, {"src/a.py": "mine\n"})
    writer = TraceWriter(folder / "trace.jsonl", after=moment.at, digest=moment.digest)
    events = play(do("run_command", command="x"), do("run_command", command="z"), pop(), start=parent.start).events
    events[4] = replace(events[4], tree=after)
    for event in [RunForked("parent", moment.at, moment.digest, parent.start), *events[moment.at :]]:
        writer.append(event)
    writer.close()
    return Run(folder)


def test_a_packed_fork_is_its_whole_history_with_all_files(child, tmp_path):
    packed = pack(child.folder, tmp_path / "x.zip")
    assert (packed.run, packed.parents, packed.missing) == ("child", ("parent",), 0)
    alone = Run(unpack(tmp_path / "x.zip", tmp_path / "far"))
    assert alone.id == "child"
    assert list(alone.records()) == list(child.records())
    assert verify(RunReader(alone.folder)).prompts == 3
    for step in range(4):
        there, here = alone.files_at(step), child.files_at(step)
        assert {path: there[path] for path in there} == {path: here[path] for path in here}
    assert alone.files_at(0)["src/a.py"] == b"one\n"
    assert packed.records == len(list(child.records()))
    assert packed.bytes == (tmp_path / "x.zip").stat().st_size


def test_the_lines_of_a_packed_run_are_those_of_its_files_to_the_byte(child, parent, tmp_path):
    pack(child.folder, tmp_path / "x.zip")
    at = parent.moment(1).at
    shared = (parent.folder / "trace.jsonl").read_bytes().splitlines(keepends=True)[:at]
    folder = unpack(tmp_path / "x.zip", tmp_path / "far")
    assert (folder / "trace.jsonl").read_bytes() == b"".join(shared) + (child.folder / "trace.jsonl").read_bytes()


def test_the_same_run_is_packed_to_the_same_bytes(child, tmp_path):
    for name in ("x.zip", "y.zip"):
        pack(child.folder, tmp_path / name)
    assert (tmp_path / "x.zip").read_bytes() == (tmp_path / "y.zip").read_bytes()


def test_a_packed_run_contains_no_login_name(parent, tmp_path):
    pack(parent.folder, tmp_path / "x.zip")
    folder = unpack(tmp_path / "x.zip", tmp_path / "far")
    assert json.decode((folder / "request.json").read_bytes())["flags"] == {"depth": 2}
    assert Run(folder).result == {"outcome": "finished"}


def test_a_torn_end_is_left_out_and_a_missing_line_end_is_put_there(parent, tmp_path):
    trace = parent.folder / "trace.jsonl"
    whole = trace.read_bytes()
    for number, content in enumerate((whole + b'{"seq"', whole[:-1])):
        trace.write_bytes(content)
        pack(parent.folder, tmp_path / f"{number}.zip")
        assert (unpack(tmp_path / f"{number}.zip", tmp_path / str(number)) / "trace.jsonl").read_bytes() == whole


def test_what_the_history_lacks_is_counted_and_the_rest_packed(parent, tmp_path):
    files = parent.files_at(1)
    entry = files.entries["src/deep/b"]
    (parent.folder / "history.git" / "objects" / entry.id[:2] / entry.id[2:]).unlink()
    assert pack(parent.folder, tmp_path / "x.zip").missing == 1
    assert Run(unpack(tmp_path / "x.zip", tmp_path / "far")).files_at(1)["src/a.py"] == b"two\n"


def test_a_link_in_a_runs_folder_leads_nowhere(parent, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (parent.folder / "verifier").mkdir()
    (parent.folder / "verifier" / "reward.txt").symlink_to(tmp_path / "secret")
    (parent.folder / "changes.patch").symlink_to(tmp_path / "secret")
    pack(parent.folder, tmp_path / "x.zip")
    assert not [name for name in zipfile.ZipFile(tmp_path / "x.zip").namelist() if "reward" in name or "patch" in name]


def test_nothing_is_written_over_and_nothing_left_behind(parent, tmp_path):
    (tmp_path / "x.zip").write_text("mine")
    with pytest.raises(UsageError, match="already exists"):
        pack(parent.folder, tmp_path / "x.zip")
    with pytest.raises(UsageError, match="cannot be written"):
        pack(parent.folder, tmp_path / "nowhere" / "x.zip")
    assert (tmp_path / "x.zip").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs", "x.zip"]


def test_a_broken_run_is_not_packed(child, parent, tmp_path):
    (parent.folder / "trace.jsonl").unlink()
    with pytest.raises(TraceError, match="forked from parent"):
        pack(child.folder, tmp_path / "x.zip")
    assert not (tmp_path / "x.zip").exists()


@pytest.mark.parametrize(
    "names",
    [
        ["../x/trace.jsonl"],
        ["/x/trace.jsonl"],
        ["x/trace.jsonl", "x/../../y"],
        ["x/trace.jsonl", "y/trace.jsonl"],
        ["x/trace.jsonl", "x/trace.jsonl/z"],
        ["x/trace.jsonl", "x/a\\..\\b"],
        ["x/other"],
        ["trace.jsonl"],
        [],
    ],
)
def test_an_archive_that_is_no_packed_run_writes_nothing_outside_and_is_refused(tmp_path, names):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name in names:
            archive.writestr(name, "{}")
    into = tmp_path / "deep" / "place"
    with pytest.raises(UsageError, match="is not a packed run"):
        unpack(tmp_path / "x.zip", into)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "deep") == ["x.zip"]
    assert not list((tmp_path / "deep").glob("*.jsonl")) if (tmp_path / "deep").exists() else True


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/trace.jsonl", b"0" * 1_000_000)
    assert (tmp_path / "x.zip").stat().st_size < 2_000
    with pytest.raises(UsageError, match="would contain more than 999,999 bytes"):
        unpack(tmp_path / "x.zip", tmp_path / "far", most_bytes=999_999)
    assert not (tmp_path / "far").exists()
    assert unpack(tmp_path / "x.zip", tmp_path / "far", most_bytes=1_000_000).name == "x"


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04" + b"\0" * 60])
def test_a_file_that_is_not_an_archive_is_refused(tmp_path, content):
    (tmp_path / "x.zip").write_bytes(content)
    with pytest.raises(UsageError, match="is not a packed run"):
        unpack(tmp_path / "x.zip", tmp_path)
    assert Path(tmp_path / "x.zip").read_bytes() == content


def archive(path: Path, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as opened:
        opened.writestr("x/trace.jsonl", content)
    return path


@pytest.mark.parametrize("damage", ["cut", "body", "name", "method"])
def test_every_damage_of_an_archive_is_one_sentence(tmp_path, damage):
    path = archive(tmp_path / "x.zip", bytes(range(256)) * 40, zipfile.ZIP_LZMA if damage == "method" else 8)
    raw = bytearray(path.read_bytes())
    if damage == "cut":
        del raw[-30:]
    elif damage == "body":
        raw[60:80] = bytes(20)
    elif damage == "name":
        at = raw.rindex(b"x/trace.jsonl")
        raw[at - 18 : at - 16] = b"\0\0"
    path.write_bytes(raw)
    with pytest.raises(UsageError, match="is not a packed run"):
        unpack(path, tmp_path / "far")


def test_an_archive_that_unfolds_to_far_more_than_a_run_is_refused(tmp_path):
    with pytest.raises(UsageError, match="more than 100 times its size"):
        unpack(archive(tmp_path / "x.zip", bytes(65 << 20)), tmp_path / "far")
    assert not (tmp_path / "far").exists()
