"""The third-party server of both protocols, started once for all tests that use it."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node import node

ROOT = Path(__file__).parents[2]
AIMOCK = ROOT / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"


@pytest.fixture(scope="session")
def aimock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start @copilotkit/aimock on loopback with ``aimock.json`` and return its address."""
    if not AIMOCK.exists():
        pytest.fail("the npm package @copilotkit/aimock is not installed; run `make test`, which installs it")
    fixtures = Path(__file__).with_name("aimock.json")
    command = [node(), AIMOCK, "--port", "0", "--host", "127.0.0.1", "--fixtures", fixtures, "--strict"]
    said = tmp_path_factory.mktemp("aimock") / "said.txt"  # an unread pipe would block the server
    with said.open("w") as out, subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT) as server:
        try:
            yield _address(server, said)
        finally:
            server.terminate()
            server.wait(100)


def _address(server: subprocess.Popen[bytes], said: Path) -> str:
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline and server.poll() is None:
        if found := re.search(r"http://127\.0\.0\.1:\d+", said.read_text()):
            return found.group()
        time.sleep(0.02)
    pytest.fail(f"aimock did not start: {said.read_text()}")
