"""An adversary against each listener: another user of the machine, and web pages in a real browser.

No request passes and no key is spent, even if a page has learned the token.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from msgspec import Struct
from playwright.sync_api import Browser, sync_playwright

from stackmem.core.facts import ToolReturned
from stackmem.doors.gateway import bench_agent
from tests.doors.gateway.upstream import RawAnswer, RawUpstream, message_events, text
from tests.doors.listening.adversary import BODY, page_of, passed, words_of_others
from tests.lab.bench.test_agent import ASKS, KEY, everything, tried
from tests.review.report.conftest import FLAGS, chromium
from tests.stage import Stage, events, pop
from tests.workspace.people import NOBODY, as_user

EVIL = "evil.test"
SECRET = "sk-ant-api03-the-persons-own-key-0123456789"


class Target(Struct):
    """A listener, and the calls of a legitimate client."""

    name: str
    port: int
    token: str
    paths: tuple[str, ...]
    good: tuple[str, str, dict[str, str]]

    def use(self) -> int:
        """Return the status that a client with the token receives."""
        method, path, headers = self.good
        return httpx2.request(
            method, f"http://127.0.0.1:{self.port}{path}", content=BODY if method == "POST" else None, headers=headers
        ).status_code


def _first_line(stage: Stage, *words: object, env: dict[str, str]) -> tuple[str, subprocess.Popen[str]]:
    started = stage.start(*words, env=env)
    assert started.stdout is not None
    return started.stdout.readline(), started


@contextmanager
def _gateway(stage: Stage, upstream: RawUpstream) -> Iterator[Target]:
    line, started = _first_line(stage, "gateway", "--upstream", upstream.url, env={"ANTHROPIC_API_KEY": SECRET})
    address = urlsplit(line.split("ANTHROPIC_BASE_URL=")[1].split()[0])
    token = address.path.strip("/")
    try:
        yield Target("gateway", address.port or 0, token, ("/v1/messages", "/v1/models"),
                     ("POST", "/v1/messages", {"x-api-key": token}))  # fmt: skip
    finally:
        started.terminate()
        started.communicate(timeout=60)


@contextmanager
def _ui(stage: Stage, upstream: RawUpstream) -> Iterator[Target]:
    stage.solve(stage.task(pop()))
    line, started = _first_line(stage, "ui", env={})
    address = urlsplit(line.strip())
    token = address.path.strip("/")
    try:
        yield Target("ui", address.port or 0, token, ("/command", "/rows"), ("GET", f"/{token}/rows", {}))
    finally:
        started.kill()
        started.communicate(timeout=60)


@contextmanager
def _mcp(stage: Stage, upstream: RawUpstream) -> Iterator[Target]:
    token = "t0ken-of-the-memory-server-01234"
    line, started = _first_line(
        stage, "mcp", str(stage.root), "--http", 0, "--heap", "none", env={"STACKMEM_MCP_TOKEN": token}
    )
    headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
    try:
        yield Target("mcp", urlsplit(line.strip()).port or 0, token, ("/mcp",), ("DELETE", "/mcp", headers))
    finally:
        started.terminate()
        started.communicate(timeout=60)


LISTENERS = {"gateway": _gateway, "ui": _ui, "mcp": _mcp}


@pytest.fixture
def upstream() -> Iterator[RawUpstream]:
    with RawUpstream(answer=lambda _: RawAnswer(message_events(text("Done.")))) as served:
        yield served


@pytest.fixture(params=LISTENERS)
def target(request: pytest.FixtureRequest, stage: Stage, upstream: RawUpstream) -> Iterator[Target]:
    with LISTENERS[request.param](stage, upstream) as made:
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser that resolves evil.test to this machine, as after DNS rebinding, without asking about local access."""
    rebinds = f"--host-resolver-rules=MAP {EVIL} 127.0.0.1"
    flags = [rebinds, "--disable-features=LocalNetworkAccessChecks"]
    environ = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    before = os.environ.get("HOME")
    with tempfile.TemporaryDirectory(prefix="stackmem-chromium-") as home:
        os.environ["HOME"] = home
        with sync_playwright() as driver:
            started = driver.chromium.launch(
                executable_path=chromium(), args=[*FLAGS, *flags], env={**environ, "HOME": home}
            )
            if before:
                os.environ["HOME"] = before
            yield started
            started.close()


