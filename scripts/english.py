"""Count wording that reads as translated: ``python scripts/english.py [--list] [PATH...]``.

Reads the prose of Markdown pages, and the docstrings, comments and texts of four words or more of Python files. Prints
the markers per 1,000 words of each package and folder. A marker is a hint: some sentences with one are fine, and many
bad sentences have none. Well-known projects have 0 to 0.8 markers per 1,000 words.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAX_RATE = 1.6
"""Markers per 1,000 words of a folder; twice the highest rate among eleven well-known projects."""
MAX_FILE_RATE = 4.0
MIN_FILE_WORDS = 150
"""Shorter files are counted in their folder only: one marker in few words is a high rate."""
_MIN_TEXT_WORDS = 4

_BE = r"(?:is|are|was|were|be|been)"
_AFTER_PASSIVE = (
    r"(?:of|to|as|for|by|with|once|what|in|at|all|no|nothing|and|where|how|that|when|its?|the|them|their|which|whether)"
)
_KINDS = {
    "a clause as the subject": (
        r"(?:^|[.:;] )(?:What|Who|Whoever) (?!(?:is|are|was|were|did|can|should|would|if|ha[sd]|have)\b|do"
        r"|happens\b|to\b|this\b|it\b|you\b)[a-z][^.?!]*[^?]$",
        r"(?:^|[.:;] )(?:What|Who) (?:is|was|has|can) [^?.]*?,? (?:is|are|has|was|were|goes|stays|takes|fails|counts) "
        r"[^?.]*\.",
    ),
    "'no' instead of 'not a'": (
        # "there is no workspace" is how everybody says it; "the file is no workspace" is not
        rf"(?<![Tt]here )\b{_BE} no (?!longer|more|less|matter|one\b|such\b|way\b|need\b|point\b|doubt\b|limit\b)\w+",
    ),
    "a verb of place instead of 'is' or 'contains'": (
        r"\b(?:stands?|stood|lies|lay) (?:in|on|at|behind|before|beside|first|last|once|there|under|with)\b",
        r"\bholds? (?:no|none|nothing|what)\b",
    ),
    "a verb without an actor": (
        rf"\b{_BE} (?:told|said|asked|shown|given|spoken|named|held|looked|heard|meant) {_AFTER_PASSIVE}\b",
        r"\b(?:all|everything|nothing|something|those|that|one) (?:that|which) (?:is|was|are|were) "
        r"(?:told|said|asked|shown|looked|held|made|done|taken|found|kept)\b",
    ),
    "an archaic or literal phrase": (
        r"\bof others\b|\b(?:of|for) (?:its|their|your|one's|his|her) own\b|\b(?:by|for) itself\b|\ball the same\b",
        r"\bbeside (?:it|them|the|a|an|its|what|each|one|that|other)\b|\bat once\b|\bin small\b|\bsuch an? one\b",
        r"\bso (?:much|many) (?:is|are|was|were|as|times|of|it)\b|\banew\b|\bway out\b",
        r"\bc(?:omes?|ame) to (?:an?|its|no|nothing|what|the|that|in)\b",
        r"\bgo(?:es)? on (?:with|in|from|as|where|without)\b|\bbr(?:ings?|ought) (?:back|along)\b",
        r"\b(?:dear|dearer|thereby|whereby|therein|wherein|thereof|hitherto|lest)\b",
    ),
    "a British or stilted word": (
        r"\b(?:amongst|behaviour|colours?|dearest|grey|hereby|in order to|leverage|licence|misspelt|so far as|spelt"
        r"|utilize|whatsoever|whilst)\b",
    ),
    "'she' for a reader": (r"\b(?:[Ss]he|[Hh]ers?)\b",),
}
MARKERS = {kind: re.compile("|".join(patterns), re.M) for kind, patterns in _KINDS.items()}

_FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.M | re.S)
_COMMENT = re.compile(r"<!--.*?-->", re.S)
_STRING_OR_COMMENT = re.compile(
    r'''"""(?:[^"\\]|\\.|"(?!""))*"""|"(?:[^"\\\n]|\\.)*"'''
    r"""|'''(?:[^'\\]|\\.|'(?!''))*'''|'(?:[^'\\\n]|\\.)*'|(?P<comment>\#[^\n]*)""",
    re.S,
)
_WORD = re.compile(r"[A-Za-z']{2,}")

