"""What ``stackmem config`` shows, and the table of docs/configuration.md: both follow from the table of options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from stackmem.settings.options import OPTIONS, PREFIX, Option

if TYPE_CHECKING:  # what the settings need takes time that `--help` does not have
    from stackmem.settings.settings import Resolved, Value


class Row(NamedTuple):
    """A setting as it is shown: no secret in it, and on one line.

    Attributes:
        bare: For programs: None, a truth, a number, a text or a list of texts.
        shown: For people.

    """

    name: str
    bare: Any
    shown: str
    source: str


def config_rows(resolved: Resolved, environ: Mapping[str, str]) -> tuple[Row, ...]:
    """Every setting with where it comes from, without the secrets of ``environ`` and the logins of addresses."""
    from stackmem.workspace.secrets import Scrubber

    # Our own variables are settings, whatever word is in their names (STACKMEM_MAX_TOKENS).
    scrub = Scrubber({name: value for name, value in environ.items() if not name.startswith(PREFIX)}).scrub
    return tuple(_row(value, scrub) for value in resolved.values)


def config_text(rows: tuple[Row, ...]) -> str:
    """The rows as lines in three columns: name, source, value; the value last, as only it may be long."""
    name, source = (max(len(row[column]) for row in rows) for column in (0, 3))
    return "\n".join(f"{row.name:<{name}}  {row.source:<{source}}  {row.shown}" for row in rows)


def config_json(rows: tuple[Row, ...]) -> str:
    """An array of objects with name, value and source."""
    import json

    return json.dumps([{"name": row.name, "value": row.bare, "source": row.source} for row in rows], indent=2)


def options_table() -> str:
    """The options as a table in Markdown, in the order of the options."""
    head = "| setting | flag | takes | default | project file | what it is |\n|---|---|---|---|---|---|"
    lines = [
        f"| `{one.name}` | `{one.flag}` | {one.accepts} | {one.shown_default} | {'yes' if one.project else 'no'} "
        f"| {one.says} |"
        for one in OPTIONS.values()
    ]
    return "\n".join([head, *lines])


def _row(value: Value, scrub: Callable[[str], str]) -> Row:
    from stackmem.settings.option_values import without_login

    bare: Any = value.value
    option = OPTIONS[value.name]
    if isinstance(bare, tuple):
        bare = [scrub(item) for item in bare]
    elif bare is not None and not isinstance(bare, int | float):
        text = str(bare).encode("utf-8", "backslashreplace").decode()  # a path may hold bytes that are no text
        bare = scrub(without_login(text) if option.kind == "address" else text)
    return Row(value.name, bare, _shown(option, value, bare), one_line(value.source))


def _shown(option: Option, value: Value, bare: Any) -> str:
    if value.layer == "default":
        return option.shown_default
    match bare:
        case None | []:
            return f"none ({option.none_means})"
        case bool():
            return str(bare).lower()
        case int():
            return f"{bare:,}"
        case float():
            return f"{bare:,.12g}"
        case list():
            return ", ".join(one_line(item) for item in bare)
        case _:
            return one_line(str(bare))


def one_line(text: str) -> str:
    """Text that cannot move the cursor, turn the writing direction or break the line."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
