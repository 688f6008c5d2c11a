"""Readers of folders from elsewhere, mainly runs and benches, and of a client's messages."""

import json
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import mcp_types
import msgspec
from pydantic import ValidationError

from stackmem.core.errors import StackmemError
from stackmem.core.facts import ModelReplied
from stackmem.core.messages import Message, Text, Usage, View
from stackmem.core.schemas.json_schema import first_fault, read_json
from stackmem.doors.mcp.client_run import ClientCalls
from stackmem.doors.mcp.protocol import _mended
from stackmem.formats.export import export_run
from stackmem.formats.exports import EXPORTS
from stackmem.lab.bench.evidence import TOOLS, entries_of, read_entries
from stackmem.lab.bench.ledger import PLAN, read_plan
from stackmem.lab.comparison.write import write_report
from stackmem.languages.running.inputs import read_answers, read_inputs
from stackmem.review.kept.recover import recover_run
from stackmem.review.kept.redact import redact_run
from stackmem.review.kept.run_list import find_runs
from stackmem.review.report.page import page
from stackmem.review.report.view import read_runs
from stackmem.run.companion.kept_heap import HeapStore
from stackmem.run.companion.keys import trusted_keys
from stackmem.run.ending import _read_changes
from stackmem.run.run_folder import LEDGER
from stackmem.run.stored_request import StoredRequest, read_request
from stackmem.settings.mcp_servers import SERVERS_FILE, read_folder
from stackmem.settings.settings_files import user_file
from stackmem.trace.record import Record
from stackmem.trace.store import write_line
from stackmem.workspace.profile import read_profile
from stackmem.workspace.secrets import Scrubber
from tests.fuzz.seeds import RESULT, chained, encoded, stories
from tests.review.report.bench_rows import zoo
from tests.stage import ROOT

Row = tuple[
    str, Callable[[bytes, Path], object], Callable[[], list[bytes]], tuple[str, ...], tuple[type[Exception], ...]
]


def run_with(place: Path, trace: bytes) -> Path:
    run = place / "20260101T000000Z-odd-odd-0a0a0a"
    run.mkdir()
    (run / "trace.jsonl").write_bytes(trace)
    return run


def exported(data: bytes, place: Path) -> None:
    run = run_with(place, chained(data))
    for name in EXPORTS:
        with suppress(StackmemError):
            export_run(run, name, bytes, out=None, endpoint=None, content=False)
    export_run(run, "otel", bytes, out=None, endpoint=None, content=True)


def shown(data: bytes, place: Path) -> None:
    """Show the run alone, and next to a run with other frames and prompts."""
    run = run_with(place, chained(data))
    other = place / "other"
    other.mkdir()
    (other / "trace.jsonl").write_bytes(chained(stories()[0]))
    page(read_runs([run]))
    page(read_runs([run, other]))


def recovered(data: bytes, place: Path) -> None:
    run = run_with(place, chained(data) + b"broken\n")
    with suppress(StackmemError):
        redact_run(run, ["e+"])
    recover_run(run)


def kept_files(data: bytes, place: Path) -> None:
    """Write a run's small files from the names and texts of a JSON object."""
    run = run_with(place, chained(stories()[0]))
    for name, text in msgspec.json.decode(data, type=dict[str, str]).items():
        if name in KEPT:
            (run / name).write_bytes(text.encode())
    find_runs(place, ["request=x"], "-disk_bytes", None)
    with suppress(StackmemError):
        read_request(run)
    with suppress(StackmemError):
        redact_run(run, ["x"])
    with suppress(OSError, msgspec.DecodeError):
        _read_changes(run)


def reported(data: bytes, place: Path) -> None:
    rows, _, plan = data.partition(b"\n\n")
    (place / LEDGER).write_bytes(rows + b"\n")
    (place / PLAN).write_bytes(plan)
    with suppress(StackmemError):
        read_plan(place)
    write_report(place, str(place / "report.md"))
    write_report(place)


