"""What the gateway adds, beside a plain reverse proxy in the same run: ``python benchmarks/gateway.py``.

Both stand on Starlette, uvicorn and httpx2, in one process each, and forward to the same upstream on loopback, which
answers a fixed stream. Requests go to the upstream itself, the plain proxy and the gateway in turn, so that what the
machine does meanwhile falls on all. Measured from the first byte sent to the first streamed byte.

Figures: milliseconds to the first byte with requests of ``--kib``; streams at once; the resident set over requests;
the time that a conversation of many turns takes in the gateway, and how it grows.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from stackmem.gateway.serving import GatewayTerms, serving
from stackmem.gateway.upstream import Upstreams

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
    if kind == "gateway":
        with serving(GatewayTerms(Upstreams(upstream, upstream), Path(runs)), {}) as served:
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
    """The next turn of a conversation of so many KiB: half of it stands in one message, half in many."""
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


async def measure(urls: dict[str, str], pid: int, chosen: argparse.Namespace) -> None:
    async with httpx2.AsyncClient(timeout=120, limits=httpx2.Limits(max_connections=None)) as client:
        turns = 0
        for think in (0.0, chosen.think):
            times: dict[str, list[float]] = {name: [] for name in urls}
            size = len(large(chosen.kib, turns)) / 1024
            print(
                f"{chosen.requests:,} turns of {size:,.0f} KiB to each; the upstream thinks for {think * 1000:.0f} ms"
            )
            for number in range(chosen.requests + 5):
                content, turns = large(chosen.kib, turns), turns + 1
                for name, url in urls.items():
                    value = await first_byte(client, url, content, think)
                    if number >= 5:
                        times[name].append(value)
            for name, values in times.items():
                told(name, values)
            told("added to the plain proxy", [
                one - other for one, other in zip(times["gateway"], times["plain proxy"], strict=True)
            ])  # fmt: skip
        began = time.perf_counter()
        paused = {"x-pause": "0.05"}
        streams = [client.post(f"{urls['gateway']}/v1/messages", content=body(f"s{number}"), headers=paused)
                   for number in range(chosen.streams)]  # fmt: skip
        answers = await asyncio.gather(*streams)
        whole = sum(one.content == b"".join(PIECES) for one in answers)
        print(f"{chosen.streams} streams at once: {whole} whole, {time.perf_counter() - began:.1f} s")
        sizes = []
        for number in range(chosen.flat):
            await client.post(f"{urls['gateway']}/v1/messages", content=body(f"flat {number} " + "y" * 2_000))
            if (number + 1) % max(1, chosen.flat // 5) == 0:
                sizes.append(resident_mib(pid))
        print(f"resident set over {chosen.flat:,} requests: " + ", ".join(f"{one:.0f}" for one in sizes) + " MiB")
        halves = []
        for turns in (chosen.turns // 2, chosen.turns):
            before = busy_seconds(pid)
            for number in range(turns):
                await client.post(f"{urls['gateway']}/v1/messages", content=body(f"long {turns}", number))
            halves.append(busy_seconds(pid) - before)
        exponent = math.log2(halves[1] / halves[0])
        spent = f"{halves[0]:.1f} and {halves[1]:.1f} s of processor time, exponent {exponent:.2f}"
        print(f"a conversation of {chosen.turns // 2:,} and of {chosen.turns:,} turns: {spent}")


def resident_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def busy_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("kib", 1024), ("requests", 100), ("streams", 200), ("flat", 10_000), ("turns", 1_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--think", type=float, default=0.1, help="seconds before the upstream's first byte")
    chosen = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    urls: dict[str, str] = {}
    started = []
    with tempfile.TemporaryDirectory() as runs:
        upstream = ""
        for kind, name in (("up", "upstream itself"), ("plain", "plain proxy"), ("gateway", "gateway")):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(kind, upstream, there, runs), daemon=True)
            process.start()
            started.append((process, here))
            urls[name] = here.recv()
            upstream = upstream or urls[name]
        asyncio.run(measure(urls, started[-1][0].pid or 0, chosen))
        started[-1][1].send("end")
        started[-1][0].join(60)
        for process, _ in started[:-1]:
            process.terminate()


if __name__ == "__main__":
    main()
