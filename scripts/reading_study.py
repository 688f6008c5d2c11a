"""Make the material of a reading study: pictures of run pages, questions, and the answers from the traces.

``python scripts/reading_study.py FOLDER RUN...`` writes one picture per run at 1280 by 800 pixels, ``questions.md`` for
readers who do not know the runs, and ``answers.json`` for the person who compares.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from stackmem.core.facts import ModelReplied
from stackmem.review.measure.first_loss import first_loss
from stackmem.review.measure.moments import moments
from stackmem.review.report.page import write_page
from stackmem.run.result import read_result
from stackmem.run.run_folder import RESULT
from stackmem.trace.lineage import RunReader
from tests.review.report.conftest import FLAGS, chromium

QUESTIONS = {
    "happened": "What happened?",
    "failed": "Why did it fail? (say 'it did not' if so)",
    "spent": "Where did the tokens and the money go: how many tokens, and how much money?",
    "prompt": "What filled most of the prompt at the step that is shown?",
    "heap": "What was on the heap at the step that is shown?",
    "lost": "At which step was a needed fact first out of sight? (or: never, or: not visible)",
    "strategy": "Under which strategy did it run?",
    "better": "Which strategy would cost less? (or: not visible)",
    "doing": "What is it doing now? (or: it has ended)",
    "next": "What must you do next? (or: nothing)",
}
SIZE = {"width": 1280, "height": 800}


def facts_of(run: Path) -> dict[str, Any]:
    """Return what the trace and the result say, from which the answers follow."""
    last = None
    all_moments = []
    for moment in moments((record.at, record.event) for record in RunReader(run)):
        last = moment
        all_moments.append(moment)
    if last is None:
        raise SystemExit(f"{run} has no records; name another run")
    state, result = last.after, read_result(run / RESULT)
    replies = sum(isinstance(moment.event, ModelReplied) for moment in all_moments)
    loss = first_loss(tuple(all_moments)) if replies else None
    return {
        "happened": result.outcome if result else "running, or interrupted",
        "failed": (result.failure or result.check_error or result.ending) if result else "",
        "spent": {"tokens": state.usage.total, "usd": state.cost_usd},
        "steps": replies,
        "heap_at_the_end": sorted(state.heap.chunks),
        "lost": loss.step if loss else None,
        "strategy": state.begun.strategy,
        "frames": state.pushes,
        "ended": state.end is not None,
    }


def picture(run: Path, path: Path) -> str:
    """Take the first screen of the run's page, and return the text that a screen reader finds on it."""
    page_file = write_page([run], str(path.with_suffix(".html")))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=FLAGS)
        page = browser.new_page(viewport=SIZE, reduced_motion="reduce")
        page.goto(page_file.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached", timeout=120_000)
        page.wait_for_timeout(500)
        page.screenshot(path=path)
        text = page.locator(".summary, .memory [role=status]").all_inner_texts()
        browser.close()
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--seconds", type=int, default=10, help="time for each question, as printed for the readers")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    answers = {}
    for number, run in enumerate(arguments.runs, 1):
        name = f"run-{number}"
        screen = picture(run, arguments.folder / f"{name}.png")
        answers[name] = {"trace": facts_of(run), "screen": screen}
    lines = [f"# Ten questions, {arguments.seconds} seconds each", "", "Answer from the picture only.", ""]
    for name in answers:
        lines += [f"## {name}.png", "", *(f"{at}. {text}" for at, text in enumerate(QUESTIONS.values(), 1)), ""]
    (arguments.folder / "questions.md").write_text("\n".join(lines), encoding="utf-8")
    (arguments.folder / "answers.json").write_text(json.dumps(answers, indent=1, default=str), encoding="utf-8")
    print(f"wrote {len(answers)} pictures, questions.md and answers.json to {arguments.folder}")


if __name__ == "__main__":
    main()
