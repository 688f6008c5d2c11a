"""Check that `stackmem bench` reports the same tokens of a real model as its server.

    llama-server --model FILE --metrics --parallel 1 --port 8080
    python benchmarks/bench_real.py --model llamacpp/NAME --base-url http://127.0.0.1:8080/v1
    python benchmarks/bench_real.py --tiny                     # with a built-in server that answers without a model

It reads the server's counters before and after a small bench and compares them with the sums of the bench's rows. The
server must not handle other requests in the meantime. A difference of one token gives exit code 1.
"""

import argparse
import json
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from benchmarks._folder import own_folder
from stackmem.lab.bench.results import read_results

COUNTERS = {
    "evaluated": ("uncached_tokens", "prompt_tokens_total"),
    "cached": ("cache_read_tokens", "prompt_tokens_cached_total"),
    "written": ("output_tokens", "tokens_predicted_total"),
}
"""For each kind of token, the column of a bench and llama.cpp's counter."""


def counters(address: str) -> dict[str, int]:
    with urllib.request.urlopen(f"{address.removesuffix('/').removesuffix('/v1')}/metrics", timeout=60) as answer:
        text = answer.read(1 << 20).decode()
    found = {name: float(value) for name, value in re.findall(r"^llamacpp:(\w+) ([\d.e+]+)$", text, re.MULTILINE)}
    missing = [name for _, name in COUNTERS.values() if name not in found]
    if missing:
        raise SystemExit(f"{address} has no counter {missing[0]}; start llama.cpp's server with --metrics")
    return {kind: round(found[name]) for kind, (_, name) in COUNTERS.items()}


def run_bench(given: argparse.Namespace, model: str, address: str, place: Path) -> dict[str, int]:
    """Run a bench and return the sums of its rows."""
    words = [
        "bench", "env_trap", "--horizon", "10", "--noise", "0", "--strategies", given.strategies, "--models", model,
        "--base-url", address, "--trials", "1", "--jobs", "1", "--max-steps", str(given.steps), "-o", str(place),
        *given.extra,
    ]  # fmt: skip
    done = subprocess.run([sys.executable, "-m", "stackmem", *words], capture_output=True, text=True, check=False)
    if not (place / "results.sqlite").is_file():
        raise SystemExit(f"the bench made no results (exit {done.returncode})\n{done.stderr[-2_000:]}")
    rows = read_results(place)
    if not any(row["model_calls"] for row in rows):
        raise SystemExit(f"no trial sent a request to the model\n{done.stdout[-1_000:]}\n{done.stderr[-1_000:]}")
    return {kind: sum(row[column] or 0 for row in rows) for kind, (column, _) in COUNTERS.items()}


class StubServer(BaseHTTPRequestHandler):
    """A server that requests a listing in every reply, and counts tokens like llama.cpp."""

    counted: dict[str, int] = dict.fromkeys((name for _, name in COUNTERS.values()), 0)

    def do_GET(self) -> None:
        listed = json.dumps({"data": [{"id": "stub", "meta": {"n_ctx": 16_384}}]})
        lines = "".join(f"llamacpp:{name} {value}\n" for name, value in self.counted.items())
        self.answer(lines if self.path == "/metrics" else listed, "text/plain")

    def do_POST(self) -> None:
        prompt = len(self.rfile.read(int(self.headers["content-length"]))) // 4
        cached, written = prompt // 3, 20 + prompt % 7
        for name, tokens in zip(self.counted, (prompt - cached, cached, written), strict=True):
            self.counted[name] += tokens
        function = {"name": "list_files", "arguments": "{}"}
        call = {"index": 0, "id": f"call_{prompt}", "type": "function", "function": function}
        usage = {
            "prompt_tokens": prompt, "completion_tokens": written, "prompt_tokens_details": {"cached_tokens": cached},
        }  # fmt: skip
        chunks = (
            {"choices": [{"index": 0, "delta": {"role": "assistant", "tool_calls": [call]}}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
            {"choices": [], "usage": usage},
        )
        lines = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
        self.answer(f"{lines}data: [DONE]\n\n", "text/event-stream")

    def answer(self, text: str, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Suppress the log."""


@contextmanager
def stub_server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), StubServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def compare(given: argparse.Namespace, model: str, address: str) -> bool:
    before = counters(address)
    with own_folder() as place:
        rows = run_bench(given, model, address, place / "bench")
    after = counters(address)
    print("| tokens | the bench | the server |\n|---|---:|---:|")
    for kind, tokens in rows.items():
        print(f"| {kind} | {tokens:,} | {after[kind] - before[kind]:,} |")
    return all(tokens == after[kind] - before[kind] for kind, tokens in rows.items()) and rows["written"] > 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="llamacpp/model")
    parser.add_argument("--base-url", default="http://127.0.0.1:8080/v1")
    parser.add_argument("--strategies", default="full,adaptive")
    parser.add_argument("--steps", type=int, default=4, help="of each run")
    parser.add_argument("--tiny", action="store_true", help="use a built-in server that answers without a model")
    parser.add_argument("extra", nargs="*", help="more options for stackmem bench, after --")
    given = parser.parse_args()
    if given.tiny:
        with stub_server() as address:
            same = compare(given, "llamacpp/stub", address)
    else:
        same = compare(given, given.model, given.base_url)
    print(
        "the token counts are equal"
        if same
        else "the token counts differ: a request was interrupted, or the server handled other requests"
    )
    sys.exit(not same)


if __name__ == "__main__":
    main()
