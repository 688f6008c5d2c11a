"""No key reaches another provider, no redirect is passed on, and the token is neither forwarded nor recorded."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec.structs import replace

from stackmem.doors.gateway.agents import agent_command, agent_environ
from stackmem.doors.gateway.providers import Misdirected, may_use_own_key, provider_of
from stackmem.doors.gateway.serving import GatewayTerms, ServedGateway, serving
from stackmem.doors.gateway.upstream import own_keys, upstreams
from tests.doors.gateway.test_proxy import CLIENT, DONE, HEADERS
from tests.doors.gateway.upstream import RawAnswer, RawUpstream, message_events, request, text, use, user

OPENAI, ANTHROPIC, GOOGLE = "sk-proj-0123456789abcdefghij", "sk-ant-api03-0123456789abcdef", "AIza" + "b" * 35
OWN = {"ANTHROPIC_API_KEY": ANTHROPIC, "OPENAI_API_KEY": OPENAI}
EMPTY = RawAnswer((b"{}",), headers=(("content-type", "application/json"),))
BODY = request(user("Hi"))


class Both:
    """A server for each provider, and a gateway between them and a client."""

    def __init__(self, anthropic: RawUpstream, openai: RawUpstream, served: ServedGateway) -> None:
        self.anthropic, self.openai, self.served = anthropic, openai, served

    def send(self, method: str, path: str, **headers: str) -> httpx2.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return CLIENT.request(method, f"{self.served.url}{path}", content=BODY, headers=named)

    @property
    def reached(self) -> list[str]:
        """Return whose server received a request, in order of the providers."""
        return ["anthropic"] * len(self.anthropic.seen) + ["openai"] * len(self.openai.seen)

    @property
    def keys(self) -> str:
        return json.dumps([headers for _, headers, _ in (*self.anthropic.seen, *self.openai.seen)])


@contextmanager
def both(runs: Path, **more: Any) -> Iterator[Both]:
    answers = {"answer": lambda _: EMPTY}
    with RawUpstream(**answers) as anthropic, RawUpstream(**answers) as openai:
        to = upstreams(None, {"ANTHROPIC_BASE_URL": anthropic.url, "OPENAI_BASE_URL": f"{openai.url}/v1"})
        with serving(GatewayTerms(replace(to, keys=own_keys(OWN), **more), runs), {}) as served:
            yield Both(anthropic, openai, served)


@pytest.mark.parametrize(
    ("path", "headers", "owner"),
    [
        ("/v1/messages", {"x_api_key": ANTHROPIC}, "anthropic"),
        ("/v1/messages", {"authorization": f"Bearer {ANTHROPIC}", "anthropic_version": "1"}, "anthropic"),
        ("/v1/messages/count_tokens", {}, "anthropic"),
        ("/v1/models", {"x_api_key": ANTHROPIC}, "anthropic"),
        ("/v1/models", {"anthropic_version": "1"}, "anthropic"),
        ("/v1/models", {"authorization": f"Bearer {ANTHROPIC}"}, "anthropic"),
        ("/v1/something/new", {"anthropic_beta": "new"}, "anthropic"),
        ("/api/hello", {}, "anthropic"),
        ("/api/claude_code/settings", {"authorization": f"Bearer {ANTHROPIC}"}, "anthropic"),
        ("/v1/chat/completions", {"authorization": f"Bearer {OPENAI}"}, "openai"),
        ("/chat/completions", {"authorization": f"Bearer {OPENAI}"}, "openai"),
        ("/v1/responses/resp_1", {"authorization": f"Bearer {OPENAI}"}, "openai"),
        ("/v1/models", {"authorization": f"Bearer {OPENAI}"}, "openai"),
        ("/v1/embeddings", {"authorization": f"Bearer {OPENAI}"}, "openai"),
        ("/v1/threads/t/messages", {"authorization": f"Bearer {OPENAI}"}, "openai"),
        ("/v1/something/new", {"openai_organization": "org"}, "openai"),
        ("/v1/chat/completions", {"api_key": "azure"}, "openai"),
    ],
)
def test_a_request_goes_to_the_provider_that_it_belongs_to(tmp_path, path, headers, owner):
    with both(tmp_path) as made:
        assert made.send("POST", path, **headers).status_code == 200
        assert made.reached == [owner]


@pytest.mark.parametrize(
    ("path", "headers", "says"),
    [
        ("/v1/chat/completions", {"x_goog_api_key": GOOGLE}, "Google"),
        ("/v1/models", {"x_goog_api_key": GOOGLE}, "Google"),
        ("/v1beta/models/gemini:generateContent", {"authorization": f"Bearer {OPENAI}"}, "Google"),
        ("/v1/models?key=abc", {}, "Google"),
        ("/v1/chat/completions", {"authorization": f"Bearer {GOOGLE}"}, "Google"),
        ("/v1/chat/completions", {"x_api_key": ANTHROPIC}, "Anthropic and OpenAI"),
        ("/v1/chat/completions", {"authorization": f"Bearer {ANTHROPIC}"}, "Anthropic and OpenAI"),
        ("/v1/chat/completions", {"authorization": f"Bearer {OPENAI}", "anthropic_version": "1"}, "Anthropic and"),
        ("/v1/threads/t/messages", {"x_api_key": ANTHROPIC}, "Anthropic and OpenAI"),
        ("/v1/messages", {"openai_organization": "org"}, "Anthropic and OpenAI"),
        ("/v1/messages", {"api_key": "azure"}, "Anthropic and OpenAI"),
        ("/v1/something/new", {"authorization": f"Bearer {OPENAI}"}, "no provider is known for the path"),
        ("/admin", {}, "no provider is known for the path"),
    ],
)
def test_a_request_of_another_provider_or_of_none_is_refused(tmp_path, path, headers, says):
    with both(tmp_path) as made:
        refused = made.send("POST", path, **headers)
        assert (refused.status_code, says in refused.json()["error"]["message"]) == (400, True)
        assert made.reached == []


def test_a_key_of_azure_does_not_reach_openai_itself():
    plain = upstreams(None, {})
    with pytest.raises(Misdirected, match="Azure and OpenAI"):
        provider_of("/v1/chat/completions", "", [(b"api-key", b"k")], plain)
    with pytest.raises(Misdirected, match="for Azure"):
        provider_of("/openai/deployments/x", "", [(b"api-key", b"k")], plain)


def test_one_provider_that_is_named_gets_its_own_requests_alone():
    only = upstreams("anthropic", {})
    assert provider_of("/v1/messages", "", [], only) == "anthropic"
    with pytest.raises(Misdirected, match="for OpenAI, and this gateway does not forward to it"):
        provider_of("/v1/chat/completions", "", [(b"authorization", f"Bearer {OPENAI}".encode())], only)


def test_claude_codes_connection_check_reaches_its_provider(tmp_path):
    with both(tmp_path) as made:
        assert CLIENT.head(f"{made.served.url}/api/hello").status_code in (200, 501)  # 501: no HEAD
        assert made.openai.seen == []


@pytest.mark.parametrize(
    "path", ["/v1/messages/../../admin", "/v1/messages/%2e%2e/%2e%2e/admin", "//evil.test/v1/messages"]
)
def test_no_path_outside_of_the_upstreams_prefix_is_reached(tmp_path, path):
    import socket

    with RawUpstream(answer=lambda _: EMPTY) as upstream:
        to = upstreams(f"{upstream.url}/prefix", {})
        with serving(GatewayTerms(replace(to, keys=own_keys(OWN), replaces=True), tmp_path), {}) as served:
            for target in (
                f"/{served.token}{path}",
                f"http://127.0.0.1:{served.port}/{served.token}{path}",
                f"@x{path}",
            ):
                head = (
                    f"POST {target} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nx-stackmem-token: {served.token}\r\n"
                )
                with socket.create_connection(("127.0.0.1", served.port), timeout=60) as client:
                    client.sendall(f"{head}Content-Length: 2\r\nConnection: close\r\n\r\n{{}}".encode())
                    assert client.recv(99).split()[1] == b"400"
        assert upstream.seen == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_neither_followed_nor_passed_on(tmp_path, status):
    with RawUpstream(answer=lambda _: EMPTY) as elsewhere:
        to = RawAnswer((b"",), status, (("location", f"{elsewhere.url}/v1/messages"),))
        with RawUpstream(to) as upstream, serving(GatewayTerms(upstreams(upstream.url, {}), tmp_path), {}) as served:
            answer = CLIENT.post(f"{served.url}/v1/messages", content=BODY, headers=HEADERS, follow_redirects=True)
        assert (answer.status_code, "location" in answer.headers) == (502, False)
        assert "redirects" in answer.json()["error"]["message"]
        assert (len(upstream.seen), elsewhere.seen) == (1, [])


def test_the_token_in_place_of_a_key_is_replaced_by_the_users_key(tmp_path):
    with both(tmp_path) as made:
        bare, token = made.served.bare, made.served.token
        CLIENT.post(f"{bare}/v1/messages", content=BODY, headers={"x-api-key": token})
        CLIENT.post(f"{bare}/v1/chat/completions", content=BODY, headers={"authorization": f"Bearer {token}"})
        refused = CLIENT.post(f"{bare}/v1/batches", content=BODY, headers={"authorization": f"Bearer {token}"})
        (_, messages, _), (_, chat, _) = made.anthropic.seen[0], made.openai.seen[0]
        assert (messages["x-api-key"], chat["authorization"]) == (ANTHROPIC, f"Bearer {OPENAI}")
        assert (refused.status_code, len(made.reached)) == (400, 2)
        assert token not in made.keys


def test_with_the_token_in_the_path_only_the_clients_own_key_is_forwarded(tmp_path):
    with both(tmp_path) as made:
        made.send("POST", "/v1/messages")
        made.send("POST", "/v1/messages", x_api_key="hers")
        sent = [headers.get("x-api-key") for _, headers, _ in made.anthropic.seen]
        assert sent == [None, "hers"]


@pytest.mark.parametrize(
    ("method", "path", "may"),
    [
        ("POST", "/v1/messages", True), ("POST", "/messages/", True), ("POST", "/v1/messages/count_tokens", True),
        ("POST", "/v1/embeddings", True), ("GET", "/v1/models", True), ("GET", "/v1/models/vendor/name", True),
        ("DELETE", "/v1/models/mine", False), ("POST", "/v1/models/mine", False), ("GET", "/v1/messages", False),
        ("POST", "/v1/organizations/v1/messages", False), ("POST", "/v1/x/messages/count_tokens", False),
        ("POST", "/admin/v1/chat/completions", False), ("POST", "/v1/embeddings/jobs", False),
        ("GET", "/v1/modelsx", False), ("POST", "/v1/v1/messages", False), ("POST", "", False),
    ],
)  # fmt: skip
def test_the_users_key_goes_with_whole_paths_only(method, path, may):
    assert may_use_own_key(method, path) is may


def test_keys_of_the_gateways_own_replace_whatever_a_client_brings_and_buy_replies_alone(tmp_path):
    with both(tmp_path, replaces=True) as made:
        made.send("POST", "/v1/messages", x_api_key="stackmem")
        made.send("POST", "/v1/chat/completions", authorization="Bearer stackmem")
        for path in ("/v1/files", "/v1/batches", "/v1/messages/batches", "/v1/images/generations"):
            assert made.send("POST", path, anthropic_version="1" if "messages" in path else "").status_code == 400
        assert made.reached == ["anthropic", "openai"]
        assert "stackmem" not in made.keys


def test_the_token_is_not_recorded_though_an_agent_printed_it(tmp_path):
    calls = [use("run", "c1", command="env")]
    asks = RawAnswer(message_events(*calls, stop="tool_use"))
    with (
        RawUpstream(asks, DONE) as upstream,
        serving(GatewayTerms(upstreams(upstream.url, {}), tmp_path), {}) as served,
    ):
        told = f"ANTHROPIC_BASE_URL={served.url} {served.token}"
        CLIENT.post(f"{served.url}/v1/messages", content=request(user(told)), headers=HEADERS)
        CLIENT.post(f"{served.url}/v1/messages", content=request(user(told), text=text("x")), headers=HEADERS)
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert served.token.encode() not in written
    assert b"[secret STACKMEM_GATEWAY_TOKEN]" in written
    assert served.token not in json.dumps([(path, headers) for path, headers, _ in upstream.seen])


def test_an_agents_command_line_contains_no_token():
    environ = agent_environ({"PATH": "/bin"}, "http://127.0.0.1:1/secret-token", "secret-token")
    assert "secret-token" in environ["ANTHROPIC_BASE_URL"]
    words = agent_command(["/opt/codex", "exec", "x"], "http://127.0.0.1:1")
    assert "secret-token" not in " ".join(words)
    assert 'env_http_headers={"x-stackmem-token"="STACKMEM_GATEWAY_TOKEN"}' in words[4]
    assert environ["STACKMEM_GATEWAY_TOKEN"] == "secret-token"
