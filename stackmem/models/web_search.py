"""The answer of a web search, and the models that can search."""

from __future__ import annotations

from msgspec import Struct

from stackmem.core.messages import Usage

MAX_DOMAINS = 100
"""Most domains that a provider accepts in one request (OpenAI)."""
FORWARDING_HOST = "vertexaisearch.cloud.google.com"
"""The host of the addresses that Gemini gives for pages."""
ALTERNATIVE = "it works with anthropic/NAME, responses/NAME and gemini/NAME; web_fetch gets pages by address"
_SEARCHING = ("claude-", "anthropic/", "responses/", "gemini/")


class Hit(Struct, frozen=True):
    """A page that a search found."""

    address: str
    title: str = ""
    excerpt: str = ""
    host: str = ""  # its host as the provider names it, for an address of ``FORWARDING_HOST``


class SearchAnswer(Struct, frozen=True):
    """The result of a search. ``failure`` says why there is none; its tokens and fee still count."""

    hits: tuple[Hit, ...] = ()
    usage: Usage = Usage()
    searches: int = 0
    fee_usd: float = 0.0
    failure: str = ""


def can_search(model: str) -> bool:
    """Return whether the provider of a model has a server tool that searches the web."""
    return model.startswith(_SEARCHING)
