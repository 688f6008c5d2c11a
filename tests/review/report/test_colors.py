"""A strategy has one color on every page, and one table has them all."""

import json
import re
import subprocess

from stackmem.lab.comparison.anchors import FAMILIES, family_of
from stackmem.lab.comparison.evidence import write_evidence
from stackmem.lab.comparison.write import write_report
from stackmem.memory import STRATEGIES
from stackmem.review.report.colors import PALETTE, STRATEGY_HUES, color_script, color_styles, hue_of
from stackmem.review.report.page import asset, index_page, page
from stackmem.review.report.view import read_runs
from tests.lab.bench.test_evidence import entry
from tests.node import node
from tests.stage import ROOT

from . import runs
from .bench_rows import bench, row

VARIANTS = (
    "adaptive:read=0.05",
    "mask:10",
    "mine",
    "",
    "\U0001f600 <b>",
    "imported: codex",
    "stackheap:index=none",
)
CARDS = ("#ffffff", "#151922")
SECOND = re.compile(
    rf"""(?:--hue-\d+\s*:|["'`]?\b(?:{"|".join(STRATEGY_HUES)})\b["'`]?\s*(?::|=|=>|,)\s*\(?["'`]?\#[0-9a-fA-F]{{3,8}}\b)"""
)


def test_every_strategy_has_a_color_and_no_two_of_a_family_share_one():
    known = {name for _, names in FAMILIES.values() for name in names}
    assert set(STRATEGIES) == known == set(STRATEGY_HUES)
    assert len({(family_of(name), hue_of(name)) for name in STRATEGY_HUES}) == len(STRATEGY_HUES)
    assert {hue_of(name) for name in (*STRATEGY_HUES, *VARIANTS)} <= set(range(len(PALETTE)))
    assert all(hue_of(name) != hue_of(name.partition(":")[0]) for name in VARIANTS if ":" in name)


def test_the_pages_script_has_the_same_colors():
    names = [*STRATEGY_HUES, *VARIANTS]
    script = (
        color_script(asset("colors.js")).replace("export ", "")
        + f"console.log(JSON.stringify({json.dumps(names)}.map(hueOf)))"
    )
    ran = subprocess.run([node(), "-e", script], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == [hue_of(name) for name in names]


def test_the_same_strategy_has_the_same_color_in_every_page(tmp_path):
    trials = [row(name, seed=seed) for name in ("stackheap", "full") for seed in range(3)]
    report = write_report(bench(tmp_path / "bench", trials)).path.read_text("utf-8")
    write_evidence([entry("a", f"t{number}", 0.8) for number in range(9)], tmp_path / "evidence.html")
    evidence = (tmp_path / "evidence.html").read_text("utf-8")
    run = page(read_runs([runs.empty(tmp_path / "run")])).decode()
    for text in (report, evidence, run, index_page().decode()):
        assert color_styles() in text
    assert color_script(asset("colors.js")).replace("export ", "") in run
    assert f"chip hue-{STRATEGY_HUES['stackheap']}" in report
    assert f"chip hue-{STRATEGY_HUES['full']}" in report
    assert f"var(--hue-{STRATEGY_HUES['full']})" in evidence


def test_no_other_file_gives_a_strategy_a_color():
    files = [path for path in (ROOT / "stackmem").rglob("*") if path.suffix in (".py", ".js", ".css", ".html")]
    own = ROOT / "stackmem/review/report/colors.py"
    assert [str(path) for path in files if path != own and SECOND.search(path.read_text("utf-8"))] == []
    for second in ("--hue-3: red", '{"full": "#c2529b"}', "const MASK = { mask: '#ccc' }", '("stackheap", "#4b4fd8")'):
        assert SECOND.search(second), second


def luminance(color):
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_every_color_stands_out_from_the_page():
    for pair in PALETTE:
        for color, card in zip(pair, CARDS, strict=True):
            darker, lighter = sorted((luminance(color), luminance(card)))
            assert (lighter + 0.05) / (darker + 0.05) >= 3, color
