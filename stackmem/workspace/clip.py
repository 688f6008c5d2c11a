r"""Makes untrusted text safe to display: cleans it, clips it, and puts names on one line.

Rule 1: The output is always valid UTF-8 and cannot control a terminal.
Rule 2: Escapes are visible: ``\x1b`` is an ASCII character, ``\u202e`` any other character, and ``\xff`` in a name is a
    byte that is not UTF-8.
Rule 3: Every pattern takes time linear in the text, even for hostile input.
"""

from __future__ import annotations

import re

_INTRODUCERS = r"\x1b\x90\x98\x9b\x9d-\x9f"

# Terminal control sequences. An unterminated string stays in the text, with its start escaped.
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"  # CSI: colors, cursor
    rf"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x9c\n{_INTRODUCERS}]*+(?:\x07|\x9c|\x1b\\)"  # OSC, DCS, SOS, PM, APC
    r"|\x1b[ -/]++[0-~]"  # character sets
    r"|\x1b[0-9=><cDEHMNOZ\\]"  # single commands
)

# Control characters except \n and \t, and characters that are invisible or change the reading direction.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)
_PLAIN = bytes([*b"\t\n", *range(0x20, 0x7F)])
_UNSEEN_IN_NAMES = re.compile(rf"{_INVISIBLE.pattern}|[\t\n\\]")
_ESCAPED = re.compile(r"\\(?:([nrt\\])|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\\": r"\\"}


def clean(raw: bytes) -> str:
    """Return a command's output as trustworthy lines.

    Terminal sequences are removed, a progress line keeps its last state, other control characters are escaped, and
    bytes that are not UTF-8 become U+FFFD. Cleaning is idempotent. The result can be longer than ``raw``.
    """
    if not raw.translate(None, _PLAIN):  # most output is plain, and the patterns take ten times as long
        return raw.decode("ascii")
    text = _SEQUENCES.sub("", raw.decode("utf-8", "replace"))
    if "\r" in text:
        text = "\n".join(_last_state(line) for line in text.split("\n"))
    return visible(text)


def visible(text: str) -> str:
    """Return the text with control characters escaped. Nothing is removed; line feeds and tabs stay."""
    return _INVISIBLE.sub(_escape, text)


def _last_state(line: str) -> str:
    written = [state for state in line.split("\r") if state]
    return written[-1] if written else ""


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def clip(text: str, max_bytes: int) -> str:
    """Shorten a text to its head and tail, with a line between them that counts the omitted bytes.

    The result has at most ``max_bytes`` bytes of UTF-8 and is cut between characters. The tail gets three quarters of
    the space, because commands print errors last. If the middle line does not fit, only the head is returned.
    """
    raw = text.encode("utf-8", "replace")
    if len(raw) <= max_bytes:
        return raw.decode()
    room = max_bytes - len(_omitted(len(raw), len(raw)))
    if room <= 0:
        return cut(text, max_bytes)
    head = cut(text, room // 4)
    tail = raw[len(raw) - (room - room // 4) :].decode("utf-8", "ignore")
    size = len(head.encode()) + len(tail.encode())
    return head + _omitted(len(raw) - size, len(raw)) + tail


def _omitted(omitted: int, total: int) -> str:
    return f"\n[... {omitted} bytes omitted of {total} ...]\n"


def cut(text: str, max_bytes: int) -> str:
    """Return the longest beginning of the text that fits into ``max_bytes`` bytes of UTF-8."""
    return text.encode("utf-8", "replace")[: max(0, max_bytes)].decode("utf-8", "ignore")


def shown_name(name: bytes | str) -> str:
    """Return a file name or path as one line of valid text; ``meant_name`` reverses this.

    A ``str`` may contain undecodable bytes in the form used by ``os.fsdecode``.
    """
    try:
        raw = name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")
        text = raw.decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a surrogate that does not encode a byte; no file has such a name
        text = str(name)
    return _UNSEEN_IN_NAMES.sub(_escape_in_name, text)


def _escape_in_name(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else _escape(match)


def meant_name(text: str) -> bytes | None:
    """Return the name that ``shown_name`` displays this way, or None if the text is not an escaped file name."""
    if "\\" not in text:
        return None
    try:
        name = _ESCAPED.sub(_unescape, text).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return None
    return name if shown_name(name) == text and b"\0" not in name else None


def _unescape(match: re.Match[str]) -> str:
    short, byte, *wide = match.groups()
    if short:
        return {"n": "\n", "r": "\r", "t": "\t"}.get(short, short)
    if byte:
        code = int(byte, 16)
        return chr(code) if code < 0x80 else chr(0xDC00 + code)
    code = int(wide[0] or wide[1], 16)
    return chr(code) if code <= 0x10FFFF else match[0]
