"""Every reader of bytes from untrusted sources, each with inputs that it accepts. To add one, add a line below."""

import io
import json
import math
import threading
import zipfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from acp import RequestError
from acp.schema import PromptRequest
from mcp_types import CallToolResult
from pydantic import ValidationError

from stackmem import replay
from stackmem.core.errors import StackmemError
from stackmem.doors.acp.messages import BadLine
from stackmem.doors.acp.messages import read_message as read_line
from stackmem.doors.acp.prompts import read_prompt
from stackmem.doors.debugger.dap import DebugSession
from stackmem.doors.gateway.codings import decoded
from stackmem.doors.gateway.conversations import Conversations
from stackmem.doors.gateway.exchanges import read_exchanges
from stackmem.doors.gateway.framing import cutter_of
from stackmem.doors.gateway.identity import chain
from stackmem.doors.gateway.recording import told_lines
from stackmem.doors.gateway.rewriting import Rewriter
from stackmem.doors.gateway.verifying import verify_gateway_run
from stackmem.doors.gateway.wires import WIRES
from stackmem.doors.gateway.wires.wire import WireFormat
from stackmem.doors.tool_servers.content import result_content
from stackmem.formats.import_ import import_file
from stackmem.formats.recordings import IMPORTERS
from stackmem.formats.tasks import import_tasks
from stackmem.lab.bench.suite import read_suite
from stackmem.lab.simulated.script_language import parse_script
from stackmem.languages.running.lint import lint_all
from stackmem.providers.event_stream import server_events
from stackmem.review.kept.pack import unpack
from stackmem.run.replays.replay import replay_run
from stackmem.run.run_folder import EXCHANGES
from stackmem.run.tasks.reader import read_task
from stackmem.settings.tools.own_tools import ToolFailed
from stackmem.trace.signatures import SIGNATURES
from stackmem.workspace.egress.hosts import read_allowed, read_authority
from stackmem.workspace.egress.tls_name import TunnelName
from tests.fuzz import folders, replies, servers, tools
from tests.fuzz.loop import Target
from tests.fuzz.providers import WIRES as WIRES_OF_MODELS
from tests.fuzz.seeds import (
    ACP_LINE,
    HELLO,
    MCP_RESULTS,
    PROGRAMS,
    RESULT,
    SIGNATURE,
    SWEBENCH,
    answers_of,
    chained,
    dap_messages,
    encoded,
    packs,
    passed,
    recordings,
    requests_of,
    stories,
)
from tests.stage import ROOT

OURS = (StackmemError,)


def run_with(place: Path, trace: bytes) -> Path:
    run = place / "run"
    run.mkdir()
    (run / "trace.jsonl").write_bytes(trace)
    return run


def trace(data: bytes, place: Path) -> None:
    replay(run_with(place, data))


def facts(data: bytes, place: Path) -> None:
    replay(run_with(place, chained(data)))


def signed(data: bytes, place: Path) -> None:
    run = run_with(place, chained(stories()[0]))
    (run / SIGNATURES).write_bytes(data)
    replay_run(run, {"a" * 64: "somebody"})


def result(data: bytes, place: Path) -> None:
    run = run_with(place, chained(stories()[0]))
    (run / "result.json").write_bytes(data)
    replay(run)


def pack(data: bytes, place: Path) -> None:
    (place / "pack.zip").write_bytes(data)
    replay(unpack(place / "pack.zip", place / "into"))


