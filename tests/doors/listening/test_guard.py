"""The guard accepts clients with the token, under its own name, and forwards only plain paths without the token."""

import asyncio
from typing import Any

import pytest

from stackmem.core.errors import UsageError
from stackmem.doors.listening.guard import TOKEN_WAY, Guard, host_names, leaves_its_folder
from stackmem.doors.listening.token import token_of

TOKEN = "abcdefghijklmnop"
HOST = "127.0.0.1:8765"
HERE = f"http://{HOST}"


def ask(target: str, method: str = "POST", *, any_address: bool = False, **headers: str) -> tuple[int, Any]:
    """Return the guard's status, 0 if it passes the request on, and the forwarded scope."""
    passed: list[Any] = []
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        passed.append(scope)

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    named = {"host": HOST, **{name.replace("_", "-"): value for name, value in headers.items()}}
    scope = {
        "type": "http", "method": method, "raw_path": target.encode(), "path": target, "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in named.items() if value != "-"],
    }  # fmt: skip
    guard = Guard(app, TOKEN, host_names(8765), any_address=any_address)
    asyncio.run(guard(scope, receive, send))
    return (0, passed[0]) if passed else (sent[0]["status"], None)


@pytest.mark.parametrize(
    ("target", "headers", "way"),
    [
        (f"/{TOKEN}/v1/messages", {}, "path"),
        (f"/{TOKEN}/v1/messages", {"x_api_key": "own"}, "path"),
        ("/v1/messages", {"x_stackmem_token": TOKEN}, "header"),
        ("/v1/messages", {"x_stackmem_token": TOKEN, "authorization": "Bearer own"}, "header"),
        ("/v1/messages", {"authorization": f"Bearer {TOKEN}"}, "key"),
        ("/v1/messages", {"authorization": f"bearer  {TOKEN} "}, "key"),
        ("/v1/messages", {"x_api_key": TOKEN}, "key"),
    ],
)
def test_the_token_comes_in_the_path_or_in_a_header_and_is_taken_out(target, headers, way):
    status, scope = ask(target, **headers)
    assert (status, scope["raw_path"], scope["path"], scope[TOKEN_WAY]) == (0, b"/v1/messages", "/v1/messages", way)
    assert TOKEN.encode() not in b" ".join(value for _, value in scope["headers"])
    kept = [value for _, value in scope["headers"] if b"own" in value]
    assert len(kept) == sum("own" in value for value in headers.values())


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        ("/", {}),
        ("/v1/messages", {}),
        (f"/{TOKEN[:-1]}/v1/messages", {}),
        (f"/{TOKEN}x/v1/messages", {}),
        (f"//{TOKEN}/v1/messages", {}),
        (f"/%61{TOKEN[1:]}/v1/messages", {}),
        (f"http://{HOST}/{TOKEN}/v1/messages", {}),
        (f"{TOKEN}/v1/messages", {}),
        (f"/v1/{TOKEN}/messages", {}),
        (f"/v1/messages?token={TOKEN}", {}),
        ("/v1/messages", {"cookie": TOKEN}),
        ("/v1/messages", {"x_api_key": f"{TOKEN},{TOKEN}"}),
        ("/v1/messages", {"authorization": f"Basic {TOKEN}"}),
        ("/v1/messages", {"x_stackmem_token": TOKEN.upper()}),
        ("/v1/messages", {"x_stackmem_token": ""}),
    ],
)
def test_without_the_token_no_request_passes(target, headers):
    assert ask(target, **headers)[0] == 401


@pytest.mark.parametrize(
    "host", ["evil.test:8765", "evil.test", "127.0.0.1", "127.0.0.1:1", "127.0.0.2:8765", "", "-", "localhost.:8765"]
)
def test_a_name_that_was_bound_to_this_address_is_refused(host):
    assert ask(f"/{TOKEN}/v1/messages", host=host)[0] == 421


@pytest.mark.parametrize("host", ["localhost:8765", "LOCALHOST:8765", "[::1]:8765"])
def test_every_name_of_loopback_is_its_own(host):
    assert ask(f"/{TOKEN}/v1/messages", host=host)[0] == 0


def test_a_server_for_others_is_reached_by_any_address_and_by_no_foreign_name():
    for host, status in (
        ("192.0.2.7:8765", 0),
        ("[2001:db8::1]:9", 0),
        ("evil.test:8765", 421),
        ("10.0.0.1.evil", 421),
    ):
        assert ask(f"/{TOKEN}/v1/messages", any_address=True, host=host)[0] == status


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.test"},
        {"origin": "null"},
        {"origin": f"https://{HOST}"},
        {"origin": "http://localhost:8765"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"origin": HERE, "sec_fetch_site": "cross-site"},
    ],
)
def test_no_page_of_another_origin_is_answered_though_it_has_the_token(headers):
    assert ask(f"/{TOKEN}/v1/messages", **headers)[0] == 403
    assert ask(f"/{TOKEN}/v1/messages", "GET", **headers)[0] == 403


OUTSIDE = (
    "/v1/messages/../../admin", "/..", "/.", "/a/./b", "/v1/%2e%2e/admin", "/v1/%2E%2e/admin", "/v1/.%2e/admin",
    "/v1/..%2fadmin", "/v1/%2e%2e%2fadmin", "/v1/..%5cadmin", "/v1/..\\admin", "/v1\\..\\admin", "/v1/%252e%252e/admin",
    "/v1/%25252e%25252e/admin", "/%2525252525252e", "/v1//admin", "//evil.test/v1", "/v1/%2f%2fevil.test", "/v1/%2f/a",
    "/v1/..;/admin", "/v1/..;a=b/admin", "/v1/..%3b/admin", "/v1/..%23/admin", "/v1/..%3fa/admin", "/v1/a%2F..%3F",
    "/v1/%c0%ae%c0%ae/admin", "/v1/%C1%9cadmin",
    "/v1/..%00/../a", "/v1/a%00b", "/v1/a#b", "/v1/%20../%20/..%20/x", "@evil.test/v1/messages", "http://evil.test/v1",
    "*", "", "/v1/ a", "/v1/\x7f",
)  # fmt: skip
WITHIN = (
    "/", "/v1/messages", "/v1/models/", "/v1/models/a%2Fb%3Fc", "/v1/%0e", "/v1/files/file-1..2", "/v1/models/gpt-4.1",
    "/v1/models/...", "/v1/models/ft:gpt@x+y~z", "/v1/models/%E6%BC%A2", "/v1/models/a%20b", "/v1/.well-known/x",
)  # fmt: skip


@pytest.mark.parametrize("raw", OUTSIDE)
def test_a_path_that_some_reader_could_take_elsewhere_is_refused(raw):
    assert leaves_its_folder(raw)
    if raw.startswith("/"):
        assert ask(f"/{TOKEN}{raw}")[0] == 400


@pytest.mark.parametrize("raw", WITHIN)
def test_a_plain_path_passes_as_it_came(raw):
    status, scope = ask(f"/{TOKEN}{raw}")
    assert (status, scope["raw_path"]) == (0, raw.encode())


def test_a_token_that_a_path_cannot_hold_or_that_is_short_is_refused():
    for given in ("short", "a" * 15, "a/" * 10, "a b" * 10, "é" * 20, "a?" * 10, "a%41" * 6):
        with pytest.raises(UsageError, match="STACKMEM_X_TOKEN"):
            token_of(given, "STACKMEM_X_TOKEN")
    assert token_of(TOKEN, "X") == TOKEN
    assert len({token_of("", "X") for _ in range(9)}) == 9
    assert all(len(token_of("", "X")) >= 32 for _ in range(9))
