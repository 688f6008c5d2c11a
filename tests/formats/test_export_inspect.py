"""Inspect's log is written and read back by its own library, with a span for each frame."""

import sys
from importlib.util import find_spec

import pytest

from stackmem.core.errors import UsageError
from stackmem.core.facts import ContextCompacted
from stackmem.core.messages import Thinking, Usage
from stackmem.formats.exports.inspect_log import inspect_log, write_inspect
from tests.build import do, play, pop, reply, started
from tests.trace.stories import PLAYED, cut_short, hostile, records, told

# Only located, not imported: an import takes seconds in every process that collects tests.
pytestmark = pytest.mark.skipif(find_spec("inspect_ai") is None, reason="the extra inspect is not installed")

RUNS = {**{name: lambda name=name: told(name) for name in PLAYED}, "cut": cut_short, "hostile": hostile}


def read(tmp_path, run):
    from inspect_ai.log import read_eval_log

    write_inspect(run, "a-run", tmp_path / "run.eval")
    return read_eval_log(str(tmp_path / "run.eval"), resolve_attachments=True)


def sample(tmp_path, run):
    (found,) = read(tmp_path, run).samples
    return found


def of(found, kind):
    return [event for event in found.events if event.event == kind]


@pytest.mark.parametrize("run", RUNS)
def test_every_run_is_read_back_with_its_spans_nested_and_closed(tmp_path, run):
    found = sample(tmp_path, RUNS[run]())
    begun: list[str] = []
    for event in found.events:
        if event.event == "span_begin":
            assert event.parent_id == (begun[-1] if begun else None)
            begun.append(event.id)
        elif event.event == "span_end":
            assert event.id == begun.pop()
        else:
            assert event.span_id == begun[-1]
    assert begun == []


@pytest.fixture
def family(tmp_path):
    return read(tmp_path, told("family"))


def test_frames_are_spans_with_their_names(family):
    begun = of(family.samples[0], "span_begin")
    assert [(event.id, event.parent_id, event.name) for event in begun] == [
        ("frame-0", None, "root"), ("frame-1", "frame-0", "outer"), ("frame-2", "frame-1", "inner"),
    ]  # fmt: skip
    assert {event.type for event in begun} == {"agent"}


def test_a_reply_carries_its_prompt_its_tokens_and_its_cost(family):
    first = of(family.samples[0], "model")[0]
    assert first.input[0].role == "system"
    assert "Build a calculator" in first.input[1].text
    assert (first.output.usage.input_tokens, first.output.usage.output_tokens) == (100, 20)
    assert first.output.usage.total_cost == pytest.approx(0.00014)
    assert first.output.stop_reason == "tool_calls"
    assert {tool.name for tool in first.tools} >= {"push_frame", "heap_alloc"}


def test_a_failed_attempt_is_a_request_with_an_error(family):
    errors = [event.error for event in of(family.samples[0], "model") if event.error]
    assert errors == ["overloaded: the provider said no"]


def test_calls_have_results_and_refusals_are_errors(family):
    calls = of(family.samples[0], "tool")
    push = next(event for event in calls if event.function == "push_frame")
    assert (push.agent_span_id, push.result) == ("frame-1", "frame 'outer' returned:\nOuter is done.")
    refused = [event for event in calls if event.metadata["refused"]]
    assert [event.error.type for event in refused] == ["approval", "approval"]


def test_the_heap_is_exported_as_the_store_with_its_changes(family):
    (found,) = family.samples
    assert found.store == {"heap": {"spec": "2", "found": "it is 2"}}
    told_changes = [(change.op, change.path) for event in of(found, "store") for change in event.changes]
    assert told_changes == [
        ("add", "/heap/spec"), ("add", "/heap/plan"), ("add", "/heap/found"), ("replace", "/heap/spec"),
        ("remove", "/heap/plan"),
    ]  # fmt: skip


def test_the_verdict_is_the_score_and_the_totals_are_the_runs(family):
    (found,) = family.samples
    assert (found.scores["checks"].value, found.scores["checks"].answer) == ("C", "All is done.")
    assert found.metadata["outcome"] == "solved"
    (usage,) = found.model_usage.values()
    assert usage.total_tokens == sum(event.output.usage.total_tokens for event in of(found, "model") if not event.error)
    assert (family.status, family.eval.model) == ("success", "claude-made-up")


def test_a_run_that_is_not_over_says_so(tmp_path):
    log = read(tmp_path, cut_short())
    assert log.status == "started"
    assert log.samples[0].scores is None


def test_thinking_is_reasoning_and_hidden_thinking_is_redacted(tmp_path):
    shown, hidden = Thinking({"type": "thinking", "thinking": "Hm."}), Thinking({"type": "redacted_thinking"})
    found = sample(tmp_path, records(play(reply(shown, hidden, "Said."), pop()).events))
    content = of(found, "model")[0].output.choices[0].message.content
    assert [(part.type, getattr(part, "redacted", None)) for part in content] == [
        ("reasoning", False), ("reasoning", True), ("text", None),
    ]  # fmt: skip


def test_a_summary_is_a_request_and_a_compaction(tmp_path):
    events = play(do("list_files"), do("list_files"), start=started("full")).events
    summed = [*events[:3], ContextCompacted("frame-0", 1, "So far.", Usage(50, output=5)), *events[3:]]
    found = sample(tmp_path, records(summed))
    assert [event.type for event in of(found, "compaction")] == ["summary"]
    assert "So far." in [event.output.completion for event in of(found, "model")]


def test_messages_that_prompts_share_are_kept_once():
    def size(steps):
        played = play(*[do("list_files")] * steps, start=started("full"))
        log = inspect_log(records(played.events), "a-run")
        return len(log.model_dump_json(exclude={"samples": {0: {"messages"}}}))

    assert size(80) < 2.6 * size(40)


def test_without_the_extra_there_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    with pytest.raises(UsageError, match=r"pip install -e '?\S+\[inspect\]"):
        inspect_log(told("family"), "a-run")
