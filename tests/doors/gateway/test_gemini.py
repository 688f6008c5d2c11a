"""Gemini's format is forwarded, recorded, counted and cut like the others."""

import json
from typing import Any

import pytest

from stackmem.core.facts import ModelReplied, ToolReturned
from stackmem.core.messages import Text, Thinking, ToolCall, Usage
from stackmem.doors.gateway.cutting import Cutter
from stackmem.doors.gateway.exchanges import RequestPassed, read_exchanges
from stackmem.doors.gateway.framing import cutter_of
from stackmem.doors.gateway.identity import chain
from stackmem.doors.gateway.rewriting import Rewriter
from stackmem.doors.gateway.summaries import summary_body
from stackmem.doors.gateway.verifying import verify_gateway_run
from stackmem.doors.gateway.wires import model_in, wire_of
from stackmem.doors.gateway.wires.gemini import GEMINI
from stackmem.run.run_folder import EXCHANGES
from tests.doors.gateway.strict_rules import fault
from tests.doors.gateway.test_proxy import events, gateway, only_run
from tests.doors.gateway.test_strict_providers import STRATEGIES
from tests.doors.gateway.upstream import CLIENT, RawAnswer, RawUpstream, sse

PATH = "/v1beta/models/gemini-3.8-flash:streamGenerateContent"
HEADERS = {"x-goog-api-key": "AIza" + "b" * 35}
TASK = {"role": "user", "parts": [{"text": "Mend the parser."}]}
TOOLS = [{"functionDeclarations": [{"name": "run", "description": "Runs.", "parametersJsonSchema": {}}]}]
USED = {"promptTokenCount": 100, "cachedContentTokenCount": 40, "candidatesTokenCount": 7, "thoughtsTokenCount": 3}
Json = dict[str, Any]


def call(number: int, name: str = "run") -> Json:
    return {"functionCall": {"name": name, "args": {"n": number}}, "thoughtSignature": f"s{number}"}


def response(text: str, name: str = "run") -> Json:
    return {"functionResponse": {"name": name, "response": {"output": text}}}


def body(*contents: Json, **more: Any) -> bytes:
    system = {"parts": [{"text": "Be brief."}]}
    return json.dumps({"contents": contents, "tools": TOOLS, "systemInstruction": system, **more}).encode()


def chunks(*parts: Json, reason: str = "STOP") -> tuple[bytes, ...]:
    """Return a streamed answer, one chunk per part."""
    whole: list[Json] = [{"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts]
    whole[-1]["candidates"][0]["finishReason"] = reason
    whole[-1] |= {"usageMetadata": USED, "responseId": "r"}
    return sse(*({"type": "", **one} for one in whole), named=False)


def test_the_path_names_the_format_and_the_model():
    assert (wire_of(PATH), model_in(PATH)) == (GEMINI, "gemini/gemini-3.8-flash")
    assert wire_of("/v1beta/models/gemini-3.8-flash:countTokens") is None


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        (PATH + "?alt=sse", chunks({"text": "I ", "thought": True}, {"text": "look."}, call(1), call(2))),
        (PATH.replace("streamGenerate", "generate"), (json.dumps(
            {"candidates": [{"content": {"parts": [
                {"text": "I ", "thought": True}, {"text": "look."}, call(1), call(2)]}, "finishReason": "STOP"}],
             "usageMetadata": USED, "responseId": "r"}).encode(),)),
    ],
)  # fmt: skip
def test_a_conversation_is_forwarded_and_recorded(tmp_path, path, answer):
    history = (TASK, {"role": "model", "parts": [{"text": "look."}, call(1), call(2)]},
               {"role": "user", "parts": [response("one"), response("two")]})  # fmt: skip
    sent = [body(TASK), body(*history)]
    with RawUpstream(RawAnswer(answer), RawAnswer(chunks({"text": "Done."}))) as upstream:
        with gateway(upstream, tmp_path, max_usd=1.0) as served:
            first = CLIENT.post(f"{served.url}{path}", content=sent[0], headers=HEADERS)
            CLIENT.post(f"{served.url}{PATH}", content=sent[1], headers=HEADERS)
            assert (served.gateway.notes, served.gateway.spending.usd > 0) == ([], True)
        assert first.content == b"".join(answer)
        assert [came for _, _, came in upstream.seen] == sent
        assert upstream.seen[0][0] == path
    start, reply, *returned, last, _, _ = events(only_run(tmp_path))
    assert (start.task, start.system, start.model) == ("Mend the parser.", "Be brief.", "gemini/gemini-3.8-flash")
    assert reply.parts == (Thinking({"type": "thinking", "thinking": "I "}), Text("look."),
                           ToolCall("#0", "run", {"n": 1}), ToolCall("#1", "run", {"n": 2}))  # fmt: skip
    assert reply.usage == Usage(uncached=60, cache_read=40, output=10)
    assert [one.text for one in returned if isinstance(one, ToolReturned)] == ["one", "two"]
    assert isinstance(last, ModelReplied)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ((b'data: {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}\n\n',), "error"),
        ((b'data: {"candidates": [{"content": {"parts": [{"text": "x"}]}}]}\n\n',), "ended before"),
        ((b'data: {"candidates": 7}\n\n',), "ended before"),
        ((b'data: {"candidates": [7]}\n\n',), "malformed"),
    ],
)  # fmt: skip
def test_an_answer_without_an_end_is_a_failure(answer, kind):
    reply = GEMINI.reply([one.decode().removeprefix("data: ").strip() for one in answer])
    assert kind in getattr(reply, "detail", "")


