"""Recordings of other agents: their content becomes facts, and missing values are not invented."""

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as some

from stackmem.core.errors import UsageError
from stackmem.core.facts import FramePopped, FramePushed, ModelReplied, NoticeGiven, RunEnded, RunStarted, ToolReturned
from stackmem.core.machine import fold
from stackmem.core.messages import Text, Thinking, ToolCall, Usage
from stackmem.core.state import Result
from stackmem.formats.exports import EXPORTS
from stackmem.formats.recordings import IMPORTERS, guess
from stackmem.formats.recordings.facts import facts
from stackmem.formats.recordings.session import RecordedSession, RecordingFile
from stackmem.trace.record import Record
from tests.formats.test_export_atif import SCHEMA
from tests.trace.stories import exported, told

SAMPLES = Path(__file__).parent / "samples"
FILES = {"claude-code": "claude_code.jsonl", "mini": "mini.traj.json", "atif": "atif.json"}


def text_of(name: str) -> str:
    return (SAMPLES / FILES[name]).read_text("utf-8")


def read(name: str, text: str | None = None, subagents: Any = ()) -> RecordedSession:
    (session,) = IMPORTERS[name](file_of(text_of(name) if text is None else text, subagents))
    return session


def file_of(text: str, subagents: Any = ()) -> RecordingFile:
    return RecordingFile(text.encode("utf-8", "surrogatepass"), "the file", lambda: subagents)


def events(session: RecordedSession) -> list[Any]:
    return [fact.event for fact in facts(session, None, 1)]


def of(session: RecordedSession, *kinds: type) -> list[Any]:
    return [event for event in events(session) if isinstance(event, kinds)]


def lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in text_of("claude-code").splitlines()]


def session_of(found: list[dict[str, Any]], **more: Any) -> RecordedSession:
    return read("claude-code", "".join(json.dumps(line) + "\n" for line in found), **more)


