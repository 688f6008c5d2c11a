"""Removes secrets from text before it is recorded: the user's own values, and keys known by their format or name.

Rule 1: Time is linear in the text, even for hostile input.
Rule 2: A secret is replaced by ``[secret NAME]``, so that users and models can see that something was removed.
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

_MIN_CHARS = 8
_JOINED = {
    "_": ("ghp", "gho", "ghu", "ghs", "ghr", "github_pat", "rk_live", "sk_live", "npm", "hf"),
    "-": ("sk", "glpat", "xapp", "pypi"),
}
_RARE = {"AKIA": "AKIA", "ASIA": "ASIA", "xox": "xox", "AIz": "AIza", "-----": "-----BEGIN "}
"""Maps a part that can be searched quickly to the full prefix."""
_STARTS = (*(f"{word}{joint}" for joint, words in _JOINED.items() for word in words), *_RARE.values())
"""Prefixes that all key formats begin with."""
# Each pattern has a fixed start followed by one run of characters, so that no position is read twice.
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
    # Whole lines of the block, also escaped ones. A key that is cut off before its end is still a secret. Groups are
    # not possessive, because Python 3.11.2 then matches too much. Nothing after them can fail, so backtracking is
    # limited.
    "PRIVATE_KEY": r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:[ \t\r\n]++|\\[nr])*(?:[A-Za-z][A-Za-z-]*+: [^\n\\]*+(?=[\n\\])|[A-Za-z0-9+/=]{16,}+|=[A-Za-z0-9+/]{4}))*"
    r"(?:(?:[ \t\r\n]++|\\[nr])*[A-Za-z0-9+/=]{1,64}+(?=(?:[ \t\r\n]++|\\[nr])*-----END))?"
    r"(?:(?:[ \t\r\n]++|\\[nr])*-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?",
}


def _spellings(value: str) -> Iterator[str]:
    """Yield the value as is and as JSON and Python escape it, so that quotes or backslashes do not hide it."""
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]


def _bytes(text: str) -> bytes:
    """Encode text like file content. Environment variables may contain bytes that are not valid text."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


class Scrubber:
    """Finds the secrets of one environment, and keys in well-known formats."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Collect the secrets. Values shorter than eight characters are ignored, because they would match ordinary
        text.
        """
        self._names: dict[str, str] = {}
        for name, value in sorted(environ.items()):
            if is_secret(name) and len(value.strip()) >= _MIN_CHARS:
                for spelling in _spellings(value.strip()):
                    self._names.setdefault(spelling, name)
        # longest first, so that the longer of two values with the same start wins
        values = sorted(self._names, key=len, reverse=True)
        shapes = [f"(?P<{name}>{shape})" for name, shape in _SHAPES.items()]
        own = [f"(?P<OWN>{'|'.join(map(re.escape, values))})"] if values else []
        self._pattern = re.compile("|".join((*own, *shapes)))
        self._raw = re.compile(b"|".join([*(re.escape(_bytes(value)) for value in values), *map(_bytes, shapes)]))
        self._values = tuple(values)
        self._starts = sorted({_bytes(start) for start in (*values, *_STARTS)})

    @property
    def fingerprint(self) -> str:
        """Digest that is equal for scrubbers that find the same secrets, and reveals none of them."""
        return hashlib.sha256(self._raw.pattern).hexdigest()

    def scrub(self, text: str) -> str:
        """Replace each secret in the text by ``[secret NAME]``."""
        if self._may_begin(text):
            text = self._pattern.sub(lambda match: f"[secret {self._name(match)}]", text)
        return scrub_named(text)

    def holds(self, text: str) -> list[str]:
        """Return the sorted, unique names of the secrets in the text."""
        own = {self._name(match) for match in self._pattern.finditer(text)} if self._may_begin(text) else set()
        return sorted(own | {credential.kind for credential in credentials(text)})

    def may_hold(self, text: str) -> bool:
        """Return whether the text could contain a secret. This is much faster than the patterns, and False for most
        texts.
        """
        return self._may_begin(text) or any(credentials(text))

    def _may_begin(self, text: str) -> bool:
        # faster than searching for each prefix, because the prefixes' letters are common
        for joint, heads in _HEADS.items():
            count = text.count(joint)
            if 0 < count < _MANY and any(piece.endswith(heads) for piece in text.split(joint)):
                return True
            if count >= _MANY and any(f"{head}{joint}" in text for head in heads):
                return True
        return any(part in text for part in (*self._values, *_RARE))

    def held_in(self, content: bytes) -> bool:
        """Return whether a file's content contains a secret. Fast for large files, because it only checks possible
        starts.

        Credentials that are recognized by a preceding name do not count: many files contain such examples, and these
        files should be kept.
        """
        for start in self._starts:
            at = content.find(start)
            while at >= 0:
                if self._raw.match(content, at):
                    return True
                at = content.find(start, at + 1)
        return False

    def _name(self, match: re.Match[str]) -> str:
        kind = match.lastgroup or ""
        return self._names[match[0]] if kind == "OWN" else kind


def scrubbed_struct(value: S, scrub: Callable[[str], str]) -> S:
    """Return the struct with secrets removed, or the same object if it contains none."""
    plain = msgspec.to_builtins(value)
    clean = scrub_value(plain, scrub)
    return value if clean == plain else msgspec.convert(clean, type(value))


def scrub_value(value: Any, scrub: Callable[[str], str], parent: str = "") -> Any:
    """Return the value with secrets removed from all strings in it."""
    match value:
        case str():
            return scrub(value)
        case list():
            return [scrub_value(each, scrub, parent) for each in value]
        case tuple():
            return tuple(scrub_value(each, scrub, parent) for each in value)
        case dict():
            clean = {scrub(str(name)): scrub_value(each, scrub, str(name)) for name, each in value.items()}
            for name, each in clean.items():
                if isinstance(each, str):
                    clean[name] = scrub_value_of(name, each)
            entry_name, entry_value = clean.get("name"), clean.get("value")
            if isinstance(entry_name, str) and isinstance(entry_value, str):
                clean["value"] = scrub_entry(entry_name, entry_value, cookie=parent.lower() in COOKIE_LISTS)
            return clean
        case _:
            return value
