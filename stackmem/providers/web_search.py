"""Searches the web with the server tool of a model's provider, in one separate request per search.

Rule 1: A search is one attempt. Its failure is a sentence for the agent, which may search again.
Rule 2: Only the provider sends requests to the web. It receives the domains of the list and returns data.

=============  ==========================  ==============================================================
model          server tool                 excerpt of a page
=============  ==========================  ==============================================================
``anthropic``  ``web_search_20250305``     the passages that the provider quotes
``responses``  ``web_search``              the sentence that cites the page
``gemini``     ``google_search``           the sentences that cite the page; it takes no list of domains
=============  ==========================  ==============================================================

Source: the reference of each API and the types of its SDK, read 2026-11-29.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.facts import ModelFailed
from stackmem.core.messages import Usage
from stackmem.models.endpoint import GEMINI, Endpoint
from stackmem.models.web_search import ALTERNATIVE, Hit, SearchAnswer

from .anthropic_stream import read_reply
from .connection import Connection
from .failures import answered_with, failed, unanswered
from .openai_responses import read_response
from .openai_stream import token_count, tokens_in

Json = dict[str, Any]

SECONDS = 120.0
_MAX_BYTES = 8 << 20
_REPLY_TOKENS = 4_000
_SEARCHES = 2
"""Searches that one request may make, if the provider can limit them."""
_ANTHROPIC_USD = 0.01
_OPENAI_USD = 0.01
_GEMINI_USD = 0.014
_GEMINI_2_USD = 0.035
"""Fees for one search, in addition to the tokens, as secondary sources of November 2026 state them. Google charges
Gemini 2.5 per request, and later models per query.
"""


class _Wire(Struct, frozen=True):
    path: Callable[[str], str]  # of a request to this model
    headers: Callable[[str], dict[str, str]]  # with this key
    body: Callable[[str, str, tuple[str, ...]], Json]  # for model, text and domains
    read: Callable[[str, str, str], SearchAnswer]  # from the answer, the model and a secret


def search_web(
    name: str, endpoint: Endpoint, headers: Mapping[str, str], query: str, domains: tuple[str, ...]
) -> SearchAnswer:
    """Search pages of these domains. Subdomains may be among the results.

    ``name`` is the model, with its provider. ``headers`` are headers that the user adds to requests.
    """
    kind, _, model = name.partition("/")
    wire = _WIRES.get(kind)
    if wire is None:
        return SearchAnswer(failure=f"{name[:80]} has no web search; {ALTERNATIVE}")
    sent = {**wire.headers(endpoint.key), **headers}
    text = _sent(endpoint, f"{endpoint.url}{wire.path(model)}", sent, wire.body(model, _text(query, domains), domains))
    if isinstance(text, ModelFailed):
        return _failure(text)
    try:
        answer = wire.read(text, model, endpoint.secret)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        return _failure(failed("incomplete", f"the answer is malformed: {error}", endpoint.secret))
    if not answer.failure and not answer.searches and not answer.hits:
        return replace(answer, failure="the model answered without a search; word the query as a question about a page")
    return answer


def _text(query: str, domains: tuple[str, ...]) -> str:
    """Return the text of the request. The sites are in it too, because not every provider takes a list."""
    sites = " OR ".join(f"site:{domain}" for domain in domains[:10])
    return (
        f"Search the web once for this query: {query}\nOnly these sites count: {sites}\n"
        "Then list the pages that answer it, at most ten. Write one or two sentences about each, with what the page "
        "says about the query, and cite the page. Add nothing else."
    )


def _sent(endpoint: Endpoint, address: str, headers: dict[str, str], body: Json) -> str | ModelFailed:
    """Return the body of the answer, or why there is none."""
    import httpx2

    connection = Connection(httpx2.Client, endpoint.connect_seconds, SECONDS, most_bytes=_MAX_BYTES)
    try:
        with connection.time_limit(SECONDS):
            answer = connection.client.post(address, headers=headers, json=body)
            if answer.status_code != 200:
                return answered_with(answer, answer.text, endpoint.secret)
            return answer.text
    except (httpx2.TimeoutException, TimeoutError) as error:
        return unanswered("timeout", endpoint, error)
    except (httpx2.HTTPError, OSError) as error:
        return unanswered("timeout" if connection.expired else "connection", endpoint, error)
    except ValueError as error:  # the answer is too long
        return failed("incomplete", str(error), endpoint.secret)
    finally:
        connection.client.close()


def _failure(failed_attempt: ModelFailed) -> SearchAnswer:
    return SearchAnswer(failure=f"{failed_attempt.kind.replace('_', ' ')}: {failed_attempt.detail}")


def _object(text: str) -> Json:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise TypeError("it is not an object")
    return value


def _objects(value: Any) -> list[Json]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _merged(hits: list[Hit]) -> tuple[Hit, ...]:
    """Return one hit per address, with the first title and all excerpts, in order of appearance."""
    by_address: dict[str, Hit] = {}
    for hit in hits:
        before = by_address.get(hit.address)
        if before is None:
            by_address[hit.address] = hit
            continue
        new = hit.excerpt if hit.excerpt not in before.excerpt else ""
        excerpt = " … ".join(filter(None, (before.excerpt, new)))
        by_address[hit.address] = replace(before, title=before.title or hit.title, excerpt=excerpt)
    return tuple(by_address.values())


def _anthropic_body(model: str, text: str, domains: tuple[str, ...]) -> Json:
    tool = {"type": "web_search_20250305", "name": "web_search", "max_uses": _SEARCHES, "allowed_domains": [*domains]}
    message = {"role": "user", "content": [{"type": "text", "text": text}]}
    return {"model": model, "max_tokens": _REPLY_TOKENS, "messages": [message], "tools": [tool]}


def _read_anthropic(text: str, _: str, secret: str) -> SearchAnswer:
    reply = read_reply([text], secret)
    if isinstance(reply, ModelFailed):
        return _failure(reply)
    answer = _object(text)
    hits: list[Hit] = []
    errors: list[str] = []
    for block in _objects(answer.get("content")):
        content = block.get("content")
        if block.get("type") == "web_search_tool_result" and isinstance(content, dict):
            errors.append(_string(content.get("error_code")) or "unknown error")
        elif block.get("type") == "web_search_tool_result":
            hits += [Hit(_string(each.get("url")), _string(each.get("title"))) for each in _objects(content)]
        for cited in _objects(block.get("citations")):
            hits.append(
                Hit(_string(cited.get("url")), _string(cited.get("title")), _string(cited.get("cited_text")).strip())
            )
    used = answer.get("usage", {}).get("server_tool_use") or {}
    searches = used.get("web_search_requests")
    searches = searches if isinstance(searches, int) and 0 <= searches <= 1_000 else 0
    failure = f"the provider's search failed: {errors[0][:100]}" if errors and not hits else ""
    return SearchAnswer(_merged(hits), reply.usage, searches, searches * _ANTHROPIC_USD, failure)


def _openai_body(model: str, text: str, domains: tuple[str, ...]) -> Json:
    return {
        "model": model,
        "input": text,
        "store": False,
        "max_output_tokens": _REPLY_TOKENS,
        "tools": [{"type": "web_search", "filters": {"allowed_domains": [*domains]}}],
        "include": ["web_search_call.action.sources"],
    }


def _read_openai(text: str, _: str, secret: str) -> SearchAnswer:
    reply = read_response([text], 0, secret)
    if isinstance(reply, ModelFailed):
        return _failure(reply)
    cited: list[Hit] = []
    sources: list[Hit] = []
    searches = 0
    for item in _objects(_object(text).get("output")):
        action = item.get("action")
        if item.get("type") == "web_search_call" and isinstance(action, dict):
            searches += action.get("type") == "search"
            sources += [Hit(_string(each.get("url"))) for each in _objects(action.get("sources"))]
        for part in _objects(item.get("content")):
            cited += _citations(_string(part.get("text")), _objects(part.get("annotations")))
    return SearchAnswer(_merged([*cited, *sources]), reply.usage, searches, searches * _OPENAI_USD)


def _citations(text: str, annotations: list[Json]) -> list[Hit]:
    """Return the cited pages. An annotation marks the link itself, and the sentence is in front of it."""
    hits: list[Hit] = []
    for each in annotations:
        start = each.get("start_index")
        if each.get("type") != "url_citation" or not isinstance(start, int):
            continue
        line = text[: max(0, start)].rpartition("\n")[2].rpartition("))")[2]
        hits.append(Hit(_string(each.get("url")), _string(each.get("title")), line.lstrip(" -*•").rstrip(" ([")))
    return hits


def _gemini_body(_: str, text: str, __: tuple[str, ...]) -> Json:
    return {
        "contents": [{"role": "user", "parts": [{"text": text}]}],
        "tools": [{"google_search": {}}],
        "generationConfig": {"maxOutputTokens": _REPLY_TOKENS},
    }


def _read_gemini(text: str, model: str, _: str) -> SearchAnswer:
    answer = _object(text)
    candidates = _objects(answer.get("candidates"))
    grounding = (candidates[0].get("groundingMetadata") if candidates else None) or {}
    pages = [each.get("web") or {} for each in _objects(grounding.get("groundingChunks"))]
    hits = [
        Hit(_string(page.get("uri")), _string(page.get("title")), "", _string(page.get("domain") or page.get("title")))
        for page in pages
    ]
    for support in _objects(grounding.get("groundingSupports")):
        excerpt = _string((support.get("segment") or {}).get("text")).strip(" -*•")
        places = support.get("groundingChunkIndices")
        indices = (
            [at for at in places if isinstance(at, int) and 0 <= at < len(hits)] if isinstance(places, list) else []
        )
        # A sentence about several pages may also be about one that is not on the list, so it belongs to none.
        if len(set(indices)) == 1:
            page = hits[indices[0]]
            hits[indices[0]] = replace(page, excerpt=" … ".join(filter(None, (page.excerpt, excerpt))))
    queries = [each for each in grounding.get("webSearchQueries") or () if isinstance(each, str)]
    searches = min(1, len(queries)) if "gemini-2" in model else len(queries)
    fee = searches * (_GEMINI_2_USD if "gemini-2" in model else _GEMINI_USD)
    return SearchAnswer(_merged(hits), _gemini_usage(answer.get("usageMetadata") or {}), searches, fee)


def _gemini_usage(counts: Json) -> Usage:
    prompt = token_count(counts.get("promptTokenCount")) + token_count(counts.get("toolUsePromptTokenCount"))
    output = token_count(counts.get("candidatesTokenCount")) + token_count(counts.get("thoughtsTokenCount"))
    return tokens_in(prompt, {"cached_tokens": counts.get("cachedContentTokenCount")}, output)


_WIRES = {
    "anthropic": _Wire(
        lambda _: "/v1/messages", lambda key: {"x-api-key": key, "anthropic-version": "2023-06-01"},
        _anthropic_body, _read_anthropic,
    ),
    "responses": _Wire(
        lambda _: "/responses", lambda key: {"authorization": f"Bearer {key}"}, _openai_body, _read_openai
    ),
    "gemini": _Wire(
        lambda model: f"{GEMINI.path}/{quote(model if '/' in model else f'models/{model}')}:generateContent",
        lambda key: {"x-goog-api-key": key}, _gemini_body, _read_gemini,
    ),
}  # fmt: skip
