"""Measure what the gateway adds, compared with a plain reverse proxy: ``python benchmarks/gateway.py``.

Both use Starlette, uvicorn and httpx2 in one process each, and forward to the same upstream on loopback, which answers
with a fixed stream. Requests go to the upstream, the plain proxy and the gateway in turn, so that other load on the
machine affects all of them equally. Times are from the first byte sent to the first streamed byte.

Figures: milliseconds to the first byte with requests of ``--kib``; concurrent streams; the resident set over many
requests; the processor time of conversations of up to ``--turns`` turns in the plain proxy and in the gateway under
``full`` and ``mask``, and its growth. A 0 skips a part: ``--requests 0``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import multiprocessing
import os
import statistics
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from benchmarks._folder import own_folder
from stackmem.doors.gateway.serving import GatewayTerms, serving
from stackmem.doors.gateway.upstream import Upstreams

EVENTS = [
    {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 100, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word "}},) * 20,
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 40}},
    {"type": "message_stop"},
]
PIECES = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in EVENTS]
REPLY = "word " * 20
BESIDE = ("upstream itself", "plain proxy", "gateway")


async def _upstream(request: Request) -> StreamingResponse:
    await request.body()
    await asyncio.sleep(float(request.headers.get("x-think", "0")))
    pause = float(request.headers.get("x-pause", "0"))

    async def events() -> AsyncIterator[bytes]:
        for piece in PIECES:
            yield piece
            if pause:
                await asyncio.sleep(pause)

    return StreamingResponse(events(), media_type="text/event-stream")


def _plain(upstream: str) -> Starlette:
    client = httpx2.AsyncClient(timeout=60, limits=httpx2.Limits(max_connections=None))

    async def forward(request: Request) -> StreamingResponse:
        headers = [(name, value) for name, value in request.headers.raw if name not in (b"host", b"content-length")]
        sent = httpx2.Request("POST", f"{upstream}{request.url.path}", headers=headers, content=await request.body())
        answer = await client.send(sent, stream=True)
        return StreamingResponse(answer.aiter_raw(), answer.status_code)

    return Starlette(routes=[Route("/{path:path}", forward, methods=["POST"])])


def _serve(kind: str, upstream: str, where: Any, runs: str) -> None:
    if kind in ("full", "mask"):
        Path(runs).mkdir()
        with serving(GatewayTerms(Upstreams(upstream, upstream), Path(runs), strategy=kind), {}) as served:
            where.send(served.url)
            where.recv()
        return
    app = Starlette(routes=[Route("/{path:path}", _upstream, methods=["POST"])]) if kind == "up" else _plain(upstream)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", access_log=False))

    async def run() -> None:
        task = asyncio.ensure_future(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        where.send(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}")
        await task

    asyncio.run(run())


def body(words: str, turns: int = 0) -> bytes:
    history: list[Any] = [{"role": "user", "content": words}]
    for number in range(turns):
        history += [{"role": "assistant", "content": REPLY}, {"role": "user", "content": f"turn {number}"}]
    return json.dumps({"model": "claude-sonnet-5-5", "max_tokens": 9, "stream": True, "messages": history}).encode()


def large(kib: int, number: int) -> bytes:
    """Return the next turn of a conversation of ``kib`` KiB, half in one message and half in many."""
    return body("x" * 512 * kib, kib * 512 // 205 + number)


async def first_byte(client: httpx2.AsyncClient, url: str, content: bytes, think: float) -> float:
    began = time.perf_counter()
    headers = {"x-think": str(think)}
    async with client.stream("POST", f"{url}/v1/messages", content=content, headers=headers) as answer:
        first = 0.0
        async for _ in answer.aiter_raw():
            first = first or time.perf_counter() - began
    return first * 1000


def told(name: str, values: list[float]) -> None:
    ordered = sorted(values)
    last = ordered[min(len(ordered) - 1, math.ceil(len(ordered) * 0.99) - 1)]
    print(f"{name:28} median {statistics.median(ordered):8.2f} ms   99th percentile {last:8.2f} ms")


async def first_bytes(client: httpx2.AsyncClient, urls: dict[str, str], chosen: argparse.Namespace) -> None:
    turns = 0
    for think in (0.0, chosen.think):
        times: dict[str, list[float]] = {name: [] for name in BESIDE}
        size = len(large(chosen.kib, turns)) / 1024
        print(f"{chosen.requests:,} turns of {size:,.0f} KiB to each; the upstream waits for {think * 1000:.0f} ms")
        for _ in range(chosen.requests + 5):
            content, turns = large(chosen.kib, turns), turns + 1
            for name in BESIDE:
                times[name].append(await first_byte(client, urls[name], content, think))
        for name in BESIDE:
            del times[name][:5]
            told(name, times[name])
        told("added by the gateway", [
            one - other for one, other in zip(times["gateway"], times["plain proxy"], strict=True)
        ])  # fmt: skip


async def streams(client: httpx2.AsyncClient, url: str, count: int) -> None:
    began = time.perf_counter()
    paused = {"x-pause": "0.05"}
    asked = [client.post(f"{url}/v1/messages", content=body(f"s{number}"), headers=paused) for number in range(count)]
    answers = await asyncio.gather(*asked)
    whole = sum(one.content == b"".join(PIECES) for one in answers)
    print(f"{count} parallel streams: {whole} complete, {time.perf_counter() - began:.1f} s")


async def flat(client: httpx2.AsyncClient, url: str, pid: int, count: int) -> None:
    sizes = []
    for number in range(count):
        await client.post(f"{url}/v1/messages", content=body(f"flat {number} " + "y" * 2_000))
        if (number + 1) % max(1, count // 10) == 0:
            sizes.append(resident_mib(pid))
    print(f"resident set over {count:,} requests: " + ", ".join(f"{one:.0f}" for one in sizes) + " MiB", flush=True)


async def growing(client: httpx2.AsyncClient, url: str, pid: int, name: str, kib: int, turns: int) -> None:
    """Print the processor time of whole conversations, and the growth of their sum from each length to twice that."""
    lengths, spent = [turns // 8, turns // 4, turns // 2, turns], list[float]()
    for length in lengths:
        before = busy_seconds(pid)
        for number in range(length):
            content = body(f"long {name} {length} " + "x" * 1024 * kib, number)
            await client.post(f"{url}/v1/messages", content=content)
        spent.append(busy_seconds(pid) - before)
    # Processor time has a resolution of 10 ms, so it can be 0 for short conversations.
    exponents = [math.log2(long / short) if long and short else math.nan for short, long in pairwise(spent)]
    print(
        f"{name}, conversations of {', '.join(f'{one:,}' for one in lengths)} turns, {kib:,} KiB at the start: "
        f"{', '.join(f'{one:.2f}' for one in spent)} s of processor time, "
        f"exponents {', '.join(f'{one:.2f}' for one in exponents)}", flush=True,
    )  # fmt: skip


async def measure(urls: dict[str, str], pids: dict[str, int], chosen: argparse.Namespace) -> None:
    async with httpx2.AsyncClient(timeout=120, limits=httpx2.Limits(max_connections=None)) as client:
        if chosen.requests:
            await first_bytes(client, urls, chosen)
        if chosen.streams:
            await streams(client, urls["gateway"], chosen.streams)
        if chosen.flat:
            await flat(client, urls["gateway"], pids["gateway"], chosen.flat)
        for kib in (0, chosen.kib) if chosen.turns else ():
            for name in ("plain proxy", "gateway", "gateway under mask"):
                await growing(client, urls[name], pids[name], name, kib, chosen.turns)


def resident_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def busy_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("kib", 1024), ("requests", 100), ("streams", 200), ("flat", 10_000), ("turns", 2_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--think", type=float, default=0.1, help="seconds before the upstream's first byte")
    chosen = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    urls: dict[str, str] = {}
    pids: dict[str, int] = {}
    started = []
    with own_folder() as runs:
        upstream = ""
        for kind, name in (
            ("up", "upstream itself"), ("plain", "plain proxy"), ("full", "gateway"), ("mask", "gateway under mask")
        ):  # fmt: skip
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(kind, upstream, there, f"{runs}/{kind}"), daemon=True)
            process.start()
            started.append((process, here))
            urls[name], pids[name] = here.recv(), process.pid or 0
            upstream = upstream or urls[name]
        asyncio.run(measure(urls, pids, chosen))
        for process, pipe in started[2:]:
            pipe.send("end")
            process.join(60)
        for process, _ in started[:2]:
            process.terminate()


if __name__ == "__main__":
    main()