def studied(data: bytes, place: Path) -> None:
    rows, _, tools = data.partition(b"\n\n")
    (place / "rows.jsonl").write_bytes(rows + b"\n")
    (place / TOOLS).write_bytes(tools)
    shutil.copyfile(ROOT / "tests" / "formats" / "samples" / "mini.traj.json", place / "mini.traj.json")
    if tools:
        entries_of(place, place / "mini.traj.json")
    read_entries(place / "rows.jsonl")


def settings(data: bytes, place: Path) -> None:
    file = place / "config.toml"
    file.write_bytes(data)
    for read in (lambda: user_file(file, place, ""), lambda: read_profile(file)):
        with suppress(StackmemError):
            read()
    (place / SERVERS_FILE).write_bytes(data)
    read_folder(place)


def kept_heap(data: bytes, place: Path) -> None:
    (place / "heap.jsonl").write_bytes(data)
    HeapStore(place / "heap.jsonl", "/somewhere").read()


def trusted(data: bytes, place: Path) -> None:
    keys = place / "stackmem" / "keys"
    keys.mkdir(parents=True)
    (keys / "trusted.json").write_bytes(data)
    (keys / "signing.pem").write_bytes(data)
    (keys / "signing.pem").chmod(0o600)
    trusted_keys({"XDG_STATE_HOME": str(place)})


def inputs(data: bytes, place: Path) -> None:
    """Parse words of a command line, one per line, and the same as a YAML file; the result must fit into a record."""
    (place / "inputs.yaml").write_bytes(data)
    for word in data.decode("utf-8", "surrogateescape").splitlines():
        with suppress(StackmemError, ValueError):
            read_inputs([word], None, place)
    with suppress(StackmemError):
        read_answers("inputs.yaml", place)
    read_inputs((), "inputs.yaml", place)


def client_call(data: bytes, place: Path) -> None:
    """Handle a client's line and make the record of its call."""
    try:
        message = mcp_types.jsonrpc_message_adapter.validate_json(data, by_name=False)
    except ValidationError as error:
        message = _mended(error)
    message.model_dump_json()
    params = getattr(message, "params", None) or {}
    name, arguments = params.get("name"), params.get("arguments")
    if isinstance(name, str) and isinstance(arguments, dict):
        calls = ClientCalls()
        calls.call(name, arguments, name)
        calls.leave()
        if calls.wait():
            view = View("", (), (Message("user", (Text("x"),)),))
            called = calls.next_call(view, Scrubber({}))
            write_line(Record(1, 0.0, ModelReplied((called,), "call", Usage())), "")


def schema(data: bytes, place: Path) -> None:
    """Check a value against its schema; either may be deeper than Python's stack and as long as a line."""
    text, _, spelled = data.decode("utf-8", "replace").partition("\n\n")
    value, wrong = read_json(text)
    asked, unread = read_json(spelled)
    if not wrong and not unread:
        assert isinstance(first_fault(value, asked), str)


KEPT = ("run.json", "request.json", "result.json", "changes.json", "changes.patch", "applied.json", "signatures.jsonl")
SCHEMAS = (
    {"type": "object", "properties": {"a": {"type": ["integer", "null"], "minimum": 0}}, "required": ["a"]},
    {"type": "array", "items": {"enum": [1, "b", None]}, "minItems": 1, "uniqueItems": True},
    {
        "anyOf": [{"type": "string", "pattern": "^a+$", "maxLength": 5}, {"$ref": "#/$defs/n"}],
        "$defs": {"n": {"const": 2}},
    },
    {"if": {"type": "number"}, "then": {"multipleOf": 0.1}, "else": {"patternProperties": {"^x": {"not": {}}}}},
)
VALUES = ({"a": 3}, [1, "b", None, 1], "aaa", {"x1": []})
REQUEST = StoredRequest("/nowhere", "x", {"model": "demo", "include": ["a"]}, "/", "/nowhere/work/a/workspace")
CHANGES = {"folder": "", "changes": [], "tree": "", "isolation": "none", "changed": []}
TOML = b"""model = "demo"
max_steps = 5
[server]
command = ["x", "y"]
most = 3
[server.env]
A = "b"
"""


