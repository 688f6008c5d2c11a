"""Draw the prompt sizes of several strategies, step by step, from real runs of one generated task.

``python scripts/strategy_pictures.py [docs/images/strategies.svg]`` runs a bench with the simulated model, which takes
about a minute, and writes the picture.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import stackmem  # noqa: E402 - from the checkout

STRATEGIES = {
    "full": "everything, in one conversation",
    "adaptive": "frames once they pay, and a heap",
    "stackheap": "frames and a heap from the start",
    "isolated": "sub-agents that return only a result",
    "fold": "branches that start with all before them",
    "summary": "a summary at 24,000 tokens",
    "window": "only the last 20 to 29 turns",
    "mask": "old outputs cut to one line",
    "boundary": "long outputs pruned after finished work",
}
BENCH = (
    "--models", "sim/bounded-reader", "--trials", "1", "--horizon", "100", "--window-tokens", "1_000_000",
    "--isolation", "memory", "--fsync", "none", "--quiet",
)  # fmt: skip
COLUMNS = 3
PANEL_WIDTH, PANEL_HEIGHT, PLOT_HEIGHT, EDGE, GAP = 240, 168, 104, 16, 18
GROUND, TEXT, FAINT, ROOT_COLOR, CHILD_COLOR = "#1e2127", "#d7dae0", "#9aa1ad", "#61afef", "#e5c07b"


class Prompt(NamedTuple):
    """The size of one prompt, and whether it belongs to the root frame."""

    tokens: int
    in_root: bool


def record(folder: Path) -> dict[str, list[Prompt]]:
    """Run the bench and return the prompts of each strategy."""
    command = [sys.executable, "-m", "stackmem", "bench", "spec_map", "--strategies", ",".join(STRATEGIES)]
    subprocess.run([*command, *BENCH, "-o", str(folder)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    prompts = {}
    for path in sorted((folder / "runs").iterdir()):
        run = stackmem.open_run(path)
        steps = list(run.steps)
        root = steps[0].frame
        prompts[run.start.strategy] = [
            Prompt(step.reply.usage.total - step.reply.usage.output, step.frame == root) for step in steps
        ]
    return prompts


def draw(prompts: dict[str, list[Prompt]]) -> str:
    """Draw one panel per strategy, all on the same scale, as an SVG."""
    rows = -(-len(STRATEGIES) // COLUMNS)
    width = 2 * EDGE + COLUMNS * PANEL_WIDTH + (COLUMNS - 1) * GAP
    height = 2 * EDGE + rows * PANEL_HEIGHT + 24
    largest = max(prompt.tokens for each in prompts.values() for prompt in each)
    longest = max(map(len, prompts.values()))
    panels = [
        _panel(name, prompts[name], largest, longest, number % COLUMNS, number // COLUMNS)
        for number, name in enumerate(STRATEGIES)
    ]
    legend = (
        f'<text x="{EDGE}" y="{height - EDGE}" class="f">one bar per step, height = prompt tokens, '
        f'<tspan fill="{ROOT_COLOR}">root frame</tspan>, <tspan fill="{CHILD_COLOR}">child frame</tspan></text>'
    )
    style = (
        f"text{{font:12px system-ui,sans-serif;fill:{TEXT}}}.n{{font:bold 13px ui-monospace,Menlo,Consolas,monospace}}"
        f".f{{font-size:11px;fill:{FAINT}}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
        f"<title>Prompt sizes of {len(STRATEGIES)} strategies over one task of 100 steps</title><style>{style}</style>"
        f'<rect width="100%" height="100%" rx="8" fill="{GROUND}"/>{"".join(panels)}{legend}</svg>\n'
    )


def _panel(name: str, prompts: list[Prompt], largest: int, longest: int, column: int, row: int) -> str:
    left, top = EDGE + column * (PANEL_WIDTH + GAP), EDGE + row * PANEL_HEIGHT
    bottom = top + 36 + PLOT_HEIGHT
    step_width = PANEL_WIDTH / longest
    paths = ""
    for in_root, color in ((True, ROOT_COLOR), (False, CHILD_COLOR)):
        bars = "".join(
            f"M{left + (number + 0.5) * step_width:.1f} {bottom}v-{PLOT_HEIGHT * prompt.tokens / largest:.1f}"
            for number, prompt in enumerate(prompts)
            if prompt.in_root == in_root
        )
        paths += f'<path d="{bars}" stroke="{color}" stroke-width="{step_width * 0.8:.2f}"/>' if bars else ""
    peak = max(prompt.tokens for prompt in prompts)
    return (
        f'<g><text x="{left}" y="{top + 12}" class="n">{escape(name)}</text>'
        f'<text x="{left + PANEL_WIDTH}" y="{top + 12}" class="f" text-anchor="end">at most {peak:,} tokens</text>'
        f'<text x="{left}" y="{top + 28}" class="f">{escape(STRATEGIES[name])}</text>'
        f'<path d="M{left} {bottom}h{PANEL_WIDTH}" stroke="{FAINT}"/>{paths}</g>'
    )


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        prompts = record(Path(folder, "bench"))
    target.write_text(draw(prompts), encoding="utf-8")
    print(f"{target}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images" / "strategies.svg")
