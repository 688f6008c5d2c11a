"""Rewrite the table of options in docs/configuration.md, between its two marks."""

from pathlib import Path

from stackmem.settings.options import OPTIONS

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"
BEGIN, END = "<!-- options -->\n", "<!-- end of options -->\n"


def options_table() -> str:
    """Return the options as a Markdown table, in their order."""
    head = "| setting | flag | takes | default | project file | what it is |\n|---|---|---|---|---|---|"
    lines = [
        f"| `{one.name}` | `{one.flag}` | {one.accepts} | {one.default_text} | {'yes' if one.project else 'no'} "
        f"| {one.says} |"
        for one in OPTIONS.values()
    ]
    return "\n".join([head, *lines])


if __name__ == "__main__":
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}{options_table()}\n{END}{after}", "utf-8")
