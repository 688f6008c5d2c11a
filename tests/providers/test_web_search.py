"""Web searches through the server tools of three providers, against a strict server."""

from __future__ import annotations

from typing import Any

import pytest

from stackmem.core.messages import Usage
from stackmem.models.endpoint import Endpoint
from stackmem.models.web_search import Hit, SearchAnswer, can_search
from stackmem.providers.web_search import search_web

from .search_server import KEY, SearchServer

Json = dict[str, Any]
ADDRESS = "https://docs.example/rules"
CLAUDE: Json = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "stop_reason": "end_turn",
    "content": [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "rounding"}},
        {
            "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1",
            "content": [
                {
                    "type": "web_search_result", "url": ADDRESS, "title": "The rules", "encrypted_content": "x",
                    "page_age": "May 1, 2026",
                },
                {"type": "web_search_result", "url": "https://docs.example/b", "title": "B", "encrypted_content": "y"},
            ],
        },
        {
            "type": "text", "text": "Round once.",
            "citations": [
                {
                    "type": "web_search_result_location", "url": ADDRESS, "title": "The rules",
                    "encrypted_index": "i", "cited_text": "Round once, at the end.",
                }
            ],
        },
    ],
    "usage": {
        "input_tokens": 900, "output_tokens": 60, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0,
        "server_tool_use": {"web_search_requests": 1},
    },
}  # fmt: skip
SAID = "- Round once, at the end. ([The rules](https://docs.example/rules))\n"
OPENAI: Json = {
    "id": "resp_1", "object": "response", "status": "completed",
    "output": [
        {
            "type": "web_search_call", "id": "ws_1", "status": "completed",
            "action": {
                "type": "search", "query": "rounding",
                "sources": [{"type": "url", "url": ADDRESS}, {"type": "url", "url": "https://docs.example/b"}],
            },
        },
        {"type": "web_search_call", "id": "ws_2", "action": {"type": "open_page", "url": ADDRESS}},
        {
            "type": "message", "id": "msg_1", "role": "assistant",
            "content": [
                {
                    "type": "output_text", "text": SAID,
                    "annotations": [
                        {
                            "type": "url_citation", "start_index": SAID.index("(["), "end_index": len(SAID) - 1,
                            "url": ADDRESS, "title": "The rules",
                        }
                    ],
                }
            ],
        },
    ],
    "usage": {
        "input_tokens": 900, "input_tokens_details": {"cached_tokens": 100}, "output_tokens": 60,
        "output_tokens_details": {"reasoning_tokens": 10}, "total_tokens": 960,
    },
}  # fmt: skip
FORWARDING = "https://vertexaisearch.cloud.google.com/grounding-api-redirect/a"
GEMINI: Json = {
    "candidates": [
        {
            "content": {"role": "model", "parts": [{"text": "Round once, at the end. Both agree."}]},
            "finishReason": "STOP",
            "groundingMetadata": {
                "webSearchQueries": ["rounding", "rounding rules"],
                "groundingChunks": [
                    {"web": {"uri": FORWARDING, "title": "docs.example"}},
                    {"web": {"uri": f"{FORWARDING}b", "title": "other.example"}},
                ],
                "groundingSupports": [
                    {"segment": {"endIndex": 23, "text": "Round once, at the end."}, "groundingChunkIndices": [0]},
                    {"segment": {"startIndex": 24, "text": "Both agree."}, "groundingChunkIndices": [0, 1]},
                ],
            },
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 40, "toolUsePromptTokenCount": 860, "candidatesTokenCount": 50, "thoughtsTokenCount": 10,
    },
}  # fmt: skip
QUOTED = Hit(ADDRESS, "The rules", "Round once, at the end.")


def searched(server: SearchServer, name: str, domains: tuple[str, ...] = ("docs.example",)) -> SearchAnswer:
    path = "" if name.startswith(("anthropic", "gemini")) else "/v1"
    return search_web(name, Endpoint(server.url + path, KEY), {}, "how to round", domains)


@pytest.mark.parametrize(
    ("name", "given", "answer"),
    [
        (
            "anthropic/claude-x", CLAUDE,
            SearchAnswer((QUOTED, Hit("https://docs.example/b", "B")), Usage(uncached=900, output=60), 1, 0.01),
        ),
        (
            "responses/gpt-x", OPENAI,
            SearchAnswer((QUOTED, Hit("https://docs.example/b")), Usage(800, 100, output=60), 1, 0.01),
        ),
        (
            "gemini/gemini-3-pro", GEMINI,
            SearchAnswer(
                (
                    Hit(FORWARDING, "docs.example", "Round once, at the end.", "docs.example"),
                    Hit(f"{FORWARDING}b", "other.example", "", "other.example"),
                ),
                Usage(uncached=900, output=60), 2, 0.028,
            ),
        ),
    ],
)  # fmt: skip
def test_each_provider_returns_pages_tokens_and_a_fee(name: str, given: Json, answer: SearchAnswer):
    with SearchServer(given) as server:
        assert searched(server, name) == answer
    assert server.refused == []
    assert "how to round" in str(server.bodies)


@pytest.mark.parametrize("name", ["anthropic/claude-x", "responses/gpt-x"])
def test_the_provider_is_told_the_domains(name: str):
    with SearchServer(CLAUDE if "claude" in name else OPENAI) as server:
        searched(server, name, ("docs.example", "api.example"))
    (tool,) = server.bodies[0]["tools"]
    assert (tool.get("filters") or tool)["allowed_domains"] == ["docs.example", "api.example"]


FAILED_SEARCH = {"type": "web_search_tool_result_error", "error_code": "too_many_requests"}


@pytest.mark.parametrize(
    ("name", "given", "failure"),
    [
        ("anthropic/claude-x", (429, b'{"error": {"type": "rate_limit_error", "message": "slow down"}}'),
         "rate limited: HTTP 429: slow down"),
        ("anthropic/claude-x", (200, b"<html><h1>Sign in</h1>"), "rejected: the server answered with a web page"),
        ("anthropic/claude-x", (200, b"[1]"), "incomplete: "),
        ("anthropic/claude-x", (200, b'{"type": "message", "content": [{"type": 7'), "incomplete: "),
        ("anthropic/claude-x", {**CLAUDE, "content": [{"type": "web_search_tool_result", "content": FAILED_SEARCH}]},
         "the provider's search failed: too_many_requests"),
        ("anthropic/claude-x", {**CLAUDE, "content": [{"type": "text", "text": "No."}], "usage": {"input_tokens": 9}},
         "the model answered without a search"),
        ("responses/gpt-x", (200, b'{"object": "response", "output": 3}'), "the model answered without a search"),
        ("responses/gpt-x", {"object": "response", "error": {"code": "server_error", "message": "no"}}, "server error"),
        ("gemini/gemini-3-pro", (200, b'{"candidates": [{"groundingMetadata": 3}]}'), "incomplete: "),
        ("gemini/gemini-3-pro", (200, b"[" * 100_000), "incomplete: "),
        ("gemini/gemini-3-pro", (200, b" " * (9 << 20)), "incomplete: the reply is longer than 8 MiB"),
    ],
)  # fmt: skip
def test_a_search_that_fails_is_one_sentence(name: str, given: Any, failure: str):
    with SearchServer(given) as server:
        answer = searched(server, name)
    assert answer.failure.startswith(failure)
    assert "\n" not in answer.failure
    assert answer.hits == ()


def test_a_model_without_the_server_tool_says_so_and_sends_no_request():
    with SearchServer() as server:
        answer = searched(server, "openai/gpt-x")
    assert answer.failure.startswith("openai/gpt-x has no web search; it works with anthropic/NAME, responses/NAME")
    assert not can_search("ollama/qwen")
    assert can_search("claude-sonnet-5-5")


def test_the_key_is_not_in_a_failure():
    with SearchServer((401, f'{{"error": {{"message": "bad key {KEY}"}}}}'.encode())) as server:
        assert KEY not in searched(server, "anthropic/claude-x").failure


@pytest.fixture
def gone() -> str:
    with SearchServer() as server:
        return server.url


def test_a_server_that_is_gone_is_a_failure(gone: str):
    answer = search_web("anthropic/claude-x", Endpoint(gone, KEY), {}, "q", ("docs.example",))
    assert answer.failure.startswith("connection: ")
