"""The exact prompts of a program's completions, wherever a run is reproduced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stackmem.core.facts import ModelReplied
from stackmem.formats.export import export_run
from stackmem.review.kept.cache_bill import moments_of
from stackmem.review.measure.cached_steps import cached_steps
from stackmem.review.report.view import read_runs
from tests.languages.running.test_run import Desk, desk, folder_of, language  # noqa: F401 - fixtures
from tests.stage import pop

PROGRAM = (
    "ask what is one?\nboth ask left? & ask right?\nkeep a text\nchunks\nask_json a number\nframe_by  Work.\nask last?"
)


@pytest.fixture
def run(desk: Desk) -> Path:  # noqa: F811
    said = ("one", "two", "three", "no number", '{"n": 4}')
    desk.script(*({"text": text} for text in said), pop("worked"), {"text": "five"})
    result = desk.run(PROGRAM)
    assert result.run.outcome == "finished", result.run
    return folder_of(result)


def exported(run: Path, spelled: str, **more: Any) -> str:
    found: list[bytes] = []
    export_run(run, spelled, found.append, **({"out": None, "endpoint": None, "content": False} | more))
    return b"".join(found).decode()


def test_every_completion_has_the_prompt_whose_digest_was_recorded(run: Path) -> None:
    replies = [moment for moment in moments_of(run) if isinstance(moment.event, ModelReplied)]
    assert len(replies) == 7
    of_program = [moment for moment in replies if moment.view is not None]
    assert len(of_program) == 6
    assert [moment.view.digest for moment in of_program] == [moment.event.prompt_digest for moment in of_program]


def test_the_caches_simulator_is_given_the_prompts_that_were_sent(run: Path) -> None:
    assert [step.sent for step in cached_steps(moments_of(run), 0, lambda _: 1)] == [True] * 7


def test_the_viewer_shows_the_prompts_that_were_sent(run: Path) -> None:
    page = read_runs((run,)).runs[0]
    assert page.unrendered == ""
    assert len(page.steps) == 7


def test_a_viewer_without_the_programs_text_says_so(run: Path) -> None:
    for source in (run / "sources").iterdir():
        source.unlink()
    assert "the program's own prompts cannot be shown" in read_runs((run,)).runs[0].unrendered


@pytest.mark.parametrize("spelled", ["atif", "mini", "sft"])
def test_exports_hold_what_the_program_asked(run: Path, spelled: str) -> None:
    text = exported(run, spelled)
    for asked in ("what is one?", "left?", "right?", "That does not fit", "last?"):
        assert asked in text, asked


def test_spans_of_samples_are_the_replies_themselves(run: Path) -> None:
    samples = [json.loads(line) for line in exported(run, "sft").splitlines()]
    spelled = [sample["text"][span["start"] : span["end"]] for sample in samples for span in sample["spans"]]
    assert {"one", "two", "three", "no number", '{"n": 4}', "five"} <= set(spelled)


def test_spans_of_a_collector_hold_what_the_program_asked(run: Path) -> None:
    assert "what is one?" in exported(run, "otel", content=True)
