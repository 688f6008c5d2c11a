"""Find sentences that are hard to read: too many words, or a lost beginning.

``python scripts/prose.py [FILE…]`` prints the findings for the README and the docs, or for these files.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAX_WORDS = 30
# Historical records and generated pages are excluded.
LEFT_OUT = ("docs/decisions", "docs/map.md", "docs/experiments.md")

_FENCE = re.compile(r"^(?P<mark> *```+)[^\n]*\n.*?^(?P=mark)`*\s*$", re.M | re.S)
_COMMENT = re.compile(r"<!--.*?-->", re.S)
_CODE = re.compile(r"(`+)(?:(?!\1).)+?\1", re.S)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)\s]*\)")
_BLOCK = re.compile(r"^(#+ .*|\s*\|.*|\s*(?:[-*]|\d+\.) )", re.M)
# The docs do not use abbreviations that end in a period, so a period and a blank end a sentence.
_STOP = re.compile(r"(?<=[.!?])[)\"*_]*\s+")
_WORD = re.compile(r"[A-Za-z0-9](?:[\w'’./-]*\w)?")
_SMALL_NAMES = ("stackmem", "llama.cpp", "mini-swe-agent", "uv", "pipx")


def pages() -> list[Path]:
    """Return the README, CONTRIBUTING and the docs on the current state."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in found if not path.relative_to(ROOT).as_posix().startswith(LEFT_OUT)]


def passages(text: str) -> Iterator[str]:
    """Yield the paragraphs, list items and table cells of a page, without its code."""
    bare = _COMMENT.sub("", _FENCE.sub("\n\n", text))
    bare = _LINK.sub(r"\1", _CODE.sub("…", bare))
    for part in re.split(r"\n\s*\n", _BLOCK.sub(r"\n\n\1", bare)):
        if part.lstrip().startswith("|"):
            yield from (cell.strip() for cell in part.strip().strip("|").split("|"))
        elif not part.lstrip().startswith("#"):
            yield " ".join(part.split())


def long_sentences(text: str) -> list[str]:
    """Return the sentences of a page with too many words. Code does not count."""
    sentences = (sentence for passage in passages(text) for sentence in _STOP.split(passage))
    return [sentence for sentence in sentences if len(_WORD.findall(sentence)) > MAX_WORDS]


def lost_openings(text: str) -> list[str]:
    """Return the paragraphs that begin in the middle of a sentence: with a small letter that is not a name's."""
    bare = _BLOCK.sub(r"\n\n\1", _CODE.sub("…", _COMMENT.sub("", _FENCE.sub("\n\n", text))))
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", bare))
    return [part for part in paragraphs if part[:1].islower() and not part.startswith(_SMALL_NAMES)]


def main(named: list[str]) -> int:
    """Print the findings. Returns 1 if there are any."""
    found = 0
    for path in map(Path, named) if named else pages():
        text = path.read_text("utf-8")
        findings = [f"{len(_WORD.findall(one))} words: {one}" for one in long_sentences(text)]
        findings += [f"begins in the middle of a sentence: {one[:60]}" for one in lost_openings(text)]
        for finding in findings:
            print(f"{path}: {finding}")
        found += len(findings)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
