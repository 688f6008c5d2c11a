"""Local token counts, for reports and estimates; never used by the machine's rules.

Sources, most accurate first: the API's usage of a reply, which is in the trace; the API's own count of a text,
which is not queried; o200k times a factor; characters / 2.5. This module implements the last two, and labels each
figure with its source. Usage that a server does not report is estimated from characters, and marked as such.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import re
from base64 import b64decode
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.errors import UsageError
from stackmem.core.facts import ModelReplied
from stackmem.core.messages import Part, Text, Thinking, ToolCall, ToolResult, Usage, View, shown_chars
from stackmem.core.text import whole

if TYPE_CHECKING:
    from tiktoken import Encoding


_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
_PIECE_CHARS = 200_000
_MAX_PAIRS = 400
_TELLING_SPAN = 20  # prompts that differ by less than 1/20 of the longest one are useless for the slope

# o200k compared with Claude's own counts: × 1.55 has a median error of 5 % over 240 chunks of 4 KB (5th to 95th
# percentile -12 % to +13 %). Models before Opus 4.7 count about 30 % less, according to the provider.
_CLAUDE_FACTOR = 1.55
_OLD_CLAUDE_FACTOR = 1.19
_OLD_CLAUDE = re.compile(r"claude-(opus-4-[56]|sonnet-4-[56]|haiku-4-5)")
_OPENAI = re.compile(r"openai/(gpt-[45]|o\d)")

# The splitting pattern of o200k_base, as published with the ranks.
_SPLIT = "|".join((
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
    r"""\p{N}{1,3}""",
    r""" ?[^\s\p{L}\p{N}]+[\r\n/]*""",
    r"""\s*[\r\n]+""",
    r"""\s+(?!\S)""",
    r"""\s+""",
))  # fmt: skip


class TokenCount(Struct, frozen=True):
    """A count with its source, which is displayed next to it."""

    tokens: int
    source: str


class LearnedCount(Struct, frozen=True):
    """A server's way of counting, learned from the usage it reported."""

    factor: float  # factor on o200k tokens
    base: int = 0  # tokens of every request in addition to its blocks, such as the template's own text


def count(text: str, model: str, learned: LearnedCount | None = None) -> TokenCount:
    """Count the tokens of ``text`` for a model; ``learned`` comes from the model's own usage (``learned_count``).

    Models whose tokenizer was never compared with o200k are counted as characters / 2.5.
    """
    if learned is not None:
        base = f" + {learned.base:,} a request" if learned.base else ""
        return TokenCount(
            _scaled(text, learned.factor), f"o200k × {learned.factor:.2f}{base}, learned from this model's usage"
        )
    if _OPENAI.match(model):
        return TokenCount(o200k_tokens(text), "o200k")
    name = model.removeprefix("anthropic/")
    if name.startswith("claude-"):
        factor = _OLD_CLAUDE_FACTOR if _OLD_CLAUDE.match(name) else _CLAUDE_FACTOR
        return TokenCount(_scaled(text, factor), f"o200k × {factor}")
    return TokenCount(round(len(text) / CHARS_PER_TOKEN), "characters / 2.5")


def learned_count(pairs: Iterable[tuple[int, int]]) -> LearnedCount | None:
    """Learn from pairs of (o200k, reported) tokens of whole prompts; None without usable pairs.

    Prompts of different lengths separate the base from the factor, by the median of all slopes between two of them.
    If all prompts have about the same length, or the slope is far from the ratio of the tokens, the base is 0.
    """
    usable = [(counted, reported) for counted, reported in pairs if counted > 0 and reported > 0][-_MAX_PAIRS:]
    if not usable:
        return None
    from statistics import median  # slow to import

    ratio = median(reported / counted for counted, reported in usable)
    gap = max(counted for counted, _ in usable) / _TELLING_SPAN
    slopes = [
        (its - reported) / (more - counted)
        for at, (counted, reported) in enumerate(usable)
        for more, its in usable[at + 1 :]
        if abs(more - counted) >= gap
    ]
    if slopes and ratio / 2 <= (slope := median(slopes)) <= ratio:
        return LearnedCount(slope, round(median(reported - slope * counted for counted, reported in usable)))
    return LearnedCount(ratio)


def o200k_tokens(text: str) -> int:
    """Count tokens in o200k_base; special tokens are treated as plain text.

    Texts above 200,000 characters are counted in pieces, because tiktoken overflows its stack on millions of
    blanks. Each cut may change the count by a token or two.
    """
    text = whole(text)
    encoding = _encoding()
    pieces = (text[at : at + _PIECE_CHARS] for at in range(0, len(text), _PIECE_CHARS))
    return sum(len(encoding.encode_ordinary(piece)) for piece in pieces)


def o200k_encoding() -> dict[str, Any]:
    """Return the arguments from which tiktoken builds the encoding.

    Raise UsageError if the ranks in the package differ from those that tiktoken publishes.
    """
    path = resources.files("stackmem.models").joinpath("o200k_base.tiktoken.gz")
    try:
        ranks = gzip.decompress(path.read_bytes())
    except (OSError, EOFError) as error:
        raise UsageError(f"{path} cannot be read: {error}; reinstall stackmem") from error
    if hashlib.sha256(ranks).hexdigest() != _SHA256:
        raise UsageError(f"{path} was changed after the release; reinstall stackmem")
    pairs = (line.split() for line in ranks.splitlines() if line)
    return {
        "name": "stackmem_o200k_base",
        "pat_str": _SPLIT,
        "mergeable_ranks": {b64decode(token): int(rank) for token, rank in pairs},
        "special_tokens": {"<|endoftext|>": 199_999, "<|endofprompt|>": 200_018},
    }


@cache
def _encoding() -> Encoding:
    import tiktoken

    return tiktoken.Encoding(**o200k_encoding())


def _scaled(text: str, factor: float) -> int:
    return round(o200k_tokens(text) * factor)


CHARS_PER_TOKEN = 2.5


def estimated_usage(reply: ModelReplied, view: View) -> ModelReplied:
    """Return ``reply`` with usage estimated from characters."""
    output = sum(_chars(part) for part in reply.parts)
    return replace(reply, usage=Usage(uncached=_tokens(prompt_chars(view)), output=_tokens(output), estimated=True))


def prompt_chars(view: View) -> int:
    """Return the characters of a prompt: system prompt, tools and messages."""
    tools = sum(len(tool.description) + len(tool.schema) for tool in view.tools)
    messages = sum(_chars(part) for message in view.messages for part in message.parts)
    return len(view.system) + tools + messages


def _tokens(chars: int) -> int:
    return math.ceil(chars / CHARS_PER_TOKEN)


def _chars(part: Part) -> int:
    match part:
        case Text() | ToolResult():
            return shown_chars(part)
        case Thinking():
            return len(str(part.raw.get("thinking", "")))
        case ToolCall():
            return len(part.name) + len(part.malformed if part.malformed is not None else str(part.arguments))
