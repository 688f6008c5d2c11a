"""A failure of a model server is reported in one sentence with a fix, and the run can be resumed."""

from __future__ import annotations

import pytest

from stackmem.core.errors import UsageError
from stackmem.core.facts import ModelFailed, ModelReplied, RunEnded
from stackmem.core.requests import AskModel
from stackmem.models.endpoint import Endpoint
from stackmem.providers.openai import OpenAIModel
from tests.stage import UNSOLVED, Stage, events, pop

from .chat_server import ChatServer, Refusal, call_piece, chunks
from .views import READ_FILE, user, view

POP = chunks(call_piece('{"result": "Done."}', id="c", name="pop_frame"), finish="tool_calls")
LOADING = Refusal(503, "Loading model", "unavailable_error")
TOO_LONG = Refusal(
    400, "request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it",
    "exceed_context_size_error",
)  # fmt: skip
CALL = '<tool_call>{"name": "read_file", "arguments": {"path": "a"}}</tool_call>'


def ask(server: ChatServer, name: str = "m") -> ModelReplied | ModelFailed:
    model = OpenAIModel(name, Endpoint(f"{server.url}/v1", "k"))
    return model.reply(AskModel(view(user("Read a."), tools=(READ_FILE,)), 1, 0))


@pytest.mark.parametrize(
    "refusal",
    [
        Refusal(404, "The model `gone` does not exist.", "NotFoundError"),
        Refusal(404, "model 'gone' not found"),
        Refusal(400, 'model "gone" not found, try pulling it first'),
        Refusal(404, "No models loaded. Please load a model in the developer page or use the 'lms load' command."),
    ],
)
def test_a_server_without_the_model_is_reported_with_its_models(refusal: Refusal) -> None:
    with ChatServer(refusal, refusal) as server:
        server.models = {"data": [{"id": "qwen"}, {"id": "gemma"}]}
        answer = ask(server, "gone")
        assert isinstance(answer, ModelFailed)
        assert answer.kind == "rejected"
        assert answer.detail.endswith("; it serves gemma, qwen; name one of them with --model")
        server.models = None
        nothing = ask(server, "gone")
    assert isinstance(nothing, ModelFailed)
    assert nothing.detail.endswith("; load it there first")


def test_a_server_loading_its_model_is_reported_before_and_during_a_run() -> None:
    with ChatServer(LOADING) as server:
        server.models = LOADING
        with pytest.raises(UsageError, match="still loading its model; wait until it is ready"):
            OpenAIModel("m", Endpoint(f"{server.url}/v1", "k")).ask_server()
        answer = ask(server)
    assert isinstance(answer, ModelFailed)
    assert answer.kind == "server_error"
    assert answer.detail.startswith(f"{server.url}/v1 is still loading its model; wait until it is ready")


def test_another_503_is_not_taken_for_a_model_that_loads() -> None:
    with ChatServer(Refusal(503, "no slot available")) as server:
        server.models = Refusal(503, "no slot available")
        OpenAIModel("m", Endpoint(f"{server.url}/v1", "k")).ask_server()
        answer = ask(server)
    assert isinstance(answer, ModelFailed)
    assert answer.detail == "HTTP 503: no slot available"


@pytest.mark.parametrize(
    "message",
    [
        "registry.ollama.ai/library/gemma:2b does not support tools",
        "tools param requires --jinja flag",
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        "Unrecognized request argument supplied: tools",
    ],
)
def test_a_server_that_refuses_tools_gets_them_in_the_prompt_from_then_on(message: str) -> None:
    def fault(body: dict[str, object]) -> str | None:
        return message if "tools" in body else None

    with ChatServer(chunks({"content": CALL}), chunks({"content": CALL}), fault=fault) as server:
        model = OpenAIModel("m", Endpoint(f"{server.url}/v1", "k"))
        answers = [model.reply(AskModel(view(user("Read a."), tools=(READ_FILE,)), 1, 0)) for _ in range(2)]
    assert [isinstance(answer, ModelReplied) and answer.stop for answer in answers] == ["call", "call"]
    assert ["tools" in body for body in server.bodies] == [True, False, False]
    assert "read_file" in server.bodies[1]["messages"][0]["content"]


