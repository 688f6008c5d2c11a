"""The measurements of each golden story, as text. `python -m tests.review.measure.golden_pages` rewrites the pages."""

from __future__ import annotations

from pathlib import Path

from stackmem.core.pricing import Price
from stackmem.review.measure.cached_steps import bill, cached_steps
from stackmem.review.measure.frames import frames
from stackmem.review.measure.metrics import measure
from stackmem.review.measure.prefix import PromptBlock, text_of
from stackmem.review.measure.timeline import timeline
from tests.golden.stories import STORIES

from .runs import seen

HERE = Path(__file__).parent / "golden"
PRICE = Price(2.0, 10.0, 2.5, 4.0, 0.1, "figures of the test")
SECONDS = 40.0  # between records: a frame of several steps takes over five minutes


def tokens(block: PromptBlock) -> int:
    """Count tokens; a tool has 100, so that no page depends on the words of tools."""
    return 100 if block.place == "tool" else len(text_of(block)) // 3


def page(name: str) -> str:
    """Return the frames, the steps with their cache effects, the metrics and the bill of one story."""
    run = seen(STORIES[name](), SECONDS)
    lines = [
        f"frame {row.id} {row.name} steps {row.first_step}-{row.last_step}, own {row.steps}, {row.seconds:g} s, "
        f"{row.outcome}"
        for row in frames(run)
    ]
    found = list(cached_steps(run, 512, tokens))
    for step, one in zip(timeline(run), found, strict=True):
        cached = one.cached
        lines.append(
            f"step {step.step} {step.frame} {step.tool or '-'}: {step.outcome} {step.detail or '-'}, "
            f"history {step.history_tokens}, told {step.result_chars}, "
            f"read {cached.read}, 5m {cached.written_5m}, 1h {cached.written_1h}, uncached {cached.uncached}, "
            f"{cached.broken or 'went on'}"
        )
    lines += [f"{metric} {value}" for metric, value in measure(run).items()]
    total = bill(found, PRICE)
    lines += [f"usd {total.usd}, without cache {total.usd_without_cache}"]
    return "\n".join(lines) + "\n"


def write() -> None:
    HERE.mkdir(exist_ok=True)
    for name in STORIES:
        (HERE / f"{name}.txt").write_text(page(name), encoding="utf-8")


if __name__ == "__main__":
    write()
