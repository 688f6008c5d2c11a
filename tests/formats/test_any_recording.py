"""A recording is recognized by any part of its start, its losses are counted, and our own exports import unchanged."""

import json
from importlib.util import find_spec
from typing import Any

import pytest

from stackmem.core.errors import UsageError
from stackmem.core.facts import ChecksReturned, ModelReplied, NoticeGiven, RunEnded, ToolReturned
from stackmem.core.machine import fold
from stackmem.core.messages import Text, ToolCall
from stackmem.core.state import State
from stackmem.formats.exports.inspect_log import write_inspect
from stackmem.formats.import_ import import_file
from stackmem.formats.recordings import IMPORTERS, guess
from stackmem.formats.recordings.session import RecordedSession, RecordingFile
from stackmem.trace.record import Record
from tests.build import do, failed, play, started
from tests.formats.test_recordings import events, file_of, of, text_of
from tests.trace.stories import PLAYED, exported, records, told


def read(text: str) -> RecordedSession:
    """Read the text with the reader detected for it."""
    file = file_of(text)
    (session,) = IMPORTERS[guess(file)](file)
    return session


def jsonl(*lines: Any) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


HEADS = [
    {"type": "summary", "summary": "Prices", "leafUuid": "x"},
    {"type": "queue-operation", "operation": "dequeue", "sessionId": "s"},
    {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}, "isSnapshotUpdate": False},
    {"type": "progress", "uuid": "p", "timestamp": 7, "sessionId": "s"},
    {"type": "custom-title", "customTitle": "t", "sessionId": "s"},
    {"type": "a-kind-of-tomorrow", "message": 3},
]


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head["type"])
def test_a_session_of_claude_code_begins_with_whatever_line_and_each_is_counted(head):
    whole = text_of("claude-code")
    session = read(jsonl(head, head) + whole)
    assert events(session)[1:] == events(read(whole))[1:]
    here = sum(json.loads(line)["type"] == head["type"] for line in whole.splitlines())
    told_once = "uuid" in head  # a line with an id that appears twice
    assert f"lines of the kind {head['type']!r}: {here + 2 - told_once}" in session.left_out