Lines = list[tuple[int, str]]
"""Pairs of a line number and its prose."""


def prose_of(path: Path) -> Lines:
    """Return the lines of prose in a Markdown or Python file, with code replaced by X."""
    text = path.read_text("utf-8")
    return _markdown(text) if path.suffix == ".md" else list(_python(text))


def _markdown(text: str) -> Lines:
    for pattern in (_FENCE, _COMMENT):
        text = pattern.sub(lambda match: "\n" * match.group().count("\n"), text)
    bare = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "X", line)) for line in text.splitlines())
    # A heading keeps its "#": "What a project may set" is a good heading and a bad subject.
    return [(number, line.strip(" |*>-")) for number, line in enumerate(bare, 1)]


def _python(text: str) -> Iterator[tuple[int, str]]:
    docstrings: set[int] = set()
    pieces: set[int] = set()
    texts: list[ast.Constant] = []
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            for statement in body:
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    docstrings.add(id(statement.value))
                    yield from _lines(statement.value)
        if isinstance(node, ast.JoinedStr):
            pieces |= {id(part) for part in node.values}
            yield node.lineno, "".join(str(getattr(part, "value", "")) if isinstance(part, ast.Constant) else "X"
                                       for part in node.values)  # fmt: skip
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(node)
    for node in texts:
        if id(node) not in docstrings and id(node) not in pieces and len(str(node.value).split()) >= _MIN_TEXT_WORDS:
            yield from _lines(node)
    yield from _comments(text)


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments. Tokenizing every file with `tokenize` would take longer than everything else here."""
    line, seen = 1, 0
    for match in _STRING_OR_COMMENT.finditer(text):
        if match["comment"]:
            line += text.count("\n", seen, match.start())
            seen = match.start()
            yield line, match["comment"].lstrip("# ")


def _lines(node: ast.Constant) -> Iterator[tuple[int, str]]:
    if isinstance(node.value, str):
        for offset, line in enumerate(node.value.splitlines()):
            yield node.lineno + offset, re.sub(r"`+[^`]*`+", "X", line.strip()) if "`" in line else line.strip()


def markers(lines: Lines) -> Iterator[tuple[int, str, str]]:
    """Yield the line number, the kind and the line of each marker."""
    for number, line in lines:
        for kind, pattern in MARKERS.items():
            if pattern.search(line):
                yield number, kind, line


def count(path: Path) -> tuple[int, int]:
    """Return the words and the markers of a file."""
    lines = prose_of(path)
    return sum(len(_WORD.findall(line)) for _, line in lines), sum(1 for _ in markers(lines))


def rate(counts: list[tuple[int, int]]) -> float:
    """Return the markers per 1,000 words."""
    words = sum(each[0] for each in counts)
    return 1_000 * sum(each[1] for each in counts) / words if words else 0.0


def files_of(folder: Path) -> list[Path]:
    """Return the Markdown and Python files of a folder, or the file itself."""
    return sorted([*folder.rglob("*.md"), *folder.rglob("*.py")]) if folder.is_dir() else [folder]


def folders() -> list[Path]:
    """Return the folders and pages that have a limit: the packages of stackmem and the other sources."""
    packages = [path for path in sorted((ROOT / "stackmem").iterdir()) if path.is_dir() and any(path.glob("*.py"))]
    others = [ROOT / name for name in ("docs", "tests", "scripts", "benchmarks", "README.md", "CONTRIBUTING.md")]
    return [*packages, *others]


def main() -> None:
    """Print the rate of each folder, or every marked line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="*", type=Path, help="files and folders; all of the project without one")
    parser.add_argument("--list", action="store_true", help="print every marked line")
    chosen = parser.parse_args()
    for folder in chosen.paths or folders():
        files = files_of(folder)
        if chosen.list:
            for path in files:
                for number, kind, line in markers(prose_of(path)):
                    print(f"{path}:{number}: [{kind}] {line[:160]}")
        counts = [count(path) for path in files]
        print(f"{rate(counts):5.1f} per 1,000 of {sum(words for words, _ in counts):,} words: {folder}")


if __name__ == "__main__":
    main()
