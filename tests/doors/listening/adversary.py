"""Attacks on a listener by another user of the machine and by a web page."""

from __future__ import annotations

import http.client
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from tests.workspace.people import NOBODY, as_user

BODY = b'{"model":"claude-sonnet-5-5","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}'
HELLO = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
    b'"clientInfo":{"name":"other","version":"1"}}}'
)
"""A client's first message to the memory server."""
PATHS = ("/v1/messages", "/v1/chat/completions", "/mcp", "/command", "/rows", "/")
_WORD = re.compile(rb"[A-Za-z0-9_-]{16,}")


def words_of_others() -> list[str]:
    """Return words in all readable process command lines and environments that could be a token."""
    found: set[bytes] = set()
    for place in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ") if os.geteuid() == NOBODY else ("cmdline",):
            try:
                found |= set(_WORD.findall((place / name).read_bytes()))
            except OSError:
                continue
    return sorted(word.decode() for word in found if len(word) == 32)  # like our random tokens


def passed(port: int) -> tuple[list[str], list[str]]:
    """As another user: return each accepted request to a port, and the words tried as tokens."""

    def attack() -> tuple[list[str], list[str]]:
        words = words_of_others()
        return [told for told in _told(port, words) if not told.startswith("4")], words

    return as_user(NOBODY, attack) if os.geteuid() == 0 else attack()


def _told(port: int, words: list[str]) -> Iterator[str]:
    own = f"127.0.0.1:{port}"
    for path in PATHS:
        for method in ("GET", "POST"):
            for headers in (
                {},
                {"x-api-key": "stackmem", "anthropic-version": "1"},
                {"authorization": "Bearer stackmem"},
                {"authorization": "Bearer "},
                {"x-stackmem-token": ""},
                {"host": "localhost", "x-stackmem-token": "0" * 32},
                {"origin": f"http://{own}", "content-type": "application/json"},
            ):
                yield _ask(port, method, path, {"host": own, **headers})
        for word in ("", *words):
            headers = {"host": own, "content-type": "application/json", "authorization": f"Bearer {word}"}
            yield _ask(port, "POST", path, {**headers, "accept": "application/json, text/event-stream"}, HELLO)
        for word in words:
            yield _ask(port, "POST", f"/{word}{path}", {"host": own})
            yield _ask(port, "POST", path, {"host": own, "x-api-key": word})


def _ask(port: int, method: str, path: str, headers: dict[str, str], body: bytes = BODY) -> str:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        client.request(method, path, body if method == "POST" else None, headers)
        return f"{client.getresponse().status} {method} {path} {headers}"
    finally:
        client.close()


def page_of(targets: list[str]) -> str:
    """Return a page that sends every kind of browser request to each address and sets its title when it is done."""
    return "<!doctype html><title>begun</title><body><script>" + _SCRIPT.replace("TARGETS", json.dumps(targets))


_SCRIPT = """
const body = JSON.stringify({model: "claude-sonnet-5-5", max_tokens: 9, messages: [{role: "user", content: "Hi"}]});
const quiet = promise => promise.catch(() => null);
const loaded = made => new Promise(done => { made.onload = made.onerror = done; document.body.append(made); });
const attack = async target => {
  for (const mode of ["no-cors", "cors"]) for (const method of ["GET", "POST"])
    await quiet(fetch(target, {method, mode, body: method === "POST" ? body : undefined}));
  await quiet(fetch(target, {method: "POST", body, headers: {"content-type": "application/json", "x-api-key": "k"}}));
  await quiet(fetch(target, {method: "POST", body, credentials: "include", referrerPolicy: "no-referrer"}));
  navigator.sendBeacon(target, body);
  for (const [tag, name] of [["img", "src"], ["script", "src"], ["iframe", "src"]]) {
    const made = document.createElement(tag); made[name] = target; await loaded(made);
  }
  for (const encoding of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]) {
    const frame = document.createElement("iframe"); frame.name = "f" + Math.random();
    const arrived = loaded(frame); await arrived;
    const form = document.createElement("form"); const field = document.createElement("input");
    form.method = "post"; form.action = target; form.enctype = encoding; form.target = frame.name;
    field.name = body.slice(0, -1) + ',"x":"'; field.value = '"}'; form.append(field); document.body.append(form);
    const answered = new Promise(done => { frame.onload = frame.onerror = done; setTimeout(done, 2000); });
    form.submit(); await answered;
  }
  for (const made of [() => new EventSource(target), () => new WebSocket(target.replace("http", "ws"))])
    await new Promise(done => { const s = made(); s.onerror = s.onopen = () => { s.close(); done(); }; });
};
(async () => { for (const target of TARGETS) await attack(target); document.title = "done"; })();
</script>
"""