def test_a_session_of_claude_code_cut_in_its_middle_is_known_by_what_is_left():
    whole = text_of("claude-code")
    for at in range(0, len(whole) // 2, 97):
        assert guess(file_of(whole[at:])) == "claude-code"
    rest = read(whole[len(whole) // 3 :])
    assert of(rest, ModelReplied)
    assert "1 line without valid JSON, the first is line 1" in rest.left_out


def test_messages_of_claude_code_without_any_field_of_its_own_are_read():
    session = read(
        jsonl(
            {"type": "system", "cwd": "/w"},
            {"type": "user", "message": {"role": "user", "content": "Mend it."}},
            {"message": {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}, "costUSD": 0.25},
            {"type": "user", "message": "Thanks."},
        )
    )
    assert (session.task, session.workspace) == ("Mend it.", "/w")
    (reply,) = session.replies()
    assert (reply.parts, reply.usd) == ((Text("Done."),), 0.25)
    assert of(session, NoticeGiven)[0].text == "Thanks."


def test_a_session_of_claude_code_from_the_web_is_its_loglines():
    lines = [json.loads(line) for line in text_of("claude-code").splitlines()]
    assert events(read(json.dumps({"loglines": lines}))) == events(read(text_of("claude-code")))


def test_a_subagents_file_of_claude_code_alone_is_its_conversation():
    lines = [json.loads(line) for line in text_of("claude-code").splitlines()]
    session = read(jsonl(*(line for line in lines if line.get("isSidechain"))))
    assert session.task
    assert of(session, ModelReplied)


def test_the_end_of_a_stream_of_claude_code_says_what_it_cost():
    said = {"type": "assistant", "message": {"role": "assistant", "content": "Hm."}, "session_id": "s"}
    end = {"type": "result", "subtype": "error_max_turns", "is_error": True, "total_cost_usd": 0.5, "result": ""}
    session = read(jsonl({"type": "system", "subtype": "init", "uuid": "u"}, said, end))
    assert session.usd == 0.5
    assert of(session, RunEnded)[0].ending == "interrupted"


MESSAGE = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Mend it."}]}
SHELL = {"type": "local_shell_call", "call_id": "c", "action": {"command": ["ls"]}}
SEEN = {"type": "local_shell_call_output", "call_id": "c", "output": '{"output": "no", "metadata": {"exit_code": 2}}'}
SEALED = {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}


@pytest.mark.parametrize(
    "text",
    [
        jsonl({"id": "s9", "timestamp": "2025-06-01T00:00:00Z", "instructions": None}, {"record_type": "state"},
              MESSAGE, SEALED, SHELL, SEEN),
        json.dumps({"session": {"id": "s9", "instructions": ""}, "items": [MESSAGE, SEALED, SHELL, SEEN]}, indent=1),
        jsonl({"type": "session_meta", "payload": {"id": "s9"}},
              *({"type": "response_item", "payload": item} for item in (MESSAGE, SEALED, SHELL, SEEN))),
    ],
    ids=["lines of 2025", "object of 2025", "today"],
)  # fmt: skip
def test_every_age_of_codex_is_read(text):
    session = read(text)
    assert (session.id, session.task) == ("s9", "Mend it.")
    assert [(one.text, one.exit_code, one.failed) for one in of(session, ToolReturned)] == [("no", 2, True)]
    assert "1 parts of kind encrypted reasoning, which are not text" in session.losses()


def test_a_rollout_of_codex_is_known_by_any_of_its_lines():
    for kind in ("turn_context", "event_msg", "response_item", "compacted"):
        assert guess(file_of(jsonl({"type": kind, "payload": {}}))) == "codex"


def test_contents_that_gemini_is_sent_are_a_chat_and_responses_find_their_calls():
    call = [{"functionCall": {"name": "ls", "args": {"n": number}}} for number in (1, 2)]
    seen = [{"functionResponse": {"name": "ls", "response": {"output": f"seen {number}"}}} for number in (1, 2)]
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    session = read(json.dumps([
        {"role": "user", "parts": [{"text": "Look."}]},
        {"role": "model", "parts": [{"text": "Hm.", "thought": True}, {"text": "I look."}, *call]},
        {"role": "user", "parts": [*seen, image]},
        {"role": "model", "parts": [{"text": "Done."}]},
    ]))  # fmt: skip
    assert [one.text for one in of(session, ToolReturned)] == ["seen 1", "seen 2"]
    assert len(of(session, ModelReplied)) == 2
    assert "1 parts of kind inlineData, which are not text" in session.losses()


def test_geminis_streamed_output_is_read_as_a_chat():
    use, seen = {"type": "tool_use", "tool_name": "ls", "parameters": {}}, {"type": "tool_result", "status": "success"}
    session = read(
        jsonl(
            {"type": "init", "session_id": "g1", "model": "gemini-3-pro"},
            {"type": "message", "role": "user", "content": "Look."},
            {**use, "tool_id": "a"}, {**use, "tool_id": "b"},
            {**seen, "tool_id": "b", "output": "two"},
            {**seen, "tool_id": "a", "status": "error", "error": {"message": "one"}},
            {"type": "message", "role": "assistant", "content": "Do", "delta": True},
            {"type": "message", "role": "assistant", "content": "ne.", "delta": True},
            {"type": "result", "status": "success", "stats": {"input_tokens": 1000}},
        )
    )  # fmt: skip
    assert [(one.text, one.failed) for one in of(session, ToolReturned)] == [("one", True), ("two", False)]
    assert [reply.parts[-1] for reply in session.replies()][1] == Text("Done.")
    assert session.left_out == ["usage in total only: input_tokens 1,000"]


CHAT = [
    {"role": "system", "content": "You are.", "agent": "main"},
    {"role": "user", "content": [{"type": "text", "text": "Mend it."}, {"type": "image_url", "image_url": {}}]},
    {"role": "assistant", "content": "Look.",
     "tool_calls": [{"id": "c", "function": {"name": "open", "arguments": '{"path": "a"}'}}]},
    {"role": "tool", "content": "seen", "tool_call_ids": ["c"]},
]  # fmt: skip


@pytest.mark.parametrize(
    "text", [json.dumps(CHAT), json.dumps({"history": CHAT}), json.dumps({"messages": CHAT}), jsonl(*CHAT)]
)
def test_messages_with_roles_are_read_however_they_are_kept(text):
    session = read(text)
    assert [call for reply in session.replies() for call in reply.calls] == [ToolCall("c", "open", {"path": "a"})]
    assert of(session, ToolReturned)[0].text == "seen"
    assert session.losses() == ("1 parts of kind image_url, which are not text",)


def test_an_issue_that_openhands_resolved_is_a_task():
    history = [{"id": 1, "source": "user", "action": "message", "args": {"content": "Mend."}, "observation": None},
               {"id": 2, "source": "agent", "action": "finish", "args": {"final_thought": "Done."}}]  # fmt: skip
    session = read(json.dumps({"issue": {"number": 5}, "history": history, "metrics": {"accumulated_cost": 0.07}}))
    assert (session.name, session.usd) == ("issue-5", 0.07)


def test_events_of_openhands_of_2024_are_flat():
    session = read(
        json.dumps({
            "instance_id": "pony-1",
            "history": [
                {"action": "message", "content": "Mend it.", "wait_for_response": False},
                {"action": "run", "command": "make", "thought": "Try."},
                {"observation": "run", "content": "no rule", "command": "make", "exit_code": 2},
                {"observation": "null"},
                {"action": "finish", "thought": "Done."},
            ],
        })
    )  # fmt: skip
    first, last = session.replies()
    assert first.parts == (Text("Try."), ToolCall("event 2", "run", {"command": "make"}))
    assert [(one.text, one.exit_code) for one in of(session, ToolReturned)] == [("no rule", 2)]
    assert (session.task, last.parts) == ("Mend it.", (Text("Done."),))


def test_the_replay_config_of_swe_agent_may_be_an_object():
    step = {"action": "ls", "observation": "a", "response": "", "thought": "Look."}
    config = {"agent": {"model": {"name": "maker/model-3"}}}
    session = read(json.dumps({"trajectory": [step], "info": {}, "replay_config": config}))
    assert session.model == "maker/model-3"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ("hello\n", "it does not contain JSON objects"),
        ('{"kind": "x", "at": 1}\n{"kind": "y"}\n', "it contains objects with the keys at, kind"),
    ],
)
def test_a_refusal_says_what_the_file_is_instead(text, reason):
    with pytest.raises(UsageError, match=reason):
        guess(file_of(text))


def test_a_file_without_a_reply_is_refused_and_leaves_nothing(tmp_path):
    file, runs = tmp_path / "session.jsonl", tmp_path / "runs"
    file.write_text(jsonl({"type": "session_meta", "payload": {"id": "s"}}, {"type": "event_msg", "payload": {}}))
    with pytest.raises(UsageError, match="no reply of a model"):
        import_file(file, None, runs)
    assert not runs.exists() or not list(runs.iterdir())


def came_back(records: list[Record], spelled: str, tmp_path: Any) -> tuple[State, list[str]]:
    if spelled == "atif":
        content = exported("atif", records).encode()
    else:
        write_inspect(records, "a-run", tmp_path / "run.eval")
        content = (tmp_path / "run.eval").read_bytes()
    (session,) = IMPORTERS[spelled](RecordingFile(content, "the file"))
    found = events(session)
    return fold(found), texts(found)


def texts(found: list[Any]) -> list[str]:
    replies = [event for event in found if isinstance(event, ModelReplied)]
    return [part.text for reply in replies for part in reply.parts if isinstance(part, Text)]


INSPECT = pytest.mark.skipif(find_spec("inspect_ai") is None, reason="the extra inspect is not installed")


@pytest.mark.parametrize("spelled", ["atif", pytest.param("inspect", marks=INSPECT)])
@pytest.mark.parametrize("name", PLAYED)
def test_a_run_of_ours_keeps_its_outcome_rewards_usage_and_texts(name, spelled, tmp_path):
    ours = told(name)
    before = fold(record.event for record in ours)
    after, said = came_back(ours, spelled, tmp_path)
    assert (after.outcome, after.end.ending) == (before.outcome, before.end.ending)
    assert (after.checks and after.checks.rewards) == (before.checks and before.checks.rewards)
    assert (after.usage, after.step) == (before.usage, before.step)
    assert said == texts([record.event for record in ours])


@pytest.mark.parametrize("spelled", ["atif", pytest.param("inspect", marks=INSPECT)])
@pytest.mark.parametrize("ending", ["limit:steps", "model_error", "workspace_error", "interrupted", "input_needed"])
def test_every_ending_of_ours_comes_back(ending, spelled, tmp_path):
    run = records([*play(do("list_files"), start=started()).events[:-1], RunEnded(ending, "")])
    assert came_back(run, spelled, tmp_path)[0].outcome == ending


@INSPECT
@pytest.mark.parametrize(
    ("ending", "status"),
    [("model_error", "error"), ("workspace_error", "error"), ("interrupted", "cancelled"),
     ("input_needed", "cancelled"), ("limit:steps", "success"), ("stalled", "success"), ("popped", "success")],
)  # fmt: skip
def test_inspect_tells_error_cancelled_and_success_apart(ending, status, tmp_path):
    from inspect_ai.log import read_eval_log

    run = records(
        [*play(do("list_files"), failed("overloaded", 1.0), do("list_files")).events[:-1], RunEnded(ending, "")]
    )
    write_inspect(run, "a-run", tmp_path / "run.eval")
    log = read_eval_log(str(tmp_path / "run.eval"))
    (sample,) = log.samples
    assert log.status == status
    assert (log.error is not None, sample.error is not None) == (status == "error", status == "error")
    assert (sample.limit is not None) == (ending in ("limit:steps", "stalled"))
    if ending == "model_error":
        assert "overloaded" in log.error.message


@INSPECT
def test_inspects_verdict_is_imported_and_other_scores_are_reported(tmp_path):
    from inspect_ai.log import read_eval_log, write_eval_log

    write_inspect(told("calculator"), "a-run", tmp_path / "run.eval")
    log = read_eval_log(str(tmp_path / "run.eval"))
    log.eval.packages = {}
    log.samples[0].metadata = {}
    score = log.samples[0].scores["checks"]
    log.samples[0].scores = {
        "match": score.model_copy(update={"value": "I"}),
        "far": score.model_copy(update={"value": 7.5}),
    }
    write_eval_log(log, str(tmp_path / "theirs.eval"))
    (session,) = IMPORTERS["inspect"](RecordingFile((tmp_path / "theirs.eval").read_bytes(), "the file"))
    assert of(session, ChecksReturned)[0].rewards == {"match": 0.0}
    assert "its score far: 7.5" in session.left_out
    assert any("replies of a model outside the sample's messages" in sentence for sentence in session.left_out)