def _kept_seed() -> list[bytes]:
    texts: dict[str, Any] = {"request.json": REQUEST, "result.json": RESULT, "changes.json": CHANGES}
    spelled = {name: msgspec.json.encode(value).decode() for name, value in texts.items()}
    run = {"session": {"kind": "frame"}, "type": "RunStarted"}
    return encoded({**spelled, "run.json": json.dumps(run), "applied.json": '{"tree": ""}', "changes.patch": "diff"})


def _rows_seed() -> list[bytes]:
    rows = [json.dumps(row).encode() for row in zoo()[:6]]
    lists = {
        name: [9, 8, 7, 6, 5, 4, 3] for name in ("uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output")
    }
    asked = [json.dumps({**row, "requests": json.dumps({**lists, "steps": [1] * 7})}).encode() for row in zoo()[:2]]
    return [b"\n".join(rows), b"\n".join(asked)]


def _calls_seed() -> list[bytes]:
    call = {"name": "heap_alloc", "arguments": {"name": "a", "content": "x\ud800y"}}
    return encoded({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}, {"jsonrpc": "2.0", "id": 3})


def rows() -> Iterable[Row]:
    ours: tuple[type[Exception], ...] = (StackmemError,)
    yield "exports of a run", exported, stories, ("formats/exports/", "review/measure/moments"), ours
    yield (
        "page of a run",
        shown,
        stories,
        ("review/report/view", "review/report/fold", "review/report/facts", "review/report/prompts"),
        ours,
    )
    yield (
        "recovery of a run",
        recovered,
        stories,
        ("review/kept/recover", "review/kept/redact", "review/kept/redaction"),
        ours,
    )
    yield (
        "files of a run", kept_files, _kept_seed,
        ("review/kept/run_list", "run/ending", "run/request", "run/companion/find"),
        (msgspec.DecodeError, UnicodeError, *ours),
    )  # fmt: skip
    yield (
        "report of a bench",
        reported,
        _rows_seed,
        ("lab/comparison/", "lab/bench/ledger", "lab/bench/intervals"),
        ours,
    )
    tools = [{"function": {"name": "run", "parameters": {"type": "object"}}}]
    entry = {"file": "a/b.json", "session": "s", "model": "m"}
    studies = b"\n\n".join(encoded(entry, tools))
    yield "study of recordings", studied, lambda: [studies], ("lab/bench/evidence", "lab/whatif/"), ours
    yield (
        "settings",
        settings,
        lambda: [TOML],
        ("settings/settings_files", "settings/mcp_servers", "workspace/profile"),
        ours,
    )
    heap = b'{"folder": "/somewhere"}\n{"name": "a", "written": 1.5, "chunk": {"name": "a", "content": "x"}}\n'
    yield "kept heap", kept_heap, lambda: [heap], ("run/companion/kept_heap",), ours
    yield (
        "trusted keys",
        trusted,
        lambda: encoded({"a" * 64: "somebody"}),
        ("run/companion/keys", "trace/signatures"),
        ours,
    )
    words = b'x:={"a": [1, "\\ud800"]}\ny=\xff\nz=@inputs.yaml\n'
    yield (
        "inputs of a program",
        inputs,
        lambda: [words, b"x: 2026-01-01\ny: [1, .nan]\n"],
        ("languages/running/inputs",),
        ours,
    )
    yield "calls of a client", client_call, _calls_seed, ("doors/mcp/protocol", "doors/mcp/client_run"), ()
    schemas = [b"\n\n".join(encoded(value, spelled)) for value, spelled in zip(VALUES, SCHEMAS, strict=True)]
    yield "schema of a program", schema, lambda: schemas, ("core/schemas/",), ()
