"""Tests for the picture of a session at the top of the README."""

import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from scripts.picture import spans
from scripts.strategy_pictures import STRATEGIES as PANELS
from scripts.terminal_pictures import RECORDINGS, record
from tests.stage import ROOT

PICTURE = ROOT / "docs" / "session.svg"
STRATEGIES = ROOT / "docs" / "images" / "strategies.svg"
TERMINAL = ROOT / "docs" / "images" / "terminal"
NAME = "{http://www.w3.org/2000/svg}"


def screens(path) -> list[str]:
    root = ET.parse(path).getroot()
    assert root.tag == f"{NAME}svg"
    assert {each.tag.removeprefix(NAME) for each in root.iter()} == {"svg", "title", "style", "rect", "g", "text"}
    return ["\n".join(text.text or "" for text in group) for group in root.iter(f"{NAME}g")]


def test_the_picture_is_one_small_file_without_scripts_and_shows_the_whole_session():
    shown = screens(PICTURE)
    assert PICTURE.stat().st_size < 60_000
    assert "applied to" in shown[-1]
    assert "push_frame look" in shown[-1]
    assert f"({PICTURE.relative_to(ROOT)})" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_picture_of_the_strategies_is_small_and_on_the_page_that_compares_them():
    titles = [text.text for text in ET.parse(STRATEGIES).getroot().iter(f"{NAME}text") if text.get("class") == "n"]
    assert titles == list(PANELS)
    assert STRATEGIES.stat().st_size < 60_000
    assert "(images/strategies.svg)" in (ROOT / "docs" / "which-strategy.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_terminal_picture_is_small_and_on_its_page(name):
    recording, path = RECORDINGS[name], TERMINAL / f"{name}.svg"
    (screen,) = screens(path)
    assert path.stat().st_size < 20_000
    assert recording.shown[0].split()[0] in screen
    link = f"{'../' * recording.page.count('/')}images/terminal/{name}.svg"
    assert f"![{recording.title}]({link})" in (ROOT / "docs" / recording.page).read_text(encoding="utf-8")


def test_no_terminal_picture_is_left_over():
    assert sorted(path.stem for path in TERMINAL.iterdir()) == sorted(RECORDINGS)


@pytest.mark.campaign
def test_a_terminal_picture_can_be_made_again(tmp_path):
    rows = record(RECORDINGS["replay"], tmp_path)
    assert any("verified" in row for row in rows)


@pytest.mark.campaign
def test_the_picture_can_be_made_again(tmp_path):
    made = tmp_path / "session.svg"
    subprocess.run([sys.executable, ROOT / "scripts" / "picture.py", made], check=True, timeout=200)
    assert "applied to" in screens(made)[-1]


def test_a_color_ends_where_the_terminal_ends_it():
    row = "\x1b[36mcode\x1b[39m plain \x1b[1mbold\x1b[22m \x1b[31mred\x1b[32mgreen\x1b[0m end"
    looks = [(text.strip(), look) for _, text, look in spans(row, set())]
    assert looks == [
        ("code", 'fill="#56b6c2"'), ("plain", ""), ("bold", 'font-weight="bold"'), ("red", 'fill="#e06c75"'),
        ("green", 'fill="#98c379"'), ("end", ""),
    ]  # fmt: skip
