"""Clients that change a call's arguments in the history: the cut counts the client's text, and so does ``replay``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from stackmem.core.errors import RulesDiffer
from stackmem.core.facts import ModelReplied
from stackmem.core.messages import ToolCall
from stackmem.doors.gateway.exchanges import RequestPassed, read_exchanges
from stackmem.doors.gateway.serving import ServedGateway
from stackmem.doors.gateway.verifying import GatewayVerified, verify_gateway_run
from stackmem.run.run_folder import EXCHANGES, TRACE
from tests.doors.gateway.test_proxy import HEADERS, events, gateway, only_run, post
from tests.doors.gateway.test_summaries import ASKS, replied
from tests.doors.gateway.upstream import (
    CLIENT,
    RawAnswer,
    RawUpstream,
    assistant,
    message_events,
    request,
    result,
    sse,
    use,
    user,
)

Json = dict[str, Any]
TURNS = 6
DONE = "One line was replaced. " * 10
GIVEN = {"path": "a.py", "old": "x", "new": "y"}
ADDED = GIVEN | {"replace_all": False, "expected_replacements": 1, "instruction": "i" * 300}
LIMITED = RawAnswer((b'{"type":"error","error":{"type":"overloaded_error","message":"later"}}',), status=529)


def call_id(number: int) -> str:
    return f"toolu_{number:016}"


def edit(number: int, arguments: Json) -> Json:
    return use("edit", call_id(number), **arguments)


def history(turns: int, arguments: Json) -> list[Json]:
    told = [user("Mend the parser.")]
    for number in range(turns):
        told += [assistant(edit(number, arguments)), user(result(call_id(number), DONE))]
    return told


def answering(made: Json = GIVEN) -> Callable[[bytes], RawAnswer]:
    """An upstream that replies to each turn with a call, and writes summaries."""

    def answer(body: bytes) -> RawAnswer:
        if ASKS in body:
            return replied("anthropic", "All edits are made.")
        answered = json.loads(body)["messages"][-1]["content"][-1].get("tool_use_id", call_id(-1))
        return RawAnswer(message_events(edit(int(answered.partition("_")[2]) + 1, made), stop="tool_use"))

    return answer


def talk(served: ServedGateway, arguments: Json, turns: int = TURNS) -> None:
    for number in range(turns):
        post(served, request(*history(number, arguments), tools=("edit",)))


def asked_of(folder: Path) -> list[RequestPassed]:
    return [one for one in read_exchanges(folder / EXCHANGES) if isinstance(one, RequestPassed)]


def changed_of(folder: Path) -> list[tuple[ToolCall, ...]]:
    return [() if one.changed_calls is UNSET else one.changed_calls for one in asked_of(folder)]


def verified(runs: Path) -> tuple[int, int]:
    found = verify_gateway_run(only_run(runs))
    return found.cuts, found.not_followed


def without_changes(folder: Path) -> GatewayVerified:
    """Verify the log as a gateway wrote it before it recorded changed calls."""
    log = folder / EXCHANGES
    lines = [json.loads(line) for line in log.read_bytes().splitlines()]
    for line in lines:
        line.pop("changed_calls", None)
    log.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return verify_gateway_run(folder)


@pytest.mark.parametrize("spelled", ["truncate:650", "clear:700,keep=1", "summary:700,keep=1"])
def test_replay_counts_the_arguments_that_the_client_added(tmp_path: Path, spelled: str) -> None:
    with RawUpstream(answer=answering()) as upstream, gateway(upstream, tmp_path, strategy=spelled) as served:
        talk(served, ADDED)
        assert served.gateway.notes == []
    assert verified(tmp_path) == (TURNS, 0)
    folder = only_run(tmp_path)
    assert changed_of(folder) == [(), *((ToolCall(call_id(number), "edit", ADDED),) for number in range(TURNS - 1))]
    replies = [one for one in events(folder) if isinstance(one, ModelReplied) and one.stop == "call"]
    calls = [part for one in replies for part in one.parts if isinstance(part, ToolCall)]
    assert [call.arguments for call in calls] == [GIVEN] * TURNS  # the trace has what the model wrote
    with pytest.raises(RulesDiffer):
        without_changes(folder)


def test_arguments_that_a_client_shortened_are_counted_as_it_sent_them(tmp_path: Path) -> None:
    with (
        RawUpstream(answer=answering(ADDED)) as upstream,
        gateway(upstream, tmp_path, strategy="truncate:650") as served,
    ):
        talk(served, GIVEN)
    folder = only_run(tmp_path)
    assert verified(tmp_path) == (TURNS, 0)
    assert {one.dropped for one in asked_of(folder)} == {0}
    with pytest.raises(RulesDiffer):
        without_changes(folder)


def test_a_call_that_comes_back_as_it_was_written_is_not_recorded_again(tmp_path: Path) -> None:
    sorted_otherwise = dict(reversed(GIVEN.items()))
    with RawUpstream(answer=answering()) as upstream, gateway(upstream, tmp_path, strategy="truncate:40") as served:
        talk(served, sorted_otherwise)
    folder = only_run(tmp_path)
    assert b"changed_calls" not in (folder / EXCHANGES).read_bytes()
    assert any(one.dropped for one in asked_of(folder))
    assert verified(tmp_path) == (TURNS, 0)


def test_without_a_strategy_changed_arguments_are_not_recorded(tmp_path: Path) -> None:
    with RawUpstream(answer=answering()) as upstream, gateway(upstream, tmp_path) as served:
        talk(served, ADDED)
    assert b"changed_calls" not in (only_run(tmp_path) / EXCHANGES).read_bytes()
    assert verified(tmp_path) == (0, 0)


def test_a_number_in_another_form_is_a_change(tmp_path: Path) -> None:
    with (
        RawUpstream(answer=answering({"line": 1.0})) as upstream,
        gateway(upstream, tmp_path, strategy="truncate:40") as served,
    ):
        talk(served, {"line": 1}, 2)
    changed = changed_of(only_run(tmp_path))
    assert [[type(call.arguments["line"]) for call in calls] for calls in changed] == [[], [int]]


def test_changed_calls_are_followed_through_a_failure_and_through_edits(tmp_path: Path) -> None:
    script = iter([None, None, LIMITED, None, None, None, None])
    usual = answering()
    with (
        RawUpstream(answer=lambda body: next(script) or usual(body)) as upstream,
        gateway(upstream, tmp_path, strategy="truncate:500") as served,
    ):
        for turns in (0, 1, 2, 2):
            post(served, request(*history(turns, ADDED), tools=("edit",)))
        for turns, words in ((2, "another result"), (1, "an earlier one"), (3, "done")):
            told = history(turns, ADDED)
            told[-1] = user(result(call_id(turns - 1), words))
            post(served, request(*told, tools=("edit",)))
    folder = only_run(tmp_path)
    asked = asked_of(folder)
    assert [one.kind for one in asked] == ["new", "turn", "turn", "turn", "edit", "edit", "edit"]
    assert [bool(calls) for calls in changed_of(folder)] == [False, True, True, False, False, False, True]
    assert verified(tmp_path) == (7, 0)
    with pytest.raises(RulesDiffer):
        without_changes(folder)


def test_changed_calls_are_followed_on_two_branches_of_a_conversation(tmp_path: Path) -> None:
    """The client continues from two replies to the same request; one of the requests fails and is never repeated."""
    script = iter([*"ABC", None, *"DEFG"])

    def call(name: str, arguments: Json) -> Json:
        return use("edit", f"toolu_{name * 16}", **arguments)

    def answer(_: bytes) -> RawAnswer:
        name = next(script)
        return RawAnswer(message_events(call(name, GIVEN), stop="tool_use")) if name else LIMITED

    def after(told: list[Json], name: str, words: str = "done") -> list[Json]:
        return [*told, assistant(call(name, ADDED)), user(result(f"toolu_{name * 16}", words))]

    opening = [user("Mend the parser.")]
    shared = after(opening, "A")
    failed, first, second = after(shared, "B"), after(shared, "B", "done otherwise"), after(shared, "C", "x" * 300)
    with RawUpstream(answer=answer) as upstream, gateway(upstream, tmp_path, strategy="truncate:400") as served:
        for told in (opening, shared, shared, failed, second, first, after(second, "D"), after(first, "E")):
            post(served, request(*told, tools=("edit",)))
    folder = only_run(tmp_path)
    asked = asked_of(folder)
    assert [one.kind for one in asked] == ["new", "turn", "edit", "edit", "turn", "edit", "edit", "edit"]
    changed = [[call.id[-1] for call in calls] for calls in changed_of(folder)]
    assert changed == [[], ["A"], [], ["B"], ["C"], [], ["D"], ["E"]]
    assert [one.dropped for one in asked] == [0, 0, 0, 0, 1, 0, 2, 2]
    assert verified(tmp_path) == (8, 0)


def test_arguments_that_were_not_json_and_that_the_client_replaced_are_followed(tmp_path: Path) -> None:
    """In Chat Completions, where arguments are text."""
    broken, path = "{" + "x" * 900, "/v1/chat/completions"

    def call(number: int, arguments: str) -> Json:
        return {"id": f"call_{number:016}", "type": "function",
                "function": {"name": "edit", "arguments": arguments}}  # fmt: skip

    def answer(body: bytes) -> RawAnswer:
        delta = {"index": 0, "delta": {"tool_calls": [{"index": 0, **call(body.count(b'"role": "tool"'), broken)}]}}
        stop = {"index": 0, "delta": {}, "finish_reason": "tool_calls"}
        usage = {"prompt_tokens": 9, "completion_tokens": 2}
        return RawAnswer(sse(*({"type": "", "id": "x", "choices": [one]} for one in (delta, stop)),
                             {"type": "", "choices": [], "usage": usage}, named=False))  # fmt: skip

    told: list[Json] = [{"role": "user", "content": "Mend it."}]
    with RawUpstream(answer=answer) as upstream, gateway(upstream, tmp_path, strategy="truncate:200") as served:
        for number in range(4):
            body = json.dumps({"model": "gpt-5.6", "stream": True, "messages": told}).encode()
            CLIENT.post(f"{served.url}{path}", content=body, headers=HEADERS).raise_for_status()
            told += [{"role": "assistant", "content": None, "tool_calls": [call(number, "{}")]},
                     {"role": "tool", "tool_call_id": f"call_{number:016}", "content": "not JSON"}]  # fmt: skip
    folder = only_run(tmp_path)
    assert verified(tmp_path) == (4, 0)
    assert {one.dropped for one in asked_of(folder)} == {0}
    with pytest.raises(RulesDiffer):
        without_changes(folder)


def test_a_secret_in_changed_arguments_is_not_recorded_and_ends_the_verification(tmp_path: Path) -> None:
    secret = "sk-ant-api03-" + "a1B2" * 20
    with RawUpstream(answer=answering()) as upstream, gateway(upstream, tmp_path, strategy="truncate:200") as served:
        talk(served, GIVEN | {"token": secret}, 3)
    folder = only_run(tmp_path)
    assert secret.encode() not in (folder / EXCHANGES).read_bytes() + (folder / TRACE).read_bytes()
    assert verified(tmp_path) == (1, 2)
