"""A run's steps as lines."""

from __future__ import annotations

from collections.abc import Iterable

from stackmem.measure.timeline import Step

from .columns import aligned
from .progress import one_line

_HEADINGS = ("step", "frame", "context", "output", "cost", "seconds", "heap", "outcome")


def table(steps: Iterable[Step], width: int | None = None) -> list[str]:
    """One line for each step under a line of headings; the frame's name is indented by its depth."""
    return aligned([_HEADINGS, *map(_cells, steps)], left=(1,), outcomes=len(_HEADINGS) - 1, width=width)


def _cells(step: Step) -> tuple[str, ...]:
    call = " ".join(filter(None, (one_line(step.tool)[:30], one_line(step.about)))) or "no call"
    detail = f" ({one_line(step.detail)})" if step.detail else ""
    guessed = "~" if step.usage.estimated else ""
    return (
        f"{step.step:,}",
        "  " * step.depth + one_line(step.name),
        f"{guessed}{step.context_tokens:,}",
        f"{guessed}{step.usage.output:,}",
        "unknown" if step.usd is None else f"${step.usd:.4f}",
        f"{step.model_seconds + step.tools_seconds + step.harness_seconds:,.1f}",
        f"{step.heap_chars:,}",
        f"{step.outcome}{detail}: {call}",
    )
