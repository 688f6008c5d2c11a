"""Each prompt of a page is the one that was sent, and no text is stored twice."""

import json
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stackmem.core.messages import Text, Thinking, ToolCall, View
from stackmem.core.requests import AskModel
from stackmem.review.report.files import TreeChanges
from stackmem.review.report.fold import PageFold
from stackmem.review.report.prompts import Prompts
from stackmem.review.report.texts import Texts
from stackmem.review.report.view import PageContent
from stackmem.trace.record import Record
from stackmem.trace.store import TraceWriter
from tests.build import Played
from tests.golden.stories import STORIES, mishaps
from tests.properties.hostile import nested
from tests.properties.watched_run import WatchedRun

from .opened import opened, prompt, text, value
from .runs import Clock, long_run


def written(folder: Path, played: Played) -> Path:
    folder.mkdir()
    writer = TraceWriter(folder / "trace.jsonl", Clock())
    for event in played.events:
        writer.append(event)
    writer.close()
    return folder


def sent(view: View) -> list[Any]:
    """Return the parts of a view in the form of `prompt`."""
    found: list[Any] = [["s", view.system], *(["d", tool.name, tool.description, tool.schema] for tool in view.tools)]
    for message in view.messages:
        for part in message.parts:
            match part:
                case Text():
                    found.append(["t", message.role[0], part.text])
                case ToolCall(malformed=str(words)):
                    found.append(["m", part.name, words, part.id])
                case ToolCall():
                    found.append(["c", part.name, part.arguments, part.id])
                case Thinking():
                    found.append(["k", msgspec.json.encode(part.raw).decode()])
                case _:
                    found.append(["r", part.text, int(part.failed), part.call_id])
    return found


@pytest.mark.parametrize("story", [*STORIES, "mishaps-tail", "mishaps-system"])
def test_every_prompt_is_the_one_that_was_sent(story, tmp_path):
    name, _, place = story.partition("-")
    played = STORIES[story]() if story in STORIES else mishaps(f"stackheap:index={place}")
    shown = opened(written(tmp_path / name, played))
    answered = [
        request for request, fact in zip(played.asked, facts_of(played), strict=False) if fact == "ModelReplied"
    ]
    assert len(answered) == len(shown["runs"][0]["steps"]) > 10
    for step, request in enumerate(answered, 1):
        assert prompt(shown, 0, step) == sent(request.view), step


def facts_of(played: Played) -> list[str]:
    """Return the answer to each request, in order."""
    return [kind for kind in played.kinds if kind in ("ModelReplied", "ModelFailed")]


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from(["stackheap", "stackheap:index=delta", "stackheap:index=tail", "full"]))
def test_every_prompt_of_a_run_that_goes_wrong_in_every_way_is_the_one_that_was_sent(seed, spelled):
    rng = Random(seed)
    run = WatchedRun(spelled, rng)
    views: list[View] = []
    for _ in range(60):
        request = run.upcoming
        if request is None:
            break
        step = run.state.step
        run.answered(rng)
        if isinstance(request, AskModel) and run.state.step > step:
            views.append(request.view)
    texts, parts = Texts(), list[Any]()
    fold = PageFold("run", texts, Prompts(texts, parts, {}), TreeChanges({}))
    for number, event in enumerate(run.events, 1):
        fold.take(Record(number, float(number), event))
    shown = json.loads(msgspec.json.encode(PageContent(texts.items, parts, [fold.close(0)])))
    assert len(shown["runs"][0]["steps"]) == len(views)
    for step, view in enumerate(views, 1):
        assert prompt(shown, 0, step) == json.loads(msgspec.json.encode(sent(view))), step


def test_arguments_nested_too_deep_for_the_page_are_told_as_their_json():
    deep = nested(200)
    texts = Texts()
    kept = value({"texts": texts.items}, texts.value(deep))
    for _ in range(50):
        kept = kept["a"][0]
        deep = deep["a"][0]
    assert json.loads(kept["a"]) == deep["a"]


def test_a_prompt_of_a_frame_that_only_appends_is_two_ranges(tmp_path):
    shown = opened(long_run(tmp_path / "run", 120))
    assert {len(step[9]) for step in shown["runs"][0]["steps"]} == {6}


def test_no_text_is_kept_twice(tmp_path):
    shown = opened(long_run(tmp_path / "run", 200))
    assert len(shown["texts"]) == len(set(shown["texts"]))
    content = next(one for one in shown["texts"] if one.count("_") == 20)  # a chunk's text, which is read several times
    assert sum(content in one for one in shown["texts"]) == 1


def test_two_runs_of_a_page_share_their_texts(tmp_path):
    one, other = long_run(tmp_path / "one", 60), long_run(tmp_path / "other", 60)
    assert opened(one, other)["texts"] == opened(one)["texts"]


@given(st.lists(st.text(alphabet="ab\n🧵é", max_size=12), max_size=6), st.text(alphabet="ab\n🧵", max_size=60))
def test_a_composed_text_reads_as_the_text_it_was(lines, inner):
    texts = Texts()
    told = "\n".join(lines)
    for whole in (told, f"head\n{inner}", f"head\n{inner[3:]}", inner):
        for ref in (texts.lines(whole), texts.around(whole, inner), texts.ref(whole)):
            assert text({"texts": texts.items}, ref) == whole


def test_a_piece_of_a_chunk_is_told_by_its_place_in_it():
    texts = Texts()
    chunk = "🧵 line one is this long\nline two, and more of it, and more\nline three, and more of it"
    ref = texts.around("heap 'x', lines 2 to 3\n" + chunk[25:], chunk)
    assert isinstance(ref, list)
    assert isinstance(ref[1], tuple)
    assert text({"texts": texts.items}, ref).endswith(chunk[25:])


def test_a_run_whose_strategy_is_unknown_is_shown_without_its_prompts(tmp_path):
    played = STORIES["calculator"]()
    played.events[0] = replace(played.events[0], strategy="gone")
    run = opened(written(tmp_path / "run", played))["runs"][0]
    assert "'gone' is not installed" in run["unrendered"]
    assert len(run["steps"]) == 14
    assert {tuple(step[9]) for step in run["steps"]} == {()}