def forged_pack(data: bytes, place: Path) -> None:
    """Return an archive with the names and texts of a JSON object."""
    with zipfile.ZipFile(place / "pack.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in msgspec.json.decode(data, type=dict[str, str]).items():
            archive.writestr(name.partition("\0")[0] or "r", text)  # the library cuts names in this way
    replay(unpack(place / "pack.zip", place / "into"))


def suite(data: bytes, place: Path) -> None:
    (place / "suite.toml").write_bytes(data)
    read_suite(place / "suite.toml", "/home/somebody")


def script(data: bytes, place: Path) -> None:
    parse_script(data.decode("utf-8", "replace"))


def task(data: bytes, place: Path) -> None:
    (place / "tests").mkdir()
    (place / "tests" / "test.sh").write_text("true\n")
    (place / "instruction.md").write_text("Do it.\n")
    (place / "task.toml").write_bytes(data)
    read_task(place)


def recording(data: bytes, place: Path, *, named: str) -> None:
    (place / "recording.json").write_bytes(data)
    with suppress(StackmemError):
        import_file(place / "recording.json", None, place / "runs")
    import_file(place / "recording.json", named, place / "runs")


def swebench(data: bytes, place: Path) -> None:
    (place / "tasks.jsonl").write_bytes(data)
    list(import_tasks("swebench", place / "tasks.jsonl", place / "out", place))


def program(data: bytes, place: Path, *, name: str) -> None:
    (place / name).write_bytes(data)
    lint_all([name], place)


def mcp_result(data: bytes, place: Path) -> None:
    result_content(CallToolResult.model_validate_json(data))


def dap(data: bytes, place: Path) -> None:
    raised: list[BaseException] = []
    before, threading.excepthook = threading.excepthook, lambda args: raised.append(args.exc_value or SystemExit())
    try:
        DebugSession(io.BytesIO(data), io.BytesIO()).serve(lambda *_: 0)
    finally:
        threading.excepthook = before
    for error in raised:
        raise error


def acp(data: bytes, place: Path) -> None:
    for line in data.splitlines():
        with suppress(BadLine):
            given = read_line(line).get("params")
            with suppress(ValidationError, RequestError):
                read_prompt(PromptRequest.model_validate(given).prompt, place)


def gateway_request(data: bytes, place: Path, *, wire: WireFormat) -> None:
    asked = wire.read(data)
    found = chain(b"seed", asked.messages)
    placed = Conversations().assign(asked, found, b"group", data)
    assert placed.conversation >= 0
    for spelled in ("mask:2,poll=1", "window:1,step=2", "clear:150,keep=1", "stackheap"):
        cutter = cutter_of(spelled)
        assert cutter is not None
        Rewriter().rewrite(data, wire, asked, cutter.cut(asked, found), cutter.shorten)


def gateway_answer(data: bytes, place: Path, *, wire: WireFormat) -> None:
    plain = decoded(data, "gzip", 1 << 20, "the answer") if data[:2] == b"\x1f\x8b" else data
    events = list(server_events([plain[:50], plain[50:]], math.inf))
    wire.partial_usage(events)
    wire.reply(events)


def exchanges(data: bytes, place: Path) -> None:
    """Return a gateway's lines, together with the trace that follows from them."""
    run = place / "run"
    run.mkdir()
    (run / EXCHANGES).write_bytes(data)
    (run / "trace.jsonl").write_bytes(told_lines(read_exchanges(run / EXCHANGES)))
    verify_gateway_run(run)


def egress(data: bytes, place: Path) -> None:
    """Handle a command's bytes to the proxy: host names, and the start of TLS."""
    text = data.decode("latin-1")
    for read in (read_allowed, read_authority):
        with suppress(StackmemError, ValueError):
            read(text)
    tunnel = TunnelName("host.example", 443)
    for start in range(0, len(data), 100):
        tunnel.let_through(data[start : start + 100])


def _named() -> Iterable[tuple[str, Callable[[bytes, Path], object], Callable[[], list[bytes]], tuple[str, ...], Any]]:
    values = (ValueError, *OURS)
    yield "trace", trace, lambda: [chained(each) for each in stories()], ("trace/", "run/replays/replay"), OURS
    yield "facts", facts, stories, ("trace/", "core/", "run/replays/replay", "memory/stackheap", "memory/shared/"), OURS
    yield "signatures", signed, lambda: encoded(SIGNATURE), ("trace/signatures",), OURS
    yield "result", result, lambda: encoded(RESULT), ("run/result",), OURS
    yield "pack", pack, packs, ("review/kept/pack",), OURS
    names = {"r/trace.jsonl": chained(stories()[2]).decode(), "r/result.json": json.dumps(RESULT), "r/x/y": ""}
    yield (
        "pack of a forger",
        forged_pack,
        lambda: encoded(names),
        ("review/kept/pack",),
        (msgspec.DecodeError, ValueError, *OURS),
    )
    yield (
        "suite",
        suite,
        lambda: [path.read_bytes() for path in sorted((ROOT / "benchmarks").rglob("*.toml"))],
        ("lab/bench/suite", "settings/"),
        OURS,
    )
    yield (
        "script",
        script,
        lambda: [path.read_bytes()[:4_000] for path in sorted((ROOT / "tasks").glob("*/demo.yaml"))],
        ("lab/simulated/script_language", "languages/frame/yaml_"),
        OURS,
    )
    yield (
        "task",
        task,
        lambda: [path.read_bytes() for path in sorted((ROOT / "tasks").glob("*/task.toml"))],
        ("run/tasks/reader",),
        OURS,
    )
    for name in sorted(IMPORTERS):
        watched = f"formats/recordings/{name.replace('-', '_')}"
        seeds = partial(recordings, name)
        yield (
            f"recording {name}",
            partial(recording, named=name),
            seeds,
            (watched, "formats/recordings/session", "formats/import_"),
            OURS,
        )
    yield "task of swebench", swebench, lambda: encoded(SWEBENCH), ("formats/tasks/swebench",), OURS
    for name, (file, folder, seeds) in PROGRAMS.items():
        watched = (f"languages/{folder}/", "languages/frame/yaml_")[: 2 if folder == "loop_agent" else 1]
        yield name, partial(program, name=file), seeds, watched, OURS
    yield (
        "result of an MCP tool",
        mcp_result,
        lambda: encoded(*MCP_RESULTS),
        ("doors/tool_servers/content",),
        (ValidationError, ToolFailed),
    )
    yield "DAP", dap, dap_messages, ("doors/debugger/dap",), OURS
    yield "ACP", acp, lambda: encoded(ACP_LINE), ("doors/acp/messages", "doors/acp/agent"), OURS
    for wire in WIRES:
        yield (
            f"gateway request {wire.name}",
            partial(gateway_request, wire=wire),
            partial(requests_of, wire.name),
            ("doors/gateway/",),
            values,
        )
        yield (
            f"answer {wire.name}",
            partial(gateway_answer, wire=wire),
            partial(answers_of, wire.name),
            ("doors/gateway/wires/", "models/"),
            values,
        )
    yield "exchanges of a gateway", exchanges, passed, ("doors/gateway/",), OURS
    yield (
        "proxy of listed hosts",
        egress,
        lambda: [b"https://host.example:443", b"[::1]:80", HELLO],
        ("workspace/egress/hosts", "workspace/egress/tls_name"),
        OURS,
    )


TARGETS: dict[str, Target] = {
    name: Target(name, read, seeds, watched, refusals)
    for name, read, seeds, watched, refusals in (*_named(), *folders.rows())
}
TARGETS |= {
    name: Target(name, read, seeds, watched, (), words)
    for name, read, seeds, watched, words in (
        ("MCP server", tools.server, tools.server_seeds, ("doors/tool_servers/",), ()),
        ("lines of an MCP server", tools.faulty_server, tools.faulty_seeds, ("doors/tool_servers/",), ()),
        ("schema of a tool", tools.schema, tools.schema_seeds, ("core/schemas/portable",), tools.KEYWORDS),
        *(
            (f"{kind} {wire}", partial(read, wire=wire), partial(seeds, wire), ("models/",), ())
            for wire in WIRES_OF_MODELS
            for kind, read, seeds in (
                ("bytes of a reply", replies.raw_reply, replies.raw_seeds),
                ("reply", replies.made_reply, replies.made_seeds),
                ("refusals", replies.refusals, replies.refusal_seeds),
            )
        ),
    )
}
TARGETS |= {
    name: Target(name, read, seeds, watched, (), servers.WORDS)
    for name, read, seeds, watched in (
        ("HTTP of the gateway", servers.gateway, servers.to_gateway, ("doors/gateway/",)),
        ("HTTP of the pages", servers.pages, servers.to_pages, ("doors/ui/",)),
        ("HTTP of a memory", servers.memory, servers.to_memory, ("doors/mcp/server", "doors/mcp/protocol")),
    )
}
