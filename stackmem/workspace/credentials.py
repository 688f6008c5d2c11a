"""Finds credentials by the name in front of them: headers, cookies and URL parameters.

Rule 1: The name is not sufficient. The value must look like a credential, so that code, placeholders and prose stay.
Rule 2: Time is linear in the text: rare parts are searched first, and all repetitions are bounded or possessive.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from typing import NamedTuple

_MIN_CHARS = 8
_MIN_BARE_CHARS = 20
_LONG_NUMBER = 16
_MAX_CHARS = 8_192
_MAX_NAME_CHARS = 64

_ENDS = (
    "cookie", "authorization", "-token", "-secret", "api-key", "apikey", "auth-key", "access-key", "subscription-key",
    "functions-key",
)  # fmt: skip
"""Endings of header names that carry credentials."""
_OF_TOKEN = re.compile(
    r"x(?:-[a-z0-9-]*)?|(?:[a-z0-9]+-)?(?:auth|authentication|authorization|access|api|private|job|deploy|csrf|xsrf|id|"
    r"refresh|session|security|bearer|client|consumer|vault|hub|gitlab|github|circle)",
    re.IGNORECASE,
)
"""Words before ``-token`` and ``-secret`` that make a header name; other words are ordinary, as in package names."""
_VALUE = r"[A-Za-z0-9._~+/=|:%@!-]"
_SCHEME = r"(?:(?:basic|bearer|token|apikey|api-key|negotiate|hoba|dpop|key)[ \t]{1,4})?"
_NO_CODE = r"(?![(\[{$<])"
_NAME_CHARS = string.ascii_letters + string.digits + "-"
_QUOTE = re.compile(r"\\{0,3}[\"']\Z")
_BETWEEN = re.compile(
    r"(?:(?P<closing>\\{0,3}[\"'])\s{0,4}(?:=>|[:=,]|\]\s{0,4}=)\s{0,4}\\{0,3}[\"']"
    r"|2?[ \t]{0,4}:[ \t]{0,4}(?P<opening>\\{0,3}[\"'])?)"
)
"""Matches the text between the name of a header and its value."""
_LINE = re.compile(rf"[^\r\n\"'\\]{{0,{_MAX_CHARS}}}+")
_CREDENTIAL = re.compile(
    rf"(?P<scheme>{_SCHEME})(?P<value>{_VALUE}{{1,{_MAX_CHARS}}}+)(?P<code>[(\[{{$<]?)", re.IGNORECASE
)
_PAIR = re.compile(rf"(?P<name>[^\s=;,]{{1,256}}+)=(?P<value>{_VALUE}{{{_MIN_CHARS},}}+){_NO_CODE}")
_ATTRIBUTES = frozenset({"expires", "max-age", "domain", "path", "samesite", "version", "priority"})
_PARAMETER = re.compile(
    r"[?&#%](?:amp;|3F|26)?(?:"
    r"x-(?:amz|goog|oss|cos)-(?:signature|security-token|credential)|(?:[a-z]{1,16}[_-]){0,2}(?:token|secret|api[_-]?key)|"
    r"key|apikey|sig|signature|password|passwd|pwd|auth|session_?id|sid"
    rf")(?:=|%3D)(?P<value>[A-Za-z0-9._~%+/=:-]{{{_MIN_CHARS},{_MAX_CHARS}}}+){_NO_CODE}",
    re.IGNORECASE,
)
_PERCENT = re.compile("%[0-9A-Fa-f]{2}")


COOKIE_LISTS = ("cookies", "cookie")
"""Names of lists whose entries are cookies, in HTTP archives (HAR) and in cookies saved by browsers."""
_COOKIES = re.compile(r"cookies?\\{0,3}[\"']\s{0,8}:\s{0,8}\[", re.IGNORECASE)
_SPACE = r"(?:\s|\\[nrt]){0,64}+"
_ENTRY = re.compile(
    rf"name(?P<quote>\\{{0,3}}[\"']){_SPACE}:{_SPACE}(?P=quote)(?P<name>[^\"'\\\r\n]{{1,{_MAX_NAME_CHARS}}}+)(?P=quote){_SPACE}"
    rf",{_SPACE}(?P=quote)value(?P=quote){_SPACE}:{_SPACE}(?P=quote)(?P<value>[^\"'\\\r\n]{{{_MIN_CHARS},{_MAX_CHARS}}}+)",
    re.IGNORECASE,
)
"""Matches an object with separate fields for the name and the value of a header, cookie or parameter."""


class Credential(NamedTuple):
    """Position of a credential in a text, and its kind: HEADER, COOKIE or PARAMETER."""

    start: int
    end: int
    kind: str


def scrub_named(text: str) -> str:
    """Replace each credential by ``[secret KIND]``. Names and all other text stay."""
    matches = sorted(credentials(text))
    pieces, done = [], 0
    for start, end, kind in matches:
        # A parameter within a header is found twice; the first, longer one is replaced.
        if start >= done:
            pieces += [text[done:start], f"[secret {kind}]"]
            done = end
    return "".join((*pieces, text[done:])) if matches else text


def credentials(text: str) -> Iterator[Credential]:
    """Yield every credential in the text. A parameter inside a header may be yielded twice."""
    # the only letter whose lower case has another length, which would shift positions
    lower = text.replace("\u0130", "i").lower()
    # Searched with find first: a pattern would be tried at every position of a long output.
    for end in _ENDS:
        at = lower.find(end)
        while at >= 0:
            done = at + len(end)
            between = _BETWEEN.match(text, done)
            if between is not None and _is_header(text, at, end, between["closing"]):
                bare = between["closing"] is None and between["opening"] is None
                value = (_LINE if end == "cookie" else _CREDENTIAL).match(text, between.end())
                if value is not None:
                    yield from _in_pairs(value) if end == "cookie" else _in_header(value, end, bare=bare)
                    done = value.end()  # continue after it, so that no part is read twice
            at = lower.find(end, done)
    for match in _PARAMETER.finditer(text):
        if _is_credential(match["value"]):
            yield Credential(*match.span("value"), "PARAMETER")
    yield from _in_entries(text, lower)


def scrub_value_of(name: str, value: str) -> str:
    """Scrub the value of a header whose name is stored separately, as in an object."""
    lead = f"{name}: '"
    scrubbed = scrub_named(f"{lead}{value}")
    return scrubbed.removeprefix(lead) if scrubbed.startswith(lead) and name.isprintable() else value


def scrub_entry(name: str, value: str, *, cookie: bool) -> str:
    """Scrub the value of an entry in a list of headers, parameters or cookies."""
    if not name.isprintable() or "'" in name:
        return value
    for lead in _leads(name, cookie=cookie):
        scrubbed = scrub_named(f"{lead}{value}")
        value = scrubbed.removeprefix(lead) if scrubbed.startswith(lead) else value
    return value


def _leads(name: str, *, cookie: bool) -> tuple[str, ...]:
    """Return the prefixes that make ``credentials`` recognize a value by its name."""
    return (f"cookie: '{re.sub('[^a-zA-Z0-9_-]', '_', name)}=",) if cookie else (f"{name}: '", f"?{name}=")


def _in_entries(text: str, lower: str) -> Iterator[Credential]:
    """Yield the credentials in JSON entries such as ``{"name": "sid", "value": "abc12345"}``."""
    at = lower.find("name")
    if at < 0 or "value" not in lower:
        return
    lists = _lists_of_cookies(text)
    begin, end = next(lists, (len(text), len(text)))
    while at >= 0:
        entry = _ENTRY.match(text, at)
        quote = _QUOTE.search(text, max(0, at - 4), at)
        done = at + len("name")
        if entry is not None and quote is not None and quote[0] == entry["quote"]:
            while end <= at:
                begin, end = next(lists, (len(text) + 1, len(text) + 1))
            done = entry.end("name")
            for lead in _leads(entry["name"], cookie=begin <= at):
                for start, stop, kind in credentials(lead + entry["value"]):
                    if start >= len(lead):
                        offset = entry.start("value") - len(lead)
                        yield Credential(start + offset, stop + offset, kind)
        at = lower.find("name", done)


def _lists_of_cookies(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each list of cookies."""
    match = _COOKIES.search(text)
    while match is not None:
        end = text.find("]", match.end())
        end = len(text) if end < 0 else end
        # Lists of cookies are flat, so the first bracket ends one.
        yield match.end(), end
        match = _COOKIES.search(text, end)


