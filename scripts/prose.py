"""What is hard to read in a page: sentences of too many words, and words that CONTRIBUTING.md says not to use.

``python scripts/prose.py [FILE…]`` prints what it finds in the README and the docs, or in these files.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST_WORDS = 30
# What was thought or changed at a time, and what is made of the code, is left as it is.
LEFT_OUT = ("docs/decisions", "docs/map.md", "docs/experiments.md")

_FENCE = re.compile(r"^(?P<mark> *```+)[^\n]*\n.*?^(?P=mark)`*\s*$", re.M | re.S)
_COMMENT = re.compile(r"<!--.*?-->", re.S)
_CODE = re.compile(r"(`+)(?:(?!\1).)+?\1", re.S)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)\s]*\)")
_BLOCK = re.compile(r"^(#+ .*|\s*\|.*|\s*(?:[-*]|\d+\.) )", re.M)
# Letters with a period that end no sentence are not written here, so a stop and a blank are enough.
_STOP = re.compile(r"(?<=[.!?])[)\"*_]*\s+")
_WORD = re.compile(r"[A-Za-z0-9](?:[\w'’./-]*\w)?")
_ROW = re.compile(r"^\| ([^|`]+?) \| ([^|]+?) \|$", re.M)


def pages() -> list[Path]:
    """The README, CONTRIBUTING and the docs that tell how things are today."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in found if not path.relative_to(ROOT).as_posix().startswith(LEFT_OUT)]


def passages(text: str) -> Iterator[str]:
    """The paragraphs, list items and table cells of a page, without its code."""
    bare = _COMMENT.sub("", _FENCE.sub("\n\n", text))
    bare = _LINK.sub(r"\1", _CODE.sub("…", bare))
    for part in re.split(r"\n\s*\n", _BLOCK.sub(r"\n\n\1", bare)):
        if part.lstrip().startswith("|"):
            yield from (cell.strip() for cell in part.strip().strip("|").split("|"))
        elif not part.lstrip().startswith("#"):
            yield " ".join(part.split())


def long_sentences(text: str) -> list[str]:
    """The sentences of a page that have more words than a reader keeps in mind; code counts as none."""
    sentences = (sentence for passage in passages(text) for sentence in _STOP.split(passage))
    return [sentence for sentence in sentences if len(_WORD.findall(sentence)) > MOST_WORDS]


@cache
def avoided() -> Mapping[str, str]:
    """Word or turn to what to write instead, as CONTRIBUTING.md lists them."""
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = page.partition("\n## Words\n")[2].partition("\n## ")[0]
    rows = dict(_ROW.findall(section))
    return {word: instead for word, instead in rows.items() if word not in ("instead of", "---")}


def avoided_words(text: str) -> list[str]:
    """The words of a page that are not to be used, each with what to write."""
    said = " ".join(passages(text)).lower()
    return [
        f"{word}: write {instead}" for word, instead in avoided().items() if re.search(rf"\b{re.escape(word)}\b", said)
    ]


def main(named: list[str]) -> int:
    """Print what is found; 1 where there is something."""
    found = 0
    for path in map(Path, named) if named else pages():
        text = path.read_text("utf-8")
        told = [f"{len(_WORD.findall(one))} words: {one}" for one in long_sentences(text)]
        if path.name != "CONTRIBUTING.md":
            told += avoided_words(text)
        for one in told:
            print(f"{path}: {one}")
        found += len(told)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
