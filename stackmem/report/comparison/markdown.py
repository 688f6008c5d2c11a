"""The report as Markdown: the same tables, for a repository."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .columns import Column, cell_text, columns
from .figures import Section, Wants
from .findings import facts, findings, remarks, title
from .results import BenchRows

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~&!])")


def markdown(results: BenchRows, shown: Sequence[Section], wants: Wants) -> str:
    """The whole report."""
    said = ["# Strategies side by side", ""]
    said += [f"- **{escaped(name)}**: {escaped(text)}" for name, text in facts(results, wants)]
    said += [line for remark in remarks(results, wants) for line in ("", escaped(remark))]
    if not results.trials:
        said += ["", "No trial has ended yet."]
    for section in shown:
        said += _section(section, wants)
    return "\n".join(said) + "\n"


def _section(section: Section, wants: Wants) -> list[str]:
    used = columns(section, wants)
    heads = ["strategy", "trials", *(_head(column) for column in used)]
    said = ["", f"## {escaped(title(section))}", ""]
    said += [f"- {escaped(finding)}" for finding in findings(section, wants)]
    said += ["", _row(heads), _row(["---", *("---:" for _ in heads[1:])])]
    for line in section.lines:
        counted = f"{line.trials}" + (f" + {line.errors} failed" if line.errors else "")
        said.append(_row([escaped(line.strategy), counted, *(cell_text(line, column) for column in used)]))
    return said


def _head(column: Column) -> str:
    return escaped(f"{column.group.removesuffix(', USD')}: {column.title}")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escaped(text: str) -> str:
    """As Markdown shows it to the letter, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join("".join(c if c.isprintable() else " " for c in text).split()))
