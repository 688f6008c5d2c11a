"""Recordings of OpenHands, Codex, Gemini CLI and Inspect: replies, answers, usage, and omitted parts."""

import copy
import json
from importlib.util import find_spec

import pytest
from hypothesis import given
from hypothesis import strategies as some

from stackmem.core.errors import UsageError
from stackmem.core.facts import ModelReplied, ToolReturned
from stackmem.core.machine import fold
from stackmem.core.messages import Text, Thinking, ToolCall, Usage
from stackmem.formats.exports.inspect_log import write_inspect
from stackmem.formats.recordings import IMPORTERS, guess
from stackmem.formats.recordings.facts import facts
from stackmem.formats.recordings.session import RecordingFile
from tests.formats.foreign_runs import codex, gemini, openhands_0, openhands_sdk, swe_agent, tau
from tests.formats.test_recordings import VALUES, places
from tests.trace.stories import told

GEMINI_LINES = [{key: value for key, value in gemini().items() if key != "messages"}, *gemini()["messages"]]
TEXTS = {
    "openhands": openhands_0(),
    "openhands sdk": openhands_sdk(),
    "openhands list": json.dumps(json.loads(openhands_0())["history"]),
    "codex": codex(),
    "gemini-cli": json.dumps(gemini()),
    "gemini-cli lines": "\n".join(map(json.dumps, GEMINI_LINES)),
}


def file_of(text):
    return RecordingFile(text.encode(), "the file")


def session(name, text=None):
    (found,) = IMPORTERS[name.split()[0]](file_of(TEXTS[name] if text is None else text))
    return found


def of(found, kind):
    return [fact.event for fact in facts(found, None, 1) if isinstance(fact.event, kind)]


@pytest.mark.parametrize("name", TEXTS)
def test_the_format_is_known_and_the_facts_fold(name):
    assert guess(file_of(TEXTS[name])) == name.split()[0]
    found = session(name)
    state = fold([fact.event for fact in facts(found, None, 1)])
    assert state.begun.task == "Mend it."
    assert state.step == len(list(found.replies())) >= 1


def test_two_actions_of_one_response_are_one_reply_whose_usage_counts_once():
    found = session("openhands")
    (reply,) = of(found, ModelReplied)
    assert reply.usage == Usage(50, 0, 0, 0, 7)
    assert reply.parts[0] == Text("Look twice.")
    assert [call.arguments for call in reply.parts[1:]] == [{"command": "ls 1"}, {"command": "ls 2"}]
    assert [(one.text, one.exit_code, one.failed) for one in of(found, ToolReturned)] == [
        ("seen 1", 0, False), ("seen 2", 1, True),
    ]  # fmt: skip
    assert (found.name, found.model, found.system) == ("pony-1", "maker/model-5", "You are OpenHands.")
    assert found.left_out == ["1 event of kind recall"]


def test_older_files_hold_pairs_and_several_tasks_are_several_sessions():
    value = json.loads(openhands_0())
    events = value["history"]
    value["history"] = [events[:3], events[3:5], events[5:]]
    assert of(session("openhands", json.dumps(value)), ModelReplied) == of(session("openhands"), ModelReplied)
    assert len(IMPORTERS["openhands"](file_of(f"{openhands_0()}\n{openhands_0()}\n"))) == 2


def test_events_of_the_sdk_are_read():
    found = session("openhands sdk")
    first, last = of(found, ModelReplied)
    assert first.parts == (Text("Try."), ToolCall("c1", "terminal", {"command": "false"}))
    assert last.parts == (Text("Done."),)
    (answer,) = of(found, ToolReturned)
    assert (answer.text, answer.exit_code, answer.failed) == ("no", 1, True)
    assert (found.system, found.left_out) == ("You are.", ["1 event of kind ConversationStateUpdateEvent"])


def test_repeated_codex_usage_counts_once():
    found = session("codex")
    first, last = of(found, ModelReplied)
    assert (first.usage, last.usage) == (Usage(60, 40, 0, 0, 9), Usage(20, 100, 0, 0, 4))
    assert [type(part) for part in first.parts] == [Thinking, ToolCall]
    (answer,) = of(found, ToolReturned)
    assert (answer.text, answer.exit_code, answer.failed) == ("no", 2, True)
    assert found.model == "gpt-5.2-codex"
    assert found.system == "You are Codex.\n\n<environment_context>x"
    assert found.left_out == ["1 line of kind ghost_snapshot"]


def test_lines_of_codex_that_were_cut_short_are_counted():
    assert "an incomplete last line" in session("codex", codex().rstrip()[:-20]).left_out
    torn = session("codex", codex().replace('{"timestamp"', "{", 1))
    assert "1 line without valid JSON, the first is line 1" in torn.left_out
    assert len(of(torn, ModelReplied)) == 2


@pytest.mark.parametrize("name", ["gemini-cli", "gemini-cli lines"])
def test_thoughts_of_gemini_are_output_and_cached_tokens_are_input(name):
    found = session(name)
    first, _ = of(found, ModelReplied)
    assert first.usage == Usage(40, 60, 0, 0, 15)
    assert [(one.text, one.failed) for one in of(found, ToolReturned)] == [("rate = 0.0731", False), ("", True)]
    assert (found.model, found.left_out) == ("gemini-3-pro", ["1 messages of kind info"])


@pytest.mark.parametrize(
    ("name", "text"),
    [("openhands", "[1]"), ("openhands", "{"), ("codex", "{}"), ("gemini-cli", "{}"), ("gemini-cli", "")],
)
def test_another_file_is_refused_in_one_sentence(name, text):
    with pytest.raises(UsageError):
        session(name, text)


@pytest.mark.skipif(find_spec("inspect_ai") is None, reason="the extra inspect is not installed")
def test_a_log_of_inspect_is_read_by_its_own_library(tmp_path):
    path = tmp_path / "run.eval"
    write_inspect(told("calculator"), "a-run", path)
    log = RecordingFile(path.read_bytes(), str(path))
    assert guess(log) == "inspect"
    (found,) = IMPORTERS["inspect"](log)
    replies = list(found.replies())
    assert replies
    assert sum(reply.usage.total for reply in replies) > 0
    assert all(reply.answers for reply in replies if reply.calls[0].name != "pop_frame")
    with pytest.raises(UsageError, match="not a log that Inspect can read"):
        IMPORTERS["inspect"](RecordingFile(path.read_bytes()[:400], "the file"))


WHOLE = {
    "swe-agent": json.loads(swe_agent()),
    "chat": json.loads(tau()),
    "openhands": json.loads(openhands_0())["history"],
    "openhands sdk": list(map(json.loads, openhands_sdk().splitlines())),
    "codex": list(map(json.loads, codex().splitlines())),
    "gemini-cli": gemini(),
}


@pytest.mark.parametrize("name", WHOLE)
@given(data=some.data())
def test_arbitrary_values_give_traces_or_one_sentence(name, data):
    changed = copy.deepcopy(WHOLE[name])
    path = data.draw(some.sampled_from([place for place in places(changed) if place]))
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = data.draw(VALUES)
    text = "\n".join(map(json.dumps, changed)) if name == "codex" else json.dumps(changed)
    try:
        found = IMPORTERS[name.split()[0]](file_of(text))
    except UsageError:
        return
    for one in found:
        assert fold([fact.event for fact in facts(one, None, 1)]).begun.version.startswith("imported from ")