@pytest.mark.parametrize(("reason", "stop"), [("MAX_TOKENS", "truncated"), ("SAFETY", "refused"), ("STOP", "end")])
def test_a_finish_reason_says_how_a_reply_ended(reason, stop):
    pieces = [one.decode().removeprefix("data: ").strip() for one in chunks({"text": "x"}, reason=reason)]
    reply = GEMINI.reply(pieces)
    assert isinstance(reply, ModelReplied)
    assert reply.stop == stop


def test_a_refusal_has_the_providers_form(tmp_path):
    with RawUpstream() as upstream, gateway(upstream, tmp_path, max_tokens=10) as served:
        refused = CLIENT.post(f"{served.url}{PATH}", content=body(TASK, extra="x" * 99), headers=HEADERS)
    assert (refused.status_code, refused.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize("spelled", STRATEGIES)
def test_every_strategy_keeps_calls_with_their_responses(spelled):
    cutter = cutter_of(spelled)
    assert isinstance(cutter, Cutter)
    contents: list[Json] = [TASK]
    for number in range(12):
        sent = body(*contents)
        asked = GEMINI.read(sent)
        found = chain(b"seed", asked.messages)
        if (wanted := cutter.due_summary(asked, found)) is not None:
            before = Rewriter().rewrite(sent, GEMINI, asked, cutter.cut(asked, found), cutter.shorten)
            assert fault(GEMINI, json.loads(summary_body(before, GEMINI, "m", wanted, "Sum up.")), {}) is None
            cutter.summarize(asked, found, wanted, "The parser is half mended.")
        made = Rewriter().rewrite(sent, GEMINI, asked, cutter.cut(asked, found), cutter.shorten)
        shown = json.loads(made)["contents"]
        assert fault(GEMINI, {"contents": shown}, {}) is None
        kept = [part for one in shown for part in one["parts"] if "functionCall" in part]
        assert all("thoughtSignature" in part for part in kept)
        contents.append({"role": "model", "parts": [{"text": f"Step {number}."}, call(number), call(-number)]})
        contents.append({"role": "user", "parts": [response("word " * 200), response("word " * 200)]})
    assert len(made) < len(sent) * 0.8


@pytest.mark.parametrize("made_up", [False, True], ids=["without ids", "with ids that the client made up"])
def test_a_cut_run_is_verified(tmp_path, made_up):
    """Gemini CLI gives an id to each call that came without one."""
    contents: list[Json] = [TASK]
    with RawUpstream(answer=lambda _: RawAnswer(chunks({"text": "I look."}, call(1)))) as upstream:
        with gateway(upstream, tmp_path, strategy="mask:1,poll=1") as served:
            for number in range(5):
                CLIENT.post(f"{served.url}{PATH}", content=body(*contents), headers=HEADERS)
                asked, answered = call(1), response("x" * 900)
                if made_up:
                    asked["functionCall"]["id"] = answered["functionResponse"]["id"] = f"run_17958843540{number}_0"
                contents.append({"role": "model", "parts": [{"text": "I look."}, asked]})
                contents.append({"role": "user", "parts": [answered]})
        assert [came.count(b"masked") for _, _, came in upstream.seen] == [0, 0, 1, 2, 3]
    run = only_run(tmp_path)
    assert verify_gateway_run(run).cuts == 5
    passed = [one for one in read_exchanges(run / EXCHANGES) if isinstance(one, RequestPassed)]
    assert [one.kind for one in passed] == ["new", "turn", "turn", "turn", "turn"]