@pytest.mark.parametrize("name", FILES)
def test_the_format_is_known_by_what_the_file_holds(name):
    assert guess(file_of(text_of(name))) == name


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", "hello", "{", '{"type":1}', '{"type":"x"}', "\x00", "[" * 100_000]
)
def test_a_file_in_an_unknown_format_is_refused_with_the_known_ones(text):
    with pytest.raises(UsageError, match=r"has an unknown format; .* --format: aider, atif, .*, terminal$"):
        guess(file_of(text))


@pytest.mark.parametrize("name", FILES)
def test_the_facts_fold_to_a_finished_run_that_is_marked(name):
    state = fold(events(read(name)))
    assert state.begun.version.startswith("imported from ")
    assert state.begun.rules == 0
    assert state.outcome == "finished"
    assert state.pending is None or not state.pending.calls or name == "mini"


@pytest.mark.parametrize("name", FILES)
def test_no_fact_is_older_than_the_one_before_it(name):
    times = [fact.at for fact in facts(read(name), None, 1)]
    assert times == sorted(times)
    assert times[0] == 1771407000.0


@pytest.mark.parametrize("spelled", sorted(EXPORTS))
@pytest.mark.parametrize("name", FILES)
def test_an_imported_trace_can_be_exported(name, spelled):
    records = [Record(seq, fact.at, fact.event) for seq, fact in enumerate(facts(read(name), None, 1), 1)]
    text = exported(spelled, records)
    if spelled == "atif":
        jsonschema.validate(json.loads(text), SCHEMA, cls=jsonschema.Draft202012Validator)


def test_lines_of_one_reply_are_one_step_with_its_usage_once():
    replies = of(read("claude-code"), ModelReplied)
    assert len(replies) == 5
    assert [type(part) for part in replies[0].parts] == [Thinking, Text, ToolCall, ToolCall]
    assert replies[0].usage == Usage(12, 0, 0, 9000, 180)
    assert replies[1].usage == Usage(4, 9000, 400, 0, 60)


def test_results_follow_in_the_order_of_the_calls_whatever_order_they_came_in():
    first, second, _ = of(read("claude-code"), ToolReturned)
    assert (first.text, first.failed) == ("def total(items):\n    return len(items)\n", False)
    assert (second.text, second.failed) == ("1 failed", True)


def test_a_subagent_is_a_frame_between_its_call_and_the_answer():
    kinds = [type(event).__name__ for event in events(read("claude-code"))]
    at = kinds.index("FramePushed")
    assert kinds[at - 1 : at + 5] == [
        "ModelReplied", "FramePushed", "ModelReplied", "ToolReturned", "ModelReplied", "FramePopped",
    ]  # fmt: skip
    (pushed,) = of(read("claude-code"), FramePushed)
    assert (pushed.name, pushed.intent) == ("Explore", "Find callers")
    assert '"subagent_type":"Explore"' in pushed.context


def test_a_subagent_without_an_id_is_found_by_its_prompt():
    found = lines()
    for line in found:
        line.pop("agentId", None)
        if isinstance(line.get("toolUseResult"), dict):
            line["toolUseResult"].pop("agentId", None)
    assert len(of(session_of(found), FramePushed)) == 1


def test_a_subagent_in_a_file_of_its_own_is_read():
    found = lines()
    side = [line for line in found if line.get("isSidechain")]
    main = [line for line in found if not line.get("isSidechain")]
    assert of(session_of(main), FramePushed) == []
    inner = "".join(json.dumps(line) + "\n" for line in side)
    assert len(of(session_of(main, subagents=[("ad2d877", inner)]), FramePushed)) == 1


def test_a_subagent_with_an_unknown_call_is_reported():
    found = [line for line in lines() if "toolu_C" not in json.dumps(line)]
    assert "1 subagents whose call is unknown" in session_of(found).left_out


def test_later_user_messages_appear_between_the_replies():
    (notice,) = of(read("claude-code"), NoticeGiven)
    assert notice.text == "Prices are in cents."


def test_duplicate_lines_count_once():
    once, twice = session_of(lines()), session_of(lines() + lines())
    assert events(once) == events(twice)


def test_lines_cut_short_are_counted_and_a_file_of_nothing_else_is_refused():
    whole = text_of("claude-code")
    assert "an incomplete last line" in read("claude-code", whole + '{"type":"us').left_out
    torn = read("claude-code", '{"type":"us\n' + whole + "er\n" + whole)
    assert "2 lines without valid JSON, the first is line 1" in torn.left_out
    assert events(torn) == events(read("claude-code"))
    with pytest.raises(UsageError, match="the file, line 1 is not valid JSON"):
        read("claude-code", '{"type":"us\n')


def test_a_session_that_stopped_in_a_call_is_interrupted():
    found = [line for line in lines() if line.get("timestamp", "") < "2026-02-18T09:30:05"]
    assert of(session_of(found), RunEnded)[0].ending == "interrupted"
    assert of(session_of(found), ToolReturned) == []


def test_the_only_call_without_a_result_is_reported():
    found = [line for line in lines() if "toolu_A" not in json.dumps(line.get("message", {})) or line["type"] != "user"]
    assert of(session_of(found), ToolReturned)[0].text == "(the recording contains no result)"


def test_harness_text_of_claude_code_is_not_a_reply():
    error = {"type": "assistant", "uuid": "e", "message": {"model": "<synthetic>", "id": "x", "content": "API Error"}}
    session = session_of([*lines(), error])
    assert len(of(session, ModelReplied)) == 5
    assert of(session, NoticeGiven)[-1].text == "API Error"


def test_half_a_character_becomes_a_question_mark():
    whole = text_of("claude-code").replace("Prices are in cents.", "Prices \\ud83d")
    assert of(read("claude-code", whole), NoticeGiven)[0].text == "Prices ?"


def test_minis_usage_counts_cached_tokens_in_the_prompt():
    replies = of(read("mini"), ModelReplied)
    assert [reply.usage for reply in replies] == [
        Usage(50, 1000, 150, 0, 40),
        Usage(1300, output=10),
        Usage(1400, output=30),
    ]
    session = read("mini")
    assert session.usd == 0.0123
    assert session.result == "diff --git a/x.py b/x.py\n"


def test_minis_commands_come_back_with_their_codes():
    assert [(event.exit_code, event.failed) for event in of(read("mini"), ToolReturned)] == [(0, False), (1, True)]


def test_invalid_json_arguments_are_kept_as_text():
    last = of(read("mini"), ModelReplied)[-1].parts[0]
    assert (last.arguments, last.malformed) == (None, '{"command": ')


def test_mini_with_commands_in_its_text_has_calls_all_the_same():
    whole = json.loads(text_of("mini"))
    for message in whole["messages"]:
        message.pop("tool_calls", None)
        if message["role"] == "tool":
            message["role"] = "user"
            del message["tool_call_id"]
    session = read("mini", json.dumps(whole))
    assert [event.text for event in of(session, ToolReturned)][1] == "<returncode>1</returncode>"
    assert of(session, ModelReplied)[0].parts[1] == ToolCall("call_a", "bash", {"command": "cat x.py"})


@pytest.mark.parametrize(
    ("status", "ending"), [("Submitted", "popped"), ("LimitsExceeded", "interrupted"), (None, "popped")]
)
def test_minis_exit_status_says_whether_it_finished(status, ending):
    whole = json.loads(text_of("mini"))
    whole["info"]["exit_status"] = status
    whole["messages"] = whole["messages"][:6]
    session = read("mini", json.dumps(whole))
    assert of(session, RunEnded)[0].ending == ending


def test_atifs_subagent_is_a_frame_with_a_reply_in_parts():
    session = read("atif")
    replies = of(session, ModelReplied)
    assert [len(reply.parts) for reply in replies] == [3, 1, 1, 1]
    assert [reply.usage.prompt for reply in replies] == [1000, 0, 200, 300]
    assert of(session, FramePopped)[0].result == "parse() takes it all"
    assert len(session.left_out) == 2


def test_atifs_step_without_a_model_is_not_a_reply():
    assert [event.text for event in of(read("atif"), NoticeGiven)] == [
        "Context was summarized.\nSo far: parse() is slow.", "bash {}\nok",
    ]  # fmt: skip


def test_our_own_trajectory_comes_back_with_the_same_frames_usage_and_results():
    ours = told("family")
    session = read("atif", exported("atif", ours))
    before, after = fold(record.event for record in ours), fold(events(session))
    assert after.usage == before.usage
    assert after.step == before.step
    children = [[one.frame for one in state.popped if one.frame.depth] for state in (before, after)]
    spelled = [[(one.name, one.depth, one.registers.intent) for one in frames] for frames in children]
    assert spelled[0] == spelled[1]
    results = [turn.text for turn in after.popped[-1].frame.turns if isinstance(turn, Result)]
    assert results[0] == "stored 'spec', 5 characters; 5 of 10,000 used"
    assert of(session, RunEnded)[0].result == "All is done."


def test_subagents_that_refer_to_each_other_are_imported_once():
    whole = json.loads(text_of("atif"))
    child = whole["subagent_trajectories"][0]
    child["steps"][1]["tool_calls"] = [{"tool_call_id": "x", "function_name": "f", "arguments": {}}]
    child["steps"][1]["observation"] = {
        "results": [{"source_call_id": "x", "content": "y", "subagent_trajectory_ref": [{"trajectory_id": "sub-1"}]}]
    }
    assert len(of(read("atif", json.dumps(whole)), FramePushed)) == 1


@pytest.mark.parametrize("number", [-1, 1.5, "12", 10**30, True, [], {}])
@pytest.mark.parametrize(
    ("name", "old"),
    [("atif", '"prompt_tokens": 300'), ("mini", '"prompt_tokens": 1400'), ("claude-code", '"input_tokens":6')],
)
def test_a_count_that_is_none_is_an_error_that_names_its_place(name, old, number):
    key = old.split(":")[0]
    text = text_of(name).replace(old, f"{key}: {json.dumps(number)}")
    with pytest.raises(UsageError, match=r"does not match its format: .*tokens"):
        read(name, text)


@pytest.mark.parametrize("stamp", ["yesterday", "2026-13-01T00:00:00Z", "99999-01-01"])
@pytest.mark.parametrize("name", FILES)
def test_a_time_that_is_none_is_an_error(name, stamp):
    text = text_of(name).replace("2026-02-18T09:31:00Z", stamp).replace("2026-02-18T09:30:17.000Z", stamp)
    text = text.replace("1771407008.0", json.dumps(stamp))
    with pytest.raises(UsageError, match="is not a time"):
        read(name, text)


@pytest.mark.parametrize("name", ["atif", "mini"])
def test_another_version_is_refused(name):
    text = text_of(name).replace("ATIF-v1.7", "ATIF-v2.0").replace("mini-swe-agent-1.1", "mini-swe-agent-9")
    with pytest.raises(UsageError, match="can be read"):
        read(name, text)


VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False) | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(one for key, inner in below for one in places(inner, (*path, key)))]


