"""Record the animated picture of a session in the README: a real conversation in tmux, with a scripted model.

``python scripts/picture.py [docs/session.svg]`` plays it and writes the picture. It needs tmux and a sandbox.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.doors.chat.tmux import Tmux, until  # noqa: E402 - from the checkout

COLUMNS, ROWS = 92, 30
CELL, LINE, EDGE = 8.0, 18.0, 14.0
COLORS = {30: "#3b4252", 31: "#e06c75", 32: "#98c379", 33: "#e5c07b", 34: "#61afef", 35: "#c678dd", 36: "#56b6c2"}
# The codes that each code ends: 0 all, 22 bold and dim, 23 italics, 39 a color. A color also ends the one before.
_ENDS = {0: set(range(1, 108)), 22: {1, 2}, 23: {3}, 39: set(COLORS)}
PLAIN, GROUND = "#d7dae0", "#1e2127"
_FONT = "text{white-space:pre;font:13.3px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}"
_SGR = re.compile(r"\x1b\[([0-9;]*)m|\x1b[^m]*?[@-~]")

FILES = {
    "total.py": "def total(prices):\n    return round(sum(prices), 2)\n",
    "test_total.py": "from total import total\n\n\ndef test_cents():\n    assert total([1.005, 0.005]) == 1.02\n",
}
SEES = "python -c 'import test_total as t; t.test_cents()' 2>&1 | tail -1"
FOUND = "total.py sums floats and rounds once, so 1.005 + 0.005 loses half a cent."
REPLIES = [
    {"call": "push_frame", "args": {
        "name": "look", "objective": "Find why totals are a cent off.", "context": "total.py",
        "return_spec": "The cause.",
    }},
    {"call": "run_command", "args": {"command": SEES}},
    {"call": "read_file", "args": {"path": "total.py"}},
    {"call": "heap_alloc", "args": {"name": "cause", "description": "why totals differ", "content": FOUND}},
    {"call": "pop_frame", "args": {"result": FOUND}},
    {"text": "total.py adds floats and rounds once at the end. Shall I round each price, or sum decimals?"},
    {"call": "write_file", "args": {"path": "total.py", "content": (
        "from decimal import ROUND_HALF_UP, Decimal\n\nCENT = Decimal('0.01')\n\n\n"
        "def total(prices):\n    cents = (Decimal(str(p)).quantize(CENT, ROUND_HALF_UP) for p in prices)\n"
        "    return float(sum(cents))\n"
    )}},
    {"call": "run_command", "args": {"command": f"{SEES}; echo tests pass"}},
    {"text": "Totals are sums of decimals now, each price rounded to the cent. The test passes."},
]  # fmt: skip


class Frame(NamedTuple):
    """A screen and its duration."""

    rows: tuple[str, ...]
    seconds: float


def play(place: Path) -> list[Frame]:
    """Play the conversation and return its screens."""
    folder = place / "shop"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    script = place / "demo"
    script.write_text(json.dumps({"replies": REPLIES}), encoding="utf-8")
    line = [sys.executable, "-m", "stackmem", "chat", "--model", f"script:{script}", "--network", "none"]
    places = {"HOME": str(place), "STACKMEM_RUNS_DIR": str(place / "runs"), "STACKMEM_SANDBOX_DIR": str(place / "work")}
    window = Tmux(place, line, folder, {**os.environ, **places, "PYTHONPATH": str(ROOT)}, COLUMNS)
    frames: list[Frame] = []

    def shows(seconds: float) -> None:
        time.sleep(0.4)  # gives tmux time to draw
        rows = tuple(window.screen("-e"))
        if not frames or frames[-1].rows != rows:
            frames.append(Frame(rows, seconds))

    def say(words: str, answer: str, seconds: float) -> None:
        for piece in re.findall(r".{1,9}", words):
            window("send-keys", "-l", "-t", "t", piece)
            shows(0.16)
        shows(0.5)
        window.type("Enter")
        window.wait_for(answer)
        shows(seconds)

    try:
        window("resize-window", "-t", "t", "-x", COLUMNS, "-y", ROWS)
        window.wait_for("Type a request")
        shows(1.0)
        say("Totals are a cent off sometimes. Why?", "or sum decimals?", 4.0)
        say("Sum decimals, and round each price.", "The test passes.", 3.5)
        say("/heap", "why totals differ", 2.5)
        say("/cost", "of output", 2.0)
        say("/apply", "applied to", 1.0)
        time.sleep(3)  # until the conversation continues
        shows(4.0)
    finally:
        window.type("C-d")
        until(lambda: not window.lives(), window.history)
    return [Frame(tuple(row.replace(str(place), "~") for row in frame.rows), frame.seconds) for frame in frames]


def spans(row: str, codes: set[int]) -> list[tuple[int, str, str]]:
    """Split a row into pieces: the start column, the text, and its style as SVG attributes.

    Args:
        codes: The SGR codes active at the start of the row; updated to those at its end.
    """
    found: list[tuple[int, str, str]] = []
    column = at = 0
    for match in [*_SGR.finditer(row), None]:
        text = row[at : match.start() if match else len(row)]
        if text.strip():
            found.append((column, text, _look(codes)))
        column += len(text)
        if match is not None:
            at = match.end()
            for code in map(int, filter(None, (match.group(1) or "0").split(";"))):
                codes -= _ENDS.get(code, set(COLORS) if code in COLORS else set())
                if code not in _ENDS:
                    codes.add(code)
    return found


def _look(codes: set[int]) -> str:
    color = next((COLORS[code] for code in codes if code in COLORS), PLAIN)
    looks = [f'fill="{color}"'] if color != PLAIN else []
    looks += (
        ['font-weight="bold"'] * (1 in codes) + ['opacity=".6"'] * (2 in codes) + ['font-style="italic"'] * (3 in codes)
    )
    return " ".join(looks)


def _texts(rows: tuple[str, ...]) -> str:
    codes: set[int] = set()
    return "".join(
        f'<text x="{EDGE + column * CELL:.0f}" y="{EDGE + (number + 0.8) * LINE:.0f}" {look}>'
        f"{escape(text.rstrip())}</text>"
        for number, row in enumerate(rows)
        for column, text, look in spans(row, codes)
    )


def still(rows: tuple[str, ...], title: str, columns: int) -> str:
    """Return a picture of one screen."""
    width, height = columns * CELL + 2 * EDGE, len(rows) * LINE + 2 * EDGE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img">'
        f"<title>{escape(title)}</title><style>{_FONT}</style>"
        f'<rect width="100%" height="100%" rx="8" fill="{GROUND}"/><g fill="{PLAIN}">{_texts(rows)}</g></svg>\n'
    )


def svg(frames: list[Frame]) -> str:
    """Return the picture. With reduced motion, viewers see only the last screen."""
    width, height = COLUMNS * CELL + 2 * EDGE, ROWS * LINE + 2 * EDGE
    whole = sum(frame.seconds for frame in frames)
    style = [
        _FONT,
        ".f{visibility:hidden}",
        "@media(prefers-reduced-motion:reduce){.f{animation:none!important}"
        f"#f{len(frames) - 1}{{visibility:visible}}}}",
    ]
    body, begun = [], 0.0
    for number, frame in enumerate(frames):
        first, last = 100 * begun / whole, 100 * (begun + frame.seconds) / whole
        begun += frame.seconds
        hidden = "0%{{visibility:hidden}}" if number else ""
        style.append(
            f"#f{number}{{animation:k{number} {whole:.1f}s step-end infinite}}"
            f"@keyframes k{number}{{{hidden}{first:.2f}%{{visibility:visible}}{last:.2f}%{{visibility:hidden}}}}"
        )
        body.append(f'<g class="f" id="f{number}" fill="{PLAIN}">{_texts(frame.rows)}</g>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img">'
        f"<title>A conversation with stackmem in a terminal</title><style>{''.join(style)}</style>"
        f'<rect width="100%" height="100%" rx="8" fill="{GROUND}"/>{"".join(body)}</svg>\n'
    )


def main() -> None:
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs" / "session.svg")
    with tempfile.TemporaryDirectory(prefix="s", dir="/tmp") as place:
        target.write_text(svg(play(Path(place))), encoding="utf-8")
    print(f"wrote {target}, {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