def _is_header(text: str, at: int, end: str, closing: str | None) -> bool:
    """Return whether the whole name is a credential header, with matching quotes."""
    begin = max(0, at - _MAX_NAME_CHARS)
    start = begin + len(text[begin:at].rstrip(_NAME_CHARS))
    if start and text[start - 1] == "\\" and text[start : start + 1] in ("n", "r", "t"):
        start += 1  # skip an escaped line feed before the name
    elif start and (text[start - 1] == "_" or text[start - 1].isalnum()):
        return False
    quote = _QUOTE.search(text, max(0, start - 4), start)
    if closing is not None and (quote is None or quote[0] != closing):
        return False
    return end not in ("-token", "-secret") or _OF_TOKEN.fullmatch(text, start, at) is not None


def _in_pairs(line: re.Match[str]) -> Iterator[Credential]:
    for pair in _PAIR.finditer(line.string, *line.span()):
        if pair["name"].lower() not in _ATTRIBUTES and _is_credential(pair["value"]):
            yield Credential(*pair.span("value"), "COOKIE")


def _in_header(match: re.Match[str], end: str, *, bare: bool) -> Iterator[Credential]:
    scheme, value = match["scheme"].strip().lower(), match["value"]
    if match["code"] or len(value) < _MIN_CHARS:
        return
    if end == "authorization" and bare and not scheme and len(value) < _MIN_BARE_CHARS:
        return  # probably a word of a sentence, or a variable
    if _is_credential(value) or (scheme == "basic" and value not in (value.lower(), value.upper())):
        yield Credential(*match.span("value"), "HEADER")


def _is_credential(value: str) -> bool:
    """Return whether the value has both letters and digits, or is a long number. Percent escapes do not count."""
    # %20 and the like are digits of an encoding, not of the value.
    plain = _PERCENT.sub("", value)
    digits = sum(char.isdigit() for char in plain)
    return (digits > 0 and any(char.isalpha() for char in plain)) or digits >= _LONG_NUMBER
