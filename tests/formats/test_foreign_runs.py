"""Recordings in the formats of public suites: their content is read and missing parts are reported."""

import json

import pytest

from stackmem.core.errors import UsageError
from stackmem.core.facts import ChecksReturned, FramePopped, ModelReplied, NoticeGiven, RunStarted, ToolReturned
from stackmem.core.machine import fold
from stackmem.core.messages import Text, ToolCall, Usage
from stackmem.formats.recordings import IMPORTERS, guess
from stackmem.formats.recordings.facts import facts
from stackmem.formats.recordings.session import RecordingFile
from tests.formats.foreign_runs import TERMINAL, mini_1, swe_agent, tau

TEXTS = {"swe-agent": swe_agent(), "mini": mini_1(), "chat": tau(), "terminal": TERMINAL}


def sessions(name, text=None):
    return IMPORTERS[name](RecordingFile((TEXTS[name] if text is None else text).encode(), "the file"))


def of(session, kind):
    return [fact.event for fact in facts(session, None, 1) if isinstance(fact.event, kind)]


@pytest.mark.parametrize("name", TEXTS)
def test_the_format_is_known_by_what_the_file_holds(name):
    assert guess(RecordingFile(TEXTS[name].encode(), "the file")) == name


@pytest.mark.parametrize("name", TEXTS)
def test_the_facts_fold_to_a_run(name):
    for session in sessions(name):
        state = fold([fact.event for fact in facts(session, None, 1)])
        assert state.begun.version.startswith(f"imported from {name}")
        assert state.step == len(of(session, ModelReplied)) > 1


def test_swe_agents_demonstration_precedes_the_task_and_is_not_a_step():
    (session,) = sessions("swe-agent")
    (start,) = of(session, RunStarted)
    assert start.task == "The tax in src/total_price.py is wrong."
    assert "Here is a demonstration." in start.system
    assert len(of(session, ModelReplied)) == 4


def test_a_step_of_swe_agent_is_a_thought_a_call_and_what_came_back():
    (session,) = sessions("swe-agent")
    first = of(session, ModelReplied)[0]
    assert first.parts == (
        Text("First, look at the file."), ToolCall("call_1", "open", {"command": "open src/total_price.py"}),
    )  # fmt: skip
    assert [(one.text.split("\n")[0], one.failed, one.exit_code) for one in of(session, ToolReturned)] == [
        ("[File: src/total_price.py]", False, None), ("File updated.", False, None),
        ("1 failed, 1 passed", True, None), ("", False, None),
    ]  # fmt: skip


def test_data_missing_from_swe_agent_is_omitted_and_reported():
    (session,) = sessions("swe-agent")
    assert session.left_out == ["tokens in total only: 1,000 sent, 20 received"]
    assert (session.usd, session.model, session.result) == (0.25, "", "diff --git a b")
    assert of(session, FramePopped)
    (cut,) = sessions("swe-agent", swe_agent(exit_status="exit_cost"))
    assert cut.left_out[-1] == "how it ended: exit_cost"
    assert not of(cut, FramePopped)


def test_swe_agent_1_names_its_model_in_the_replay_config():
    value = json.loads(swe_agent())
    value["replay_config"] = json.dumps({"agent": {"model": {"name": "maker/model-1"}}})
    assert sessions("swe-agent", json.dumps(value))[0].model == "maker/model-1"
    value["replay_config"] = "{"
    assert sessions("swe-agent", json.dumps(value))[0].model == ""


def test_mini_1_has_its_command_in_a_fenced_block_and_the_exit_code_in_the_answer():
    (session,) = sessions("mini")
    first, second = of(session, ModelReplied)
    assert next(part for part in first.parts if isinstance(part, ToolCall)).arguments == {"command": "cat src/it_9.py"}
    assert first.usage == Usage(40, 60, 0, 0, 9)
    assert not any(isinstance(part, ToolCall) for part in second.parts)
    (answer,) = of(session, ToolReturned)
    assert (answer.exit_code, answer.failed) == (1, True)
    (notice,) = of(session, NoticeGiven)
    assert notice.text == "Please give one block."


def test_each_run_of_a_tau_bench_file_is_a_session_and_trials_share_their_task():
    first, second = sessions("chat")
    assert first.name == second.name == "tau-7"
    assert first.id != second.id
    assert of(first, ChecksReturned)[0].rewards == {"reward": 1.0}
    assert [one.text for one in of(first, NoticeGiven)] == ["The first."]


def test_a_list_of_messages_is_one_session_and_another_list_none():
    messages = json.loads(mini_1())["messages"]
    (session,) = sessions("chat", json.dumps(messages))
    assert [call.name for reply in session.replies() for call in reply.calls] == ["bash"]
    for text in ("[]", "[1]", '[{"a": 1}]', "{}"):
        with pytest.raises(UsageError, match="not a list of messages"):
            sessions("chat", text)


def test_a_terminals_log_is_read_without_its_codes_and_spinners():
    (session,) = sessions("terminal")
    assert (session.task, session.system, session.model) == ("Mend it.", "One block.", "claude-sonnet-4-0")
    assert (session.usd, session.finished) == (0.03, True)
    assert session.origin == "terminal (mini-swe-agent 1.8.1)"
    first, second = session.replies()
    assert first.parts == (Text("THOUGHT: Look."), ToolCall("call_0", "bash", {"command": "ls src"}))
    assert (first.answers[0].exit_code, first.answers[0].failed) == (2, True)
    assert second.calls[0].arguments == {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}


def test_a_terminals_log_without_a_step_is_refused():
    with pytest.raises(UsageError, match="does not show a step of mini-swe-agent"):
        sessions("terminal", "root@1:/app# mini -m x\r\nbash: mini: command not found\r\n")
