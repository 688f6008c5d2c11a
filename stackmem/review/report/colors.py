"""The colors of strategies: the only table, from which every page, plot and list takes them.

Strategies of one family have different colors. Strategies of different families may share one, and their marks differ.
"""

from __future__ import annotations

from msgspec import json

PALETTE = (
    ("#4b4fd8", "#9ea3ff"), ("#b86e00", "#e8a33d"), ("#3d8f3a", "#7fce74"), ("#c2529b", "#e985c9"),
    ("#1a86a8", "#55c1e0"), ("#c8432f", "#ff8a73"), ("#707c93", "#97a3b8"), ("#8a46c9", "#c79bf2"),
    ("#0a7f6c", "#3fc9b0"), ("#7d7a14", "#c5c24a"), ("#8f5d3d", "#d0a283"), ("#2f7fe6", "#6db0ff"),
)  # fmt: skip
"""Each color on a light page and on a dark one."""
STRATEGY_HUES = {
    "full": 3, "window": 6, "truncate": 10,
    "mask": 1, "clear": 9, "clear_cold": 11, "clear_paying": 4, "context_editing": 2, "boundary": 7, "episodes": 8,
    "summary": 2, "compact": 4, "compact_provider": 3, "rolling_summary": 8, "structured_summary": 9,
    "hierarchical": 10, "condenser": 6, "handoff": 11, "mem1": 7, "agentfold": 5, "self_compact": 1,
    "rag": 5, "rlm": 7, "notes": 8, "memory_dir": 9, "memory_files": 4, "letta": 10, "expandable": 11, "dashboard": 1,
    "isolated": 10, "fold": 7, "stack": 11,
    "stackheap": 0, "adaptive": 8, "heap": 4, "stackheap_fork": 7, "stackheap_lossless": 11,
}  # fmt: skip
"""The number of each strategy's color. Variants and added strategies get one from their name, also always the same."""
_MULTIPLIER, _MODULUS = 31, 65_521


def hue_of(strategy: str) -> int:
    """Return the number of a strategy's color in ``PALETTE``. A variant never has the color of its strategy."""
    if strategy in STRATEGY_HUES:
        return STRATEGY_HUES[strategy]
    digest = 0
    for char in strategy:
        digest = (digest * _MULTIPLIER + ord(char)) % _MODULUS
    base = STRATEGY_HUES.get(strategy.partition(":")[0], len(PALETTE) - 1)
    hue = digest % (len(PALETTE) - 1)
    return hue + (hue >= base)


def color_styles() -> str:
    """Return the style sheet of the colors: a variable and a class each, and the mark next to a name."""
    variables = "".join(
        f" --hue-{number}: light-dark({light}, {dark});" for number, (light, dark) in enumerate(PALETTE)
    )
    classes = "".join(f".hue-{number} {{ --c: var(--hue-{number}); }}\n" for number in range(len(PALETTE)))
    mark = (
        ".strategy-mark { display: inline-block; width: 10px; height: 10px; margin-right: 6px; border-radius: 3px; "
        "background: var(--c); forced-color-adjust: none; }\n"
    )
    return f":root {{{variables} --full: var(--hue-{STRATEGY_HUES['full']}); }}\n{classes}{mark}"


def color_script(source: str) -> str:
    """Fill the pages' module with the table, so that its ``hueOf`` is ``hue_of``."""
    source = source.replace('{"hues":{}}', json.encode({"hues": STRATEGY_HUES}).decode())
    return source.replace("COLORS = 12", f"COLORS = {len(PALETTE)}")
