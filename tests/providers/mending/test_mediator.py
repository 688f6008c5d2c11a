"""A request that a provider refuses is changed and sent again, once for each change, with the change in the answer."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from msgspec import UNSET

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import FailureKind, Text, Thinking, ToolCall, ToolSpec, Usage
from stackmem.core.requests import AskModel
from stackmem.providers.mending.mediator import Answer, Learned, Mediator
from tests.providers.views import READ_FILE, asking, assistant, called, result, user

SIGNED = Thinking({"type": "thinking", "thinking": "hm", "signature": "S"})
OWN = tuple(ToolSpec(name, "Odd.", '{"type":"object"}') for name in ("odd__one", "odd__two", "odd__three"))
DONE = ModelReplied((Text("Done."),), "end", Usage())


class Provider:
    """Refuses requests with the sentence that ``fault`` returns for them."""

    def __init__(self, fault: Callable[[AskModel, Learned], str | None], kind: FailureKind = "rejected") -> None:
        self.fault, self.kind = fault, kind
        self.requests: list[AskModel] = []
        self.learned = Learned()

    def ask(self, request: AskModel, learned: Learned) -> Answer:
        self.requests.append(request)
        self.learned = learned
        fault = self.fault(request, learned)
        return DONE if fault is None else ModelFailed(self.kind, f"HTTP 400: {fault}")


def notes(answer: Answer) -> str:
    return "" if answer.mended is UNSET else " | ".join(answer.mended)


def thinks(request: AskModel) -> bool:
    parts = [part for message in request.view.messages for part in message.parts if isinstance(part, Thinking)]
    return any(part.raw.get("thinking") for part in parts)


def with_thought() -> AskModel:
    return asking(user("Do it."), assistant(SIGNED, ToolCall("toolu_1", "read_file", {"path": "a"})), result(1))


@pytest.mark.parametrize(
    "fault",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "messages.1.content.0.thinking.signature: Field required",
        "messages.3.content.0: `thinking` blocks in the latest assistant message cannot be modified.",
        "The encrypted content gAAA could not be verified. Reason: Encrypted content could not be decrypted.",
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        "Corrupted thought signature.",
        "Unsupported content type: thinking",
        "invalid params, thinking blocks are not supported by this model",
    ],
)
def test_a_refused_thought_is_left_out_for_good(fault: str) -> None:
    provider = Provider(lambda request, _: fault if thinks(request) else None)
    mediator = Mediator()
    first = mediator.reply(with_thought(), provider.ask)
    assert isinstance(first, ModelReplied)
    assert fault[:40] in notes(first)
    assert mediator.reply(with_thought(), provider.ask) == DONE
    assert len(provider.requests) == 3


def test_thinking_is_switched_off_where_each_reply_would_have_to_begin_with_a_thought() -> None:
    fault = "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`."
    provider = Provider(lambda _, learned: None if learned.thoughts == "off" else fault)
    assert "asked without thinking" in notes(
        Mediator(signs=True).reply(asking(user("a"), called(1), result(1)), provider.ask)
    )


def test_thoughts_that_a_server_wants_back_are_sent_without_a_signature() -> None:
    fault = "The `content[].thinking` in the thinking mode must be passed back to the API."
    provider = Provider(lambda _, learned: None if learned.thoughts == "all" else fault)
    assert notes(Mediator(signs=True).reply(with_thought(), provider.ask)).startswith("sent every thought back")


@pytest.mark.parametrize(
    ("fault", "left"),
    [
        ("Invalid schema for function 'odd__two': schema must have type 'object'", ["odd__two"]),
        ("tools.2.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf", ["odd__two"]),
        ("tools[3].function.parameters: JSON schema is invalid", ["odd__three"]),
        ("* GenerateContentRequest.tools[0].function_declarations[1].parameters.properties[x].items: missing field.",
         ["odd__one"]),
        ("tools.odd__two.custom.input_schema: Property keys should match pattern", ["odd__two"]),
        ("toolConfig.tools.1.member.toolSpec.inputSchema.json: the json schema is invalid", ["odd__one"]),
        ("Failed to initialize samplers: failed to parse grammar", ["odd__one", "odd__two", "odd__three"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["rejected", "server_error"])
def test_a_tool_with_a_refused_schema_is_left_out_by_name(fault: str, left: list[str], kind: FailureKind) -> None:
    provider = Provider(lambda request, _: fault if {t.name for t in request.view.tools} & {*left} else None, kind)
    mediator = Mediator()
    answer = mediator.reply(asking(tools=(READ_FILE, *OWN)), provider.ask)
    assert isinstance(answer, ModelReplied)
    assert all(name in notes(answer) for name in left)
    assert fault[:30] in notes(answer)
    mediator.reply(asking(tools=(READ_FILE, *OWN)), provider.ask)
    assert [tool.name for tool in provider.requests[-1].view.tools] == [
        "read_file", *(tool.name for tool in OWN if tool.name not in left),
    ]  # fmt: skip


def test_several_refused_tools_are_left_out_one_after_the_other() -> None:
    def fault(request: AskModel, _: Learned) -> str | None:
        bad = next((tool.name for tool in request.view.tools if tool.name != "read_file"), None)
        return bad and f"Invalid schema for function '{bad}'"

    answer = Mediator().reply(asking(tools=(READ_FILE, *OWN)), Provider(fault).ask)
    assert isinstance(answer, ModelReplied)
    assert answer.mended is not UNSET
    assert len(answer.mended) == 3


@pytest.mark.parametrize(
    "fault",
    ["Invalid schema for function 'read_file'", "model not found", "tools.0.custom.name: too long", "", "schema"],
)
def test_a_refusal_that_no_change_avoids_stays_a_failure_after_one_attempt(fault: str) -> None:
    provider = Provider(lambda *_: fault)
    answer = Mediator(signs=True).reply(asking(), provider.ask)
    assert isinstance(answer, ModelFailed)
    assert answer.mended is UNSET
    assert len(provider.requests) == 1


@pytest.mark.parametrize("kind", ["rate_limited", "timeout", "authentication", "window", "overloaded"])
def test_other_failures_change_nothing(kind: FailureKind) -> None:
    provider = Provider(lambda *_: "thinking signature invalid", kind)
    assert Mediator(signs=True).reply(with_thought(), provider.ask).mended is UNSET
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    ("fault", "field"),
    [
        ("tools.0.custom.strict: Extra inputs are not permitted", "strict"),
        ("system.0.cache_control.ephemeral.ttl: Extra inputs are not permitted", "ttl"),
        ("tool_choice.auto.disable_parallel_tool_use: Extra inputs are not permitted", "disable_parallel_tool_use"),
        ("adaptive thinking is not supported on this model", "adaptive"),
        ("thinking.type: Input should be 'enabled' or 'disabled'", "adaptive"),
    ],
)
def test_a_field_that_a_server_refuses_by_name_is_left_out(fault: str, field: str) -> None:
    provider = Provider(lambda _, learned: None if field in learned.fields else fault)
    answer = Mediator(signs=True).reply(asking(), provider.ask)
    assert notes(answer).startswith(f"sent the request without {field}")


def test_ids_of_nine_characters_are_sent_where_a_server_wants_them() -> None:
    def fault(request: AskModel, _: Learned) -> str | None:
        ids = [part.id for m in request.view.messages for part in m.parts if isinstance(part, ToolCall)]
        fits = all(len(each) == 9 and each.isalnum() for each in ids)
        return None if fits else f"Tool call id was {ids[0]} but must be a-z, A-Z, 0-9, with a length of 9."

    answer = Mediator().reply(asking(user("a"), called(1), result(1), called(2), result(2)), Provider(fault).ask)
    assert "shortened the ids" in notes(answer)


def test_a_schema_from_an_older_run_is_mended_in_each_request_and_reported_once() -> None:
    schema = json.dumps({"anyOf": [{"properties": {"a": {"type": "string"}}}]})
    tools = (READ_FILE, ToolSpec("old__tool", "Old.", schema), ToolSpec("old__text", "Old.", '{"type":"string"}'))
    mediator, provider = Mediator(), Provider(lambda *_: None)
    answer = mediator.reply(asking(tools=tools), provider.ask)
    assert "old__tool: replaced anyOf" in notes(answer)
    assert "left the tool old__text out" in notes(answer)
    assert mediator.reply(asking(tools=tools), provider.ask) == DONE
    for request in provider.requests:
        assert [tool.name for tool in request.view.tools] == ["read_file", "old__tool"]
        assert "anyOf" not in request.view.tools[1].parameters
