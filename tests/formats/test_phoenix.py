"""A real Phoenix, named by the variable ``PHOENIX`` (``pip install arize-phoenix``), shows a run's spans."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.stage import TASKS, Stage

PROGRAM = os.environ.get("PHOENIX", "")
WAIT_SECONDS = 300


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def phoenix(tmp_path: Path) -> Iterator[str]:
    """Start a private Phoenix and return its address."""
    port, said = free_port(), tmp_path / "said.txt"
    environ = {
        **os.environ, "PHOENIX_WORKING_DIR": str(tmp_path), "PHOENIX_HOST": "127.0.0.1", "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()), "PHOENIX_TELEMETRY_ENABLED": "false",
    }  # fmt: skip
    with said.open("w") as out, subprocess.Popen([PROGRAM, "serve"], env=environ, stdout=out, stderr=out) as server:
        try:
            end = time.monotonic() + WAIT_SECONDS
            while "running on" not in said.read_text():
                assert server.poll() is None, said.read_text()[-2_000:]
                assert time.monotonic() < end, said.read_text()[-2_000:]
                time.sleep(0.2)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(100)


@pytest.mark.campaign
@pytest.mark.skipif(not PROGRAM, reason="PHOENIX does not name a Phoenix program")
def test_phoenix_shows_models_tools_agents_and_memory(phoenix: str, stage: Stage) -> None:
    solved = stage.solve(TASKS / "calculator", model="demo", otel=phoenix)
    assert solved.outcome == "solved"
    kinds: Counter[str] = Counter()
    end = time.monotonic() + WAIT_SECONDS
    while kinds.total() < 36 and time.monotonic() < end:
        time.sleep(0.5)
        with urlopen(f"{phoenix}/v1/projects/default/spans?limit=1000") as answer:
            shown = json.load(answer)["data"]
        kinds = Counter(span["span_kind"] for span in shown)
    assert kinds == {"LLM": 14, "TOOL": 14, "AGENT": 3, "UNKNOWN": 5}
    chats = [span["attributes"] for span in shown if span["span_kind"] == "LLM"]
    assert all(chat["llm.token_count.prompt"] > 0 for chat in chats)
    sent = stage.call("export", solved.run, "--format", "otel", "--endpoint", phoenix)
    assert "36 spans sent" in sent.stdout