def test_a_server_that_drops_tools_silently_gets_them_in_the_prompt_from_then_on() -> None:
    counted = {"prompt_tokens": 9, "completion_tokens": 5}  # far too small for a prompt with tools
    speech = chunks({"content": "Which file do you mean?"}, usage=counted)
    with ChatServer(speech, chunks({"content": CALL})) as server:
        model = OpenAIModel("m", Endpoint(f"{server.url}/v1", "k"))
        answers = [model.reply(AskModel(view(user("Read a."), tools=(READ_FILE,)), 1, 0)) for _ in range(2)]
    assert [isinstance(answer, ModelReplied) and answer.stop for answer in answers] == ["end", "call"]
    assert ["tools" in body for body in server.bodies] == [True, False]
    assert "read_file" in server.bodies[1]["messages"][0]["content"]


@pytest.mark.parametrize("counted", [{"prompt_tokens": 100, "completion_tokens": 5}, None])
def test_a_reply_without_a_call_alone_does_not_move_the_tools(counted: dict[str, int] | None) -> None:
    speech = chunks({"content": "Which file do you mean?"}, usage=counted)
    with ChatServer(speech, chunks({"content": CALL})) as server:
        model = OpenAIModel("m", Endpoint(f"{server.url}/v1", "k"))
        for _ in range(2):
            model.reply(AskModel(view(user("Read a."), tools=(READ_FILE,)), 1, 0))
    assert ["tools" in body for body in server.bodies] == [True, True]


def test_a_run_in_which_no_reply_contains_a_call_ends_with_what_to_try(stage: Stage) -> None:
    with ChatServer(*[chunks({"content": "I am done."})] * 4) as server:
        ran = stage.call("solve", stage.task(pop()), "--model", "openai/m", "--base-url", server.url)
    assert events(stage.only_run(), RunEnded)[0].ending == "stalled"
    assert "no reply of openai/m contained a call; stackmem doctor --model openai/m shows" in ran.stderr
    assert "continue with: stackmem resume" in ran.stdout


def test_a_stalled_run_with_a_call_does_not_claim_that_there_was_none(stage: Stage) -> None:
    listing = chunks(call_piece('{"path": "."}', id="c", name="list_files"), finish="tool_calls")
    with ChatServer(listing, *[chunks({"content": "I am done."})] * 4) as server:
        ran = stage.call("solve", stage.task(pop()), "--model", "openai/m", "--base-url", server.url)
    assert events(stage.only_run(), RunEnded)[0].ending == "stalled"
    assert "contained a call" not in ran.stderr


def test_a_stalled_script_is_not_sent_to_the_doctor(stage: Stage) -> None:
    script = stage.root / "silent.yaml"
    script.write_text("replies:\n" + "- {text: I am done.}\n" * 4, "utf-8")
    ran = stage.call("solve", stage.task(pop()), "--model", f"script:{script}")
    assert events(stage.only_run(), RunEnded)[0].ending == "stalled", ran.stderr
    assert "stackmem doctor" not in ran.stderr


def test_a_refusal_of_tools_stands_if_calls_in_the_text_are_off(stage: Stage) -> None:
    with ChatServer(Refusal(400, "this model does not support tools")) as server:
        ran = stage.call(
            "solve", stage.task(pop()), "--model", "openai/m", "--base-url", server.url, "--text-calls", "off"
        )
    assert ran.returncode == 4
    assert "does not support tools; leave out --text-calls off" in ran.stderr
    assert "continue with: stackmem resume" in ran.stdout


def test_a_prompt_that_is_too_long_ends_the_run_and_a_resumed_run_is_solved(stage: Stage) -> None:
    with ChatServer(TOO_LONG, *[POP] * 6) as server:
        task = stage.task(pop(), test=UNSOLVED)
        ran = stage.call("solve", task, "--model", "openai/m", "--base-url", server.url)
        (ended,) = events(stage.only_run(), RunEnded)
        resumed = stage.call("resume", stage.only_run().name)
    assert ended.ending == "stalled"
    assert ran.returncode == 1
    assert "exceeds the available context size (4096 tokens)" in ran.stderr
    assert "start the server with a larger context, then resume the run" in ran.stderr
    assert "continue with: stackmem resume" in ran.stdout
    assert "Done." in resumed.stdout


def test_a_stream_that_breaks_is_asked_again_and_says_where_it_broke() -> None:
    with ChatServer(chunks({"content": "I think"}, finish=None)) as server:
        answer = ask(server)
    assert isinstance(answer, ModelFailed)
    assert answer.kind == "incomplete"
