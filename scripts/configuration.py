"""Writes the table of options anew into docs/configuration.md, between its two marks."""

from pathlib import Path

from stackmem.settings.options import options_table

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"
BEGIN, END = "<!-- options -->\n", "<!-- end of options -->\n"

before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
_, _, after = rest.partition(END)
PAGE.write_text(f"{before}{BEGIN}{options_table()}\n{END}{after}", "utf-8")
