"""Every kind of model makes one attempt per request, returns one fact, and never crashes."""

from __future__ import annotations

import io
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import msgspec
import pytest

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import Text, Thinking, ToolCall
from stackmem.core.requests import AskModel
from stackmem.doors.chat.human import HumanModel
from stackmem.models.local_servers import LOCAL_SERVERS
from stackmem.models.registry import MODELS, Model, open_model
from tests.providers.chat_server import ChatServer, call_piece, chunks
from tests.providers.gemini_server import GeminiServer
from tests.providers.gemini_server import call as gemini_call
from tests.providers.gemini_server import streamed as gemini_streamed
from tests.providers.server import MessagesServer, calls
from tests.providers.test_openai_responses import PATH, function_call, streamed
from tests.providers.views import asking, assistant, called, result, rolling, user

SCRIPT = "replies:\n" + "  - {call: read_file, args: {path: a}}\n" * 40
Opened = Callable[[Path], AbstractContextManager[Model]]


@contextmanager
def anthropic(_: Path) -> Iterator[Model]:
    with MessagesServer(*[calls("read_file", {"path": "a"})] * 40) as server:
        yield open_model("claude-sonnet-5-5", server.environ)


@contextmanager
def openai(_: Path) -> Iterator[Model]:
    call = chunks(call_piece('{"path": "a"}', id="c", name="read_file"), finish="tool_calls")
    with ChatServer(*[call] * 40) as server:
        yield open_model("openai/qwen", {}, base_url=server.url)


@contextmanager
def responses(_: Path) -> Iterator[Model]:
    call = streamed(function_call(1, "read_file", '{"path": "a"}'), usage={"input_tokens": 9, "output_tokens": 2})
    with ChatServer(*[call] * 40, path=PATH) as server:
        yield open_model("responses/qwen", {}, base_url=server.url)


@contextmanager
def gemini(_: Path) -> Iterator[Model]:
    with GeminiServer(*[gemini_streamed(gemini_call(1, "read_file", {"path": "a"}))] * 40) as server:
        yield open_model("gemini/flash", {}, base_url=server.url)
        assert all("missing a thought_signature" in said for said in server.refused)


def local(kind: str) -> Opened:
    @contextmanager
    def opened(_: Path) -> Iterator[Model]:
        call = chunks(call_piece('{"path": "a"}', id="call_1", name="read_file"), finish="tool_calls")
        with ChatServer(*[call] * 40) as server:
            yield open_model(f"{kind}/qwen", {}, base_url=server.url)

    return opened


@contextmanager
def script(place: Path) -> Iterator[Model]:
    path = place / "script.yaml"
    path.write_text(SCRIPT)
    yield open_model(f"script:{path}", {})


@contextmanager
def demo(place: Path) -> Iterator[Model]:
    path = place / "demo.yaml"
    path.write_text(SCRIPT)
    yield open_model("demo", {}, demo=path)


@contextmanager
def simulated(_: Path) -> Iterator[Model]:
    yield open_model("sim/bounded-reader", {})


@contextmanager
def human(_: Path) -> Iterator[Model]:
    yield HumanModel(io.StringIO("read_file a\n" * 40), io.StringIO())


KINDS: dict[str, Opened] = {
    "anthropic/": anthropic,
    "openai/": openai,
    "responses/": responses,
    "gemini/": gemini,
    **{f"{kind}/": local(kind) for kind in LOCAL_SERVERS},
    "script:": script,
    "demo": demo,
    "sim/": simulated,
    "human": human,
}
EACH = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)

HOSTILE = "\x00\x1b[2J\u202e\u2028" + "é" * 100
CONVERSATIONS: dict[str, AskModel] = {
    "one message": asking(user("Do it.")),
    "no system prompt": asking(user("Do it."), system=""),
    "many turns with breakpoints": rolling(
        user("constants"), *[one for n in range(20) for one in (called(n), result(n, "x" * 100))]
    ),
    "a call that was malformed": asking(
        user("a"), assistant(ToolCall("toolu_1", "read_file", None, "{")), result(1, "no", failed=True)
    ),
    "a call whose arguments were a list": asking(user("a"), assistant(ToolCall("toolu_1", "x y", [None])), result(1)),
    "a reply of blanks": asking(user("a"), assistant("  \n"), user("go on")),
    "an empty result": asking(user("a"), called(1), result(1, "")),
    "hostile text everywhere": asking(
        user(HOSTILE), assistant(HOSTILE, ToolCall("toolu_1", "x", {HOSTILE: HOSTILE})), result(1, HOSTILE)
    ),
    "a thought of another provider": asking(
        user("a"), assistant(Thinking({"type": "reasoning_content", "thinking": "hm"}), Text("so")), user("b")
    ),
}


def test_every_registered_kind_of_model_is_under_contract() -> None:
    assert KINDS.keys() == MODELS.keys()


@EACH
@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_any_conversation_is_answered_by_a_reply(kind: Opened, conversation: str, tmp_path: Path) -> None:
    with kind(tmp_path) as model:
        answer = model.reply(CONVERSATIONS[conversation])
    assert isinstance(answer, ModelReplied), answer
    (call,) = [part for part in answer.parts if isinstance(part, ToolCall)]
    wanted = ("run_command", {"command": "./work status"}) if kind is simulated else ("read_file", {"path": "a"})
    assert (call.name, call.arguments, answer.stop) == (*wanted, "call")
    assert call.id


@EACH
def test_a_reply_has_usage_and_survives_being_stored(kind: Opened, tmp_path: Path) -> None:
    with kind(tmp_path) as model:
        answer = model.reply(asking(user("x" * 1_000)))
    assert isinstance(answer, ModelReplied)
    assert answer.usage.prompt > 0
    assert answer.usage.output > 0
    assert msgspec.json.decode(msgspec.json.encode(answer), type=ModelReplied) == answer


@EACH
def test_name_window_and_price_are_there_before_the_first_request(kind: Opened, tmp_path: Path) -> None:
    with kind(tmp_path) as model:
        assert model.name
        assert model.window_tokens >= 1_000
        assert model.price is None or model.price.source


@EACH
def test_the_harness_fills_the_prompt_digest_and_no_model_does(kind: Opened, tmp_path: Path) -> None:
    with kind(tmp_path) as model:
        answer = model.reply(asking())
    assert answer.prompt_digest == ""


@pytest.mark.parametrize("name", ["claude-sonnet-5-5", "openai/qwen", "gemini/m"])
def test_a_provider_that_is_not_there_is_a_fact_and_not_an_exception(name: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        answer = open_model(
            name, {"ANTHROPIC_BASE_URL": url, "OPENAI_BASE_URL": url, "GOOGLE_GEMINI_BASE_URL": url}
        ).reply(asking())
    assert isinstance(answer, ModelFailed)
    assert answer.kind == "connection"