def test_a_client_with_the_token_is_answered(target: Target, upstream: RawUpstream):
    assert target.use() in (200, 400)  # the memory server has no session to end
    if target.name == "gateway":
        assert [headers["x-api-key"] for _, headers, _ in upstream.seen] == [SECRET]


def test_no_other_user_passes(target: Target, upstream: RawUpstream):
    not_refused, words = passed(target.port)
    assert not_refused == []
    assert target.token not in words
    assert upstream.seen == []


def test_a_token_in_the_words_of_a_command_would_be_found():
    word = "a-token-in-a-command-line-012345"
    with subprocess.Popen([sys.executable, "-c", "input()", word], stdin=subprocess.PIPE) as process:
        try:
            assert word in (as_user(NOBODY, words_of_others) if os.geteuid() == 0 else words_of_others())
        finally:
            process.kill()


def _visit(browser: Browser, address: str, html: str, port: int) -> list[tuple[int, str]]:
    """Open a page with this text; return the statuses of its requests to a port once it is done."""
    context = browser.new_context()
    page, answers = context.new_page(), list[tuple[int, str]]()
    page.on("response", lambda one: answers.append((one.status, one.url)) if f":{port}/" in one.url else None)
    page.route(address, lambda route: route.fulfill(body=html, content_type="text/html"))
    page.goto(address)
    page.wait_for_function("document.title === 'done'", timeout=240_000)
    context.close()
    return [(status, url) for status, url in answers if url != address]


@pytest.mark.parametrize("origin", ["elsewhere", "rebound", "same site", "null"])
def test_no_web_page_passes_though_it_knows_the_token(
    target: Target, upstream: RawUpstream, browser: Browser, origin: str
):
    host = EVIL if origin == "rebound" else "127.0.0.1"
    paths = [f"{start}{path}" for path in target.paths[:1] for start in ("", f"/{target.token}")]
    html = page_of([f"http://{host}:{target.port}{path}" for path in paths])
    page = {
        "elsewhere": "http://page.test/", "rebound": f"http://{EVIL}:{target.port}/page",
        "same site": "http://127.0.0.1:9/", "null": "http://page.test/",
    }[origin]  # fmt: skip
    if origin == "null":
        framed = html.replace('document.title = "done"', "parent.postMessage('done', '*')").replace('"', "&quot;")
        html = (
            "<!doctype html><script>onmessage = () => { document.title = 'done'; };</script>"
            f'<iframe sandbox="allow-scripts allow-forms" srcdoc="{framed}"></iframe>'
        )
    answers = _visit(browser, page, html, target.port)
    assert [answer for answer in answers if answer[0] < 400] == []
    wanted = {421} if origin == "rebound" else {401, 403}
    assert {status for status, _ in answers} == wanted  # the request did reach the server
    assert upstream.seen == []


def test_the_gateway_of_a_trial_is_closed_to_other_users_and_its_agent_knows_neither_key_nor_token(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
):
    served: list[Any] = []
    attacks: list[tuple[list[str], list[str]]] = []
    begin = bench_agent.serving

    @contextmanager
    def seen(*given: Any) -> Iterator[Any]:
        with begin(*given) as made:
            served.append(made)
            yield made

    monkeypatch.setattr(bench_agent, "serving", seen)

    def answer(_: bytes) -> RawAnswer:
        if not attacks:  # while the agent works
            attacks.append(passed(served[0].port))
        return RawAnswer((b'{"id":"1","choices":[]}',), headers=(("content-type", "application/json"),))

    code = "ask_provider()\nprint(dict(os.environ))\nprint(open('/proc/self/cmdline').read())"
    agent = f"{sys.executable} -c {shlex.quote(ASKS + code)} {{model}} {{instruction}}"
    with RawUpstream(answer=answer) as upstream:
        (row,) = tried(stage, agent, upstream, tasks=(str(stage.task()),))
    ((not_refused, words),) = attacks
    said = events(stage.root / "bench" / row["run"], ToolReturned)[0].text
    token = served[0].token
    assert (not_refused, len(upstream.seen)) == ([], 1)
    assert "OPENAI_BASE_URL" in said
    assert token not in f"{said} {words}"
    assert KEY not in said
    assert token.encode() not in everything(stage.root / "bench")
