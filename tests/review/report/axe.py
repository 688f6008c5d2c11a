"""Accessibility faults that axe-core finds in a page: names, roles, contrast, order of headings, size of targets."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from playwright.sync_api import Page

AXE = Path(__file__).parents[3] / "node_modules" / "axe-core" / "axe.min.js"
_RUN = """async () => {
  const { violations } = await axe.run(document, { rules: { 'target-size': { enabled: true } } });
  return violations.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) =>
    `${id}: ${target.join(' ')} ${failureSummary.split('\\n').slice(1).join(' ').trim().slice(0, 200)}`));
}"""


@cache
def _source() -> str:
    return AXE.read_text("utf-8")


def violations(page: Page) -> list[str]:
    """Return one line for each element that breaks a rule; there is no list of exceptions."""
    page.evaluate(_source() + ";0")
    found: list[str] = page.evaluate(_RUN)
    return found