@pytest.mark.parametrize("name", FILES)
@given(data=some.data())
def test_arbitrary_values_in_a_recording_give_a_trace_or_one_sentence(name, data):
    whole = lines() if name == "claude-code" else json.loads(text_of(name))
    changed = copy.deepcopy(whole)
    path = data.draw(some.sampled_from([place for place in places(whole) if place]))
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = data.draw(VALUES)
    text = "".join(json.dumps(line) + "\n" for line in changed) if name == "claude-code" else json.dumps(changed)
    try:
        found = events(read(name, text))
    except UsageError:
        return
    assert isinstance(found[0], RunStarted)
    fold(found)


def test_a_call_that_a_chat_holds_as_text_is_imported_as_a_call():
    written = '```json\n{"name": "read_file", "arguments": {"path": "a"}}\n```'
    said = [
        {"role": "user", "content": "Read a."},
        {"role": "assistant", "content": f"I read it.\n\n{written}"},
        {"role": "user", "content": "<tool_response>\nthe text\n</tool_response>"},
        {"role": "assistant", "content": f"I called it like this:\n\n{written}\n\nThe file says: the text."},
    ]
    session = read("chat", json.dumps(said))
    replies = list(session.replies())
    assert replies[0].parts == (Text("I read it."), ToolCall("call_0_0", "read_file", {"path": "a"}))
    assert [answer.text for answer in replies[0].answers] == ["<tool_response>\nthe text\n</tool_response>"]
    told = [fact.event for fact in facts(session, None, 1_000)]
    repairs = [event.repairs for event in told if isinstance(event, ModelReplied)]
    assert repairs[0] == ("read a call from the text, written as JSON",)
    assert replies[1].calls == ()  # a result that quotes a call
