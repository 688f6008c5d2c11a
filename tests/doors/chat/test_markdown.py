"""The model's Markdown in the terminal: it fits the width, stays copyable, and cannot control the terminal."""

import re
import time

import pytest
from rich.cells import cell_len

from stackmem.doors.chat import markdown
from stackmem.doors.chat.chat import is_light, numbered
from stackmem.doors.chat.markdown import render_markdown, render_tail

STYLES = re.compile(r"\x1b\[[0-9;]*m")
TABLE = "| name | what it says |\n|---|---|\n| a | " + "many words " * 40 + "|\n"


def bare(text: str) -> str:
    return STYLES.sub("", text)


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_prose_lists_and_tables_fit_the_width(columns: int):
    text = f"# Title\n\n{'prose ' * 60}\n\n- {'item ' * 60}\n\n{TABLE}\n> {'quote ' * 60}\n\n漢字{'漢字' * 100}"
    assert max(map(cell_len, bare(render_markdown(text, columns)).split("\n"))) <= columns


def test_code_is_highlighted_and_copied_without_a_change():
    code = "def total(values):\n    return sum(values)  # " + "long " * 60 + "\n\n\nprint(total([1]))"
    shown = render_markdown(f"Look:\n\n```python\n{code}\n```\nDone.", 80)
    assert code in bare(shown)
    assert "\x1b[" in shown.split("```python")[1]
    assert render_markdown(f"```python\n{code}\n```", 80, light=True) != render_markdown(f"```python\n{code}\n```", 80)


def test_a_line_of_the_model_stays_a_line():
    assert bare(render_markdown("One.\nTwo.\n\nThree.", 80)) == "One.\nTwo.\n\nThree."


@pytest.mark.parametrize(
    "hostile",
    [
        "\x1b]0;owned\x07\x1b[2J\x1b]52;c;ZXZpbA==\x07 text",
        "```\x1b[2J\n\x1b]0;owned\x07\n```", "\x9b2J \x85 \u202e text",
        "[safe](javascript:alert(1)) [link](http://evil.example/\x1b[2J)", "| a |\n|---|\n| \x1b[5A |\n",
        "> " * 3_000 + "x", "- " * 3_000 + "x", "*" * 20_000, "[" * 20_000, "`" * 20_000, "```\n" * 3_001,
        "[bold red]x[/]",
        "&#27;[2J &#x1b;]0;owned&#7;",
    ],
)  # fmt: skip
def test_a_hostile_text_prints_no_escape_sequence_but_colors(hostile: str):
    began = time.process_time()
    for shown in (render_markdown(hostile, 80), render_tail(hostile, 80)):
        assert "\x1b" not in bare(shown)
        assert all(character.isprintable() or character == "\n" for character in bare(shown))
    assert time.process_time() - began < 30


def test_a_link_shows_its_address():
    assert "http://evil.example" in bare(render_markdown("[my bank](http://evil.example)", 80))


def test_the_end_of_a_streaming_text_is_rendered_also_inside_of_code():
    assert bare(render_tail("# Title\n\nSome **bold", 80)).endswith("Some **bold")
    inside = "```python\n" + "x = 1\n" * 5_000
    assert bare(render_tail(inside, 80)).endswith("x = 1\nx = 1\n\n```")


def test_a_diff_has_line_numbers():
    lines = ["a.txt, edited", "--- a", "+++ b", "@@ -9,3 +9,3 @@", " same", "-old", "+new", " end"]
    assert list(numbered(lines)) == [
        *lines[:4], "    9  same", "   10 -old", "   10 +new", "   11  end",
    ]  # fmt: skip


@pytest.mark.parametrize(("colors", "light"), [("", False), ("15;0", False), ("0;15", True), ("0;default;7", True)])
def test_a_light_background_is_taken_from_the_environment(colors: str, light: bool):
    assert is_light(colors) == light


def test_a_text_that_streams_in_renders_each_complete_block_once(monkeypatch):
    rendered = []
    render = markdown._render
    monkeypatch.setattr(markdown, "_render", lambda part, *rest: rendered.append(part) or render(part, *rest))
    blocks = "\n\n".join(f"Block {number} of a text that is long enough." for number in range(30))
    shown = [render_tail(blocks[:end], 80) for end in range(len(blocks))]
    assert len(rendered) <= len(blocks) + 30
    assert rendered.count("Block 7 of a text that is long enough.") == 1
    assert bare(shown[-1]).endswith("Block 28 of a text that is long enough.\n\nBlock 29 of a text that is long enough")
