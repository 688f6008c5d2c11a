"""Takes secrets out of text before it becomes a fact: the person's own values, and keys known by their shape or name.

Rule 1: time is linear in the text, however hostile.
Rule 2: what takes a secret's place is ``[secret NAME]``, so that reader and model see that something was there.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from .credentials import COOKIE_LISTS, credentials, scrub_entry, scrub_named, scrub_value_of
from .environment import is_secret

S = TypeVar("S", bound=msgspec.Struct)

_SHORTEST = 8
_JOINED = {
    "_": ("ghp", "gho", "ghu", "ghs", "ghr", "github_pat", "rk_live", "sk_live", "npm", "hf"),
    "-": ("sk", "glpat", "xapp", "pypi"),
}
_RARE = {"AKIA": "AKIA", "ASIA": "ASIA", "xox": "xox", "AIz": "AIza", "-----": "-----BEGIN "}
"""A part that is looked for faster than the whole, and the whole."""
_STARTS = (*(f"{word}{joint}" for joint, words in _JOINED.items() for word in words), *_RARE.values())
"""Each shape begins with one of them."""
# Each pattern has a fixed start and then one run of characters, so that no position is read twice.
_HEADS = {joint: tuple(word.partition(joint)[0] for word in words) for joint, words in _JOINED.items()}
_MANY = 40
_SHAPES = {
    "ANTHROPIC_KEY": r"sk-ant-[A-Za-z0-9_-]{16,}",
    "OPENAI_KEY": r"(?<![A-Za-z0-9])sk-(?!ant-)(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,}",
    "GITHUB_TOKEN": r"gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}",
    "GITLAB_TOKEN": r"glpat-[A-Za-z0-9_-]{20,}",
    "AWS_KEY": r"(?:AKIA|ASIA)[A-Z0-9]{16}",
    "SLACK_TOKEN": r"xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}",
    "GOOGLE_KEY": r"AIza[A-Za-z0-9_-]{35}",
    "STRIPE_KEY": r"[rs]k_live_[A-Za-z0-9]{16,}",
    "NPM_TOKEN": r"npm_[A-Za-z0-9]{36}",
    "PYPI_TOKEN": r"pypi-[A-Za-z0-9_-]{50,}",
    "HUGGINGFACE_TOKEN": r"hf_[A-Za-z0-9]{30,}",
    # Whole lines of the block, also escaped ones; what is cut off before its end is a secret no less. Groups are not
    # possessive: Python 3.11.2 then takes more than matches. Nothing after them can fail, so none backtracks far.
    "PRIVATE_KEY": r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:[ \t\r\n]++|\\[nr])*(?:[A-Za-z][A-Za-z-]*+: [^\n\\]*+(?=[\n\\])|[A-Za-z0-9+/=]{16,}+|=[A-Za-z0-9+/]{4}))*"
    r"(?:(?:[ \t\r\n]++|\\[nr])*[A-Za-z0-9+/=]{1,64}+(?=(?:[ \t\r\n]++|\\[nr])*-----END))?"
    r"(?:(?:[ \t\r\n]++|\\[nr])*-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?",
}


def _spellings(value: str) -> Iterator[str]:
    """The value as it is, and as JSON and Python write it: a quote or a backslash in it does not hide it."""
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]


def _bytes(text: str) -> bytes:
    """As a file holds it; an environment may hold bytes that are no text."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


class Scrubber:
    """Knows the secrets of one environment, and the shapes of well-known keys."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Values of fewer than eight characters are left alone: they would be found in ordinary text."""
        self._names: dict[str, str] = {}
        for name, value in sorted(environ.items()):
            if is_secret(name) and len(value.strip()) >= _SHORTEST:
                for spelling in _spellings(value.strip()):
                    self._names.setdefault(spelling, name)
        values = sorted(self._names, key=len, reverse=True)  # of two that begin alike the longer one counts
        shapes = [f"(?P<{name}>{shape})" for name, shape in _SHAPES.items()]
        own = [f"(?P<OWN>{'|'.join(map(re.escape, values))})"] if values else []
        self._pattern = re.compile("|".join((*own, *shapes)))
        self._raw = re.compile(b"|".join([*(re.escape(_bytes(value)) for value in values), *map(_bytes, shapes)]))
        self._values = tuple(values)
        self._starts = sorted({_bytes(start) for start in (*values, *_STARTS)})

    @property
    def fingerprint(self) -> str:
        """The same for two that find the same, and nothing that tells a secret."""
        return hashlib.sha256(self._raw.pattern).hexdigest()

    def scrub(self, text: str) -> str:
        """The text with ``[secret NAME]`` in place of each secret."""
        if self._may_begin(text):
            text = self._pattern.sub(lambda found: f"[secret {self._name(found)}]", text)
        return scrub_named(text)

    def holds(self, text: str) -> list[str]:
        """Names of the secrets in the text, sorted, each once."""
        own = {self._name(found) for found in self._pattern.finditer(text)} if self._may_begin(text) else set()
        return sorted(own | {found.kind for found in credentials(text)})

    def may_hold(self, text: str) -> bool:
        """Whether a secret can be anywhere: in most texts none can, and the patterns take far longer to say so."""
        return self._may_begin(text) or any(credentials(text))

    def _may_begin(self, text: str) -> bool:
        for joint, heads in _HEADS.items():  # to look for each start takes far longer: their letters are common
            count = text.count(joint)
            if 0 < count < _MANY and any(piece.endswith(heads) for piece in text.split(joint)):
                return True
            if count >= _MANY and any(f"{head}{joint}" in text for head in heads):
                return True
        return any(part in text for part in (*self._values, *_RARE))

    def held_in(self, content: bytes) -> bool:
        """Whether a file's content holds a secret; looks only where one can begin, so that large files take no time.

        What is known by a name before it does not count: such examples are in many files, and those are to be kept.
        """
        for start in self._starts:
            at = content.find(start)
            while at >= 0:
                if self._raw.match(content, at):
                    return True
                at = content.find(start, at + 1)
        return False

    def _name(self, found: re.Match[str]) -> str:
        kind = found.lastgroup or ""
        return self._names[found[0]] if kind == "OWN" else kind


def scrubbed_struct(value: S, scrub: Callable[[str], str]) -> S:
    """The struct without secrets; itself if there are none in it."""
    plain = msgspec.to_builtins(value)
    clean = scrub_value(plain, scrub)
    return value if clean == plain else msgspec.convert(clean, type(value))


def scrub_value(value: Any, scrub: Callable[[str], str], within: str = "") -> Any:
    """The value without secrets, wherever a text of it stands."""
    match value:
        case str():
            return scrub(value)
        case list():
            return [scrub_value(each, scrub, within) for each in value]
        case tuple():
            return tuple(scrub_value(each, scrub, within) for each in value)
        case dict():
            clean = {scrub(str(name)): scrub_value(each, scrub, str(name)) for name, each in value.items()}
            for name, each in clean.items():
                if isinstance(each, str):
                    clean[name] = scrub_value_of(name, each)
            named, stated = clean.get("name"), clean.get("value")
            if isinstance(named, str) and isinstance(stated, str):
                clean["value"] = scrub_entry(named, stated, cookie=within.lower() in COOKIE_LISTS)
            return clean
        case _:
            return value
