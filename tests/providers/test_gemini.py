"""Gemini through Google's own library, against a server that refuses what the documents say is refused."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from ruamel.yaml import YAML

from stackmem.core.errors import UsageError
from stackmem.core.facts import ModelFailed, ModelReplied, RunEnded
from stackmem.core.messages import Text, Thinking, ToolCall, Usage
from stackmem.models.asked import Asked
from stackmem.models.endpoint import Endpoint
from stackmem.models.registry import introduced, open_model
from stackmem.models.spoken import listening
from stackmem.providers.gemini import GeminiModel
from tests.contracts.test_runs_over_http import SPELLED, ends, run
from tests.stage import TASKS, Stage, events

from .gemini_server import Fails, GeminiServer, Hangs, Json, call, chunk, in_one_body, signature, streamed
from .views import asking, assistant, called, result, user

HI = streamed({"text": "hi"})


def one_attempt(*answers: bytes | Fails | Hangs, **settings: Any) -> ModelReplied | ModelFailed:
    with GeminiServer(*answers) as server:
        return open_model("gemini/m", server.environ, **settings).reply(asking())


def demo_calls() -> list[tuple[str, Json]]:
    replies = YAML(typ="safe").load((TASKS / "calculator" / "demo.yaml").read_text())["replies"]
    return [(reply["call"], reply["args"]) for reply in replies]


def in_many_chunks(number: int, name: str, arguments: Json) -> bytes:
    thoughts = [{"text": f"thought {number}, ", "thought": True}, {"text": "on", "thought": True}]
    return streamed(*thoughts, {"text": "I "}, {"text": "go."}, call(number, name, arguments), {"text": ""})


def in_one(number: int, name: str, arguments: Json) -> bytes:
    return in_one_body({"text": "I go."}, call(number, name, arguments))


@pytest.mark.parametrize("reply", [in_many_chunks, in_one])
def test_a_run_of_fourteen_steps_sends_every_signature_back(
    reply: Callable[[int, str, Json], bytes], stage: Stage
) -> None:
    answers = [reply(number, *one) for number, one in enumerate(demo_calls())]
    with GeminiServer(*answers) as server:
        solved = stage.solve(TASKS / "calculator", model="gemini/thinker", base_url=server.url)
        assert server.refused == []
        past = [part for body in server.bodies for content in body["contents"] for part in content["parts"]]
    assert (solved.outcome, solved.steps) == ("solved", 14)
    sent = [part for part in past if "functionCall" in part]
    assert len(sent) > 14
    assert all("thoughtSignature" in part for part in sent)
    assert [event.thinking for event in events(solved.run_dir) if hasattr(event, "thinking")] == ["kept"]


@pytest.mark.parametrize("strategy", [name for name in SPELLED if name != "context_editing"])  # Anthropic's alone
def test_a_run_under_every_strategy_ends_well(strategy: str) -> None:
    spoken = (
        streamed(call(0, "read_file", {"path": "spec.md"})),
        Fails(503, "UNAVAILABLE", "loading"),
        streamed({"text": "only a thought", "thought": True}, {"text": "", "thoughtSignature": signature(1)}),
        streamed({"text": "half"}, finish=None),
        streamed(call(2, "read_file", {"path": "a"}), call(3, "read_file", {"path": "b"}, signed=False)),
        streamed(call(4, ends(strategy), {"result": "done"})),
    )
    with GeminiServer(*spoken) as server:
        facts = run(open_model("gemini/thinker", {}, base_url=server.url), strategy)
        assert all("missing a thought_signature" in said for said in server.refused)
    assert [event.ending for event in facts if isinstance(event, RunEnded)] == ["popped"]


def test_a_strategy_that_rewrites_leaves_signatures_out_and_the_server_is_asked_again_once() -> None:
    answers = [streamed(call(number, "read_file", {"path": "spec.md"})) for number in range(3)]
    with GeminiServer(*answers, streamed(call(3, "pop_frame", {"result": "done"}))) as server:
        facts = run(open_model("gemini/thinker", {}, base_url=server.url), "stackheap:index=tail")
        assert [said.split(" in ")[0] for said in server.refused] == ["Function call is missing a thought_signature"]
    assert [event.ending for event in facts if isinstance(event, RunEnded)] == ["popped"]


def test_a_signature_that_the_server_cannot_read_is_left_out_from_then_on() -> None:
    with GeminiServer(streamed(call(1, "read_file", {"path": "a"})), HI) as server:
        model = open_model("gemini/m", server.environ)
        first = model.reply(asking())
        assert isinstance(first, ModelReplied)
        elsewhere = first.parts[0]
        assert isinstance(elsewhere, Thinking)
        elsewhere.raw["gemini"][0]["signature"] = signature(7)
        answer = user(*result(1).parts)
        said = asking(user("a"), assistant(*first.parts), user(*[replace_id(part, "fc_1") for part in answer.parts]))
        assert isinstance(model.reply(said), ModelReplied)
        assert server.refused == ["Corrupted thought signature."]


def replace_id(part: Any, identity: str) -> Any:
    return type(part)(identity, part.text, part.failed)


def test_parts_keep_their_order_and_each_signature_its_part() -> None:
    parts: list[Json] = [
        {"text": "First I look. ", "thought": True},
        {"text": "Look", "thoughtSignature": signature(1)},
        {"text": "ing."},
        call(2, "read_file", {"path": "é\u2028"}),
        call(3, "read_file", {"path": "b"}, signed=False),
        {"thoughtSignature": signature(4)},
    ]
    with GeminiServer(streamed(*parts), HI) as server:
        model = open_model("gemini/m", server.environ)
        first = model.reply(asking())
        assert isinstance(first, ModelReplied)
        assert (first.stop, first.parts[1]) == ("call", Text("Looking."))
        assert [part.id for part in first.parts if isinstance(part, ToolCall)] == ["fc_2", "fc_3"]
        answers = [replace_id(result(1).parts[0], identity) for identity in ("fc_2", "fc_3")]
        model.reply(asking(user("Do it."), assistant(*first.parts), user(*answers, "Go on.")))
        back = server.bodies[1]["contents"][1]["parts"]
    for part in (one for one in back if "thoughtSignature" in one):
        part["thoughtSignature"] = part["thoughtSignature"].replace("-", "+").replace("_", "/")
    parts[-1] = {"text": "", **parts[-1]}
    assert back == parts


def test_a_call_without_an_id_gets_one_here_and_none_there() -> None:
    nameless = call(0, "read_file", {"path": "a"}, identity=None)
    with GeminiServer(streamed(nameless), HI) as server:
        model = open_model("gemini/m", server.environ)
        first = model.reply(asking())
        assert isinstance(first, ModelReplied)
        (made,) = [part for part in first.parts if isinstance(part, ToolCall)]
        assert made.id
        model.reply(asking(user("a"), assistant(*first.parts), user(replace_id(result(1).parts[0], made.id))))
        told = server.bodies[1]["contents"]
    assert "id" not in told[1]["parts"][0]["functionCall"]
    assert told[2]["parts"] == [{"functionResponse": {"name": "read_file", "response": {"output": "content"}}}]


def test_options_are_sent_in_the_apis_own_fields() -> None:
    asked = Asked(temperature=0.5, effort="low", service_tier="flex", headers={"x-team": "one"})
    with GeminiServer(HI) as server:
        environ = {"GEMINI_API_KEY": server.key}
        model = open_model("gemini/m", environ, base_url=f"{server.url}/v1beta", seed=7, asked=asked)
        model.reply(asking(user("a"), called(1), result(1, "no", failed=True), system="Be brief."))
        assert [said[:46] for said in server.refused] == ["Function call is missing a thought_signature i"]
        body, headers = server.bodies[0], server.headers[0]
        assert server.paths == ["/v1beta/models/m:streamGenerateContent?alt=sse"]
    config = body["generationConfig"]
    assert (config["temperature"], config["seed"], config["maxOutputTokens"]) == (0.5, 7, 32_000)
    assert config["thinkingConfig"] in ({"thinking_level": "LOW"}, {"thinkingLevel": "LOW"})
    assert body["serviceTier"] == "flex"
    assert body["systemInstruction"]["parts"] == [{"text": "Be brief."}]
    assert body["contents"][2]["parts"][0]["functionResponse"]["response"] == {"error": "no"}
    assert (headers["x-team"], headers["x-goog-api-key"]) == ("one", server.key)
    assert headers["accept-encoding"] == "identity"


def test_cached_tokens_are_a_part_of_the_prompt_and_thoughts_of_the_reply() -> None:
    answer = one_attempt(HI)
    assert isinstance(answer, ModelReplied)
    assert answer.usage == Usage(uncached=30, cache_read=20, output=10)
    unsaid = one_attempt(streamed({"text": "hi"}, usage=None))
    assert isinstance(unsaid, ModelReplied)
    assert unsaid.usage.estimated


def test_words_are_heard_as_they_come_and_thoughts_are_not_among_them() -> None:
    heard: list[str] = []
    with listening(heard.append):
        one_attempt(streamed({"text": "hm", "thought": True}, {"text": "One, "}, {"text": "two."}))
    assert heard == ["One, ", "two."]


RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.074s"}
LONG = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (Fails(400, "INVALID_ARGUMENT", LONG), "window", "exceeds the maximum"),
        (Fails(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota", (RETRY,)), "rate_limited", "quota"),
        (Fails(403, "PERMISSION_DENIED", "no"), "authentication", "HTTP 403: no"),
        (Fails(404, "NOT_FOUND", "models/m is not found"), "rejected", "is not found"),
    ],
)
def test_failures_are_facts_with_the_providers_message(answer: bytes | Fails, kind: str, words: str) -> None:
    got = one_attempt(answer)
    assert isinstance(got, ModelFailed)
    assert (got.kind, words in got.detail) == (kind, True), got.detail
    assert len(got.detail) <= 500
    assert got.retry_after_seconds == (34.074 if kind == "rate_limited" else None)


@pytest.mark.parametrize(
    ("answer", "stop", "words"),
    [
        (streamed({"text": "half"}, finish="MAX_TOKENS"), "truncated", ""),
        (streamed(finish="SAFETY"), "refused", ""),
        (streamed(finish="MALFORMED_FUNCTION_CALL"), "end", "MALFORMED_FUNCTION_CALL"),
        (streamed(finish="BRAND_NEW"), "end", "BRAND_NEW"),
        (b'data: {"promptFeedback": {"blockReason": "OTHER"}}\n\n', "refused", "OTHER"),
    ],
)
def test_a_reply_ends_for_the_reason_that_it_names(answer: bytes, stop: str, words: str) -> None:
    got = one_attempt(answer)
    assert isinstance(got, ModelReplied)
    assert (got.stop, words in got.detail) == (stop, True)


def test_a_refused_key_is_not_shown() -> None:
    with GeminiServer() as server:
        wrong = "AIza-wrong-0123456789"
        got = open_model("gemini/m", {**server.environ, "GEMINI_API_KEY": wrong}).reply(asking())
    assert isinstance(got, ModelFailed)
    assert (got.kind, wrong in got.detail, "[key]" in got.detail) == ("authentication", False, True)


def test_a_reply_that_never_ends_is_cut_when_its_time_is_over() -> None:
    begins = b"data: " + json.dumps(chunk({"text": "so"})).encode() + b"\n\n"
    with GeminiServer(Hangs(begins)) as server:
        got = GeminiModel("m", Endpoint(server.url, server.key, 10.0, 10.0, 0.3)).reply(asking())
        assert server.gone.wait(60) or not server.begun.is_set()
    assert isinstance(got, ModelFailed)
    assert got.kind == "timeout"


def test_ctrl_c_ends_an_attempt_at_once() -> None:
    code = (
        "import sys; from stackmem.models.registry import open_model; from tests.providers.views import asking\n"
        "try: open_model('gemini/m', {}, base_url=sys.argv[1]).reply(asking())\n"
        "except KeyboardInterrupt: print('stopped')"
    )
    with (
        GeminiServer(Hangs()) as server,
        subprocess.Popen([sys.executable, "-c", code, server.url], stdout=subprocess.PIPE, text=True) as asking_it,
    ):
        assert server.begun.wait(100)
        asking_it.send_signal(signal.SIGINT)
        assert asking_it.communicate(timeout=100)[0] == "stopped\n"
        assert server.gone.wait(60)


def test_the_servers_window_is_used_if_no_other_is_known() -> None:
    with GeminiServer() as server:
        server.model = {"name": "models/m", "inputTokenLimit": 9_000, "outputTokenLimit": 100}
        told = introduced(open_model("gemini/m", server.environ))
        given = introduced(open_model("gemini/m", server.environ, window_tokens=50_000))
        server.model = None
        unsaid = introduced(open_model("gemini/m", server.environ))
    assert (told.window_tokens, given.window_tokens, unsaid.window_tokens) == (9_000, 50_000, 1_048_576)
    with pytest.raises(UsageError, match=r"no server answers at http://127\.0\.0\.1:\d+ "):
        introduced(open_model("gemini/m", server.environ))


def test_the_table_knows_gemini_s_models_and_both_names_of_the_key() -> None:
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
        known = introduced(open_model("gemini/gemini-4-argon", {name: "AIza-one"}))
        assert known.window_tokens == 1_048_576
        assert known.price is not None
        assert (known.price.input, known.price.cache_read, known.price.output) == (2.0, 0.1, 10.0)
    with pytest.raises(UsageError, match=r"^GOOGLE_API_KEY contains characters"):
        open_model("gemini/m", {"GEMINI_API_KEY": "good", "GOOGLE_API_KEY": "b d"})
