"""A session with side requests, sub-agents and a resume, through the gateway: one run whose bill is the provider's."""

import json
from pathlib import Path
from typing import Any

from stackmem.core.facts import FramePushed, ModelReplied
from stackmem.core.machine import fold
from stackmem.core.pricing import cost_usd
from stackmem.doors.gateway.exchanges import RequestPassed, read_exchanges
from stackmem.doors.gateway.serving import bill_of
from stackmem.doors.gateway.status import gateway_status
from stackmem.doors.gateway.verifying import verify_gateway_run
from stackmem.models.catalog import lookup
from stackmem.providers.openai_stream import tokens_in
from stackmem.run.run_folder import EXCHANGES
from tests.doors.gateway.test_proxy import HEADERS, events, gateway, only_run
from tests.doors.gateway.upstream import (
    CLIENT,
    RawAnswer,
    RawUpstream,
    assistant,
    message_events,
    request,
    result,
    text,
    use,
    user,
)

PROMPTS = ("List the folder and report what it holds.", "Count the lines of every file in it.")
TASK = user("Mend the parser.")


class Provider:
    """Answers by the request's words, with another usage for each request, and sums what it bills."""

    def __init__(self) -> None:
        self.tokens = 0
        self.usd = 0.0
        self.requests = 0

    def __call__(self, body: bytes) -> RawAnswer:
        value = json.loads(body)
        spoken = json.dumps(value["messages"])
        self.requests += 1
        prompt = 1_000 + self.requests
        if "tools" not in value:
            blocks, stop = [text("A title.")], "end_turn"
        elif "Mend the parser." not in spoken:
            done = "tool_result" in spoken
            blocks = [text("It is done.")] if done else [use("run", f"x{self.requests}", n=1)]
            stop = "end_turn" if done else "tool_use"
        elif "tool_result" not in spoken:
            given = enumerate(PROMPTS)
            blocks = [use("task", f"call_{number}_of_the_main_agent", prompt=words) for number, words in given]
            stop = "tool_use"
        else:
            blocks, stop = [text("All is done.")], "end_turn"
        row = lookup(value["model"])
        assert row is not None
        assert row.price is not None
        self.tokens += prompt + 20
        self.usd += cost_usd(tokens_in(prompt, {}, 20), row.price)
        return RawAnswer(message_events(*blocks, stop=stop, usage={"input_tokens": prompt}))


class Session:
    """A client that sends the ids of its session and agents."""

    def __init__(self, url: str, name: str) -> None:
        self.url, self.name = url, name

    def ask(self, *messages: Any, agent: str = "", **more: Any) -> dict[str, Any]:
        ids = {"x-claude-code-session-id": self.name, **({"x-claude-code-agent-id": agent} if agent else {})}
        answer = CLIENT.post(f"{self.url}/v1/messages", content=request(*messages, **more), headers=HEADERS | ids)
        assert answer.status_code == 200
        return {}

    def begin(self) -> None:
        self.ask(user("Title for: Mend the parser."), tools=(), model="claude-haiku-4-5")
        self.ask(TASK, tools=("task", "run"))

    def calls(self) -> list[Any]:
        used = [use("task", f"call_{number}_of_the_main_agent", prompt=words) for number, words in enumerate(PROMPTS)]
        told = [result(f"call_{number}_of_the_main_agent", "It runs.") for number in range(len(PROMPTS))]
        return [TASK, assistant(*used), user(*told)]

    def work(self, number: int, request_number: int) -> None:
        """Let a sub-agent work to its end; ``request_number`` is the provider's number of its first request."""
        words = user(PROMPTS[number])
        self.ask(words, agent=f"a{number}")
        call = f"x{request_number}"
        self.ask(words, assistant(use("run", call, n=1)), user(result(call, "a.py")), agent=f"a{number}")


def frames(folder: Path) -> list[str]:
    return [event.intent for event in events(folder) if isinstance(event, FramePushed)]


def test_a_session_is_one_run_whose_bill_is_the_providers(tmp_path):
    provider = Provider()
    with RawUpstream(answer=provider) as upstream:
        with gateway(upstream, tmp_path) as served:
            session = Session(served.url, "s")
            session.begin()
            session.work(1, 3)  # a blocking sub-agent
            session.ask(*session.calls(), tools=("task", "run"))
            session.work(0, 6)  # a sub-agent in the background
            gateway_here = served.gateway
        bill = bill_of(gateway_here)
    folder = only_run(tmp_path)
    (row,) = gateway_status(tmp_path)
    state = fold(events(folder))
    assert (row.requests, row.conversations, row.sub_agents, row.failed) == (7, 4, 2, 0)
    assert row.usage.total == state.usage.total == provider.tokens
    assert round(provider.usd, 6) == row.cost_usd == bill.runs[0].cost_usd == bill.usd
    assert sorted(frames(folder)) == sorted([*PROMPTS, "Title for: Mend the parser."])
    replies = [event for event in events(folder) if isinstance(event, ModelReplied) and event.usage.total]
    assert len(replies) == provider.requests
    assert verify_gateway_run(folder).facts == len(events(folder))


def test_sessions_at_the_same_time_have_their_own_runs(tmp_path):
    provider = Provider()
    with RawUpstream(answer=provider) as upstream, gateway(upstream, tmp_path) as served:
        sessions = [Session(served.url, f"s{number}") for number in range(10)]
        for session in sessions:
            session.begin()
        for number, session in enumerate(sessions):
            session.work(0, 21 + 4 * number)
            session.work(1, 23 + 4 * number)
        for session in reversed(sessions):
            session.ask(*session.calls(), tools=("task", "run"))
    rows = gateway_status(tmp_path)
    assert [(row.session, row.requests, row.sub_agents) for row in rows] == [
        (f"s{number}", 7, 2) for number in range(10)
    ]
    assert {tuple(frames(tmp_path / row.run)) for row in rows} == {("Title for: Mend the parser.", *PROMPTS)}
    assert sum(row.usage.total for row in rows) == provider.tokens


def test_a_resumed_session_is_linked_to_the_run_before(tmp_path):
    with RawUpstream(answer=Provider()) as upstream:
        for name in ("s", "other", "s"):
            with gateway(upstream, tmp_path) as served:
                Session(served.url, name).begin()
    first, other, again = gateway_status(tmp_path)
    assert [(one.session, one.continues) for one in (first, other, again)] == [
        ("s", ""), ("other", ""), ("s", first.run)]  # fmt: skip


def test_a_resumed_session_without_ids_is_linked_by_the_replies_that_it_repeats(tmp_path):
    answers = ("The parser has two faults, and one is in its first line.", "Both faults are mended now.")
    told = [TASK, assistant(answers[0]), user("Mend both."), assistant(answers[1]), user("Check again.")]
    for number in range(3):
        answered = RawAnswer(message_events(text((*answers, "Right.")[number])))
        with RawUpstream(answered) as upstream, gateway(upstream, tmp_path) as served:
            CLIENT.post(f"{served.url}/v1/messages", content=request(*told[: 1 + 2 * number]), headers=HEADERS)
    first, second, third = gateway_status(tmp_path)
    assert (first.continues, second.continues, third.continues) == ("", first.run, second.run)


def test_replay_follows_a_client_that_goes_back_and_compacts(tmp_path):
    def shown(number: int) -> list[Any]:
        turns = [(assistant(f"Reply {one}."), user(f"And {one}? " + "word " * 200)) for one in range(number)]
        return [TASK, *(message for turn in turns for message in turn)]

    bodies = [request(*shown(number)) for number in range(6)]
    bodies += [request(*shown(3), assistant("Reply 3."), user("Go elsewhere.")), request(*shown(5))]
    summary = "The parser is half mended. " * 8
    after = [user(f"Go on from here: {summary}"), assistant("Reply 0."), user("And 0?")]
    asked = iter([*(f"Reply {one}." for one in range(6)), "Elsewhere.", summary, "Reply 0.", "Reply 1."])

    def answer(_: bytes) -> RawAnswer:
        return RawAnswer(message_events(text(next(asked))))

    with (
        RawUpstream(answer=answer) as upstream,
        gateway(upstream, tmp_path, strategy="window:2,step=1") as served,
    ):
        for body in [*bodies, request(after[0]), request(*after)]:
            ids = {"x-claude-code-session-id": "s"}
            assert CLIENT.post(f"{served.url}/v1/messages", content=body, headers=HEADERS | ids).status_code == 200
    folder = only_run(tmp_path)
    kinds = [one.kind for one in read_exchanges(folder / EXCHANGES) if isinstance(one, RequestPassed)]
    assert kinds == ["new", *["turn"] * 5, "edit", "edit", "compacted", "turn"]
    verified = verify_gateway_run(folder)
    assert (verified.cuts, verified.not_followed) == (10, 0)


def test_a_first_request_that_is_sent_again_without_its_thinking_is_the_same_conversation(tmp_path):
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    bodies = [request(TASK, assistant(*blocks), user("And?")) for blocks in ((thought, "Yes."), ("Yes.",))]
    refused = RawAnswer((b'{"type":"error","error":{"type":"invalid_request_error","message":"bound"}}',), 400)
    with (
        RawUpstream(refused, RawAnswer(message_events(text("No.")))) as upstream,
        gateway(upstream, tmp_path) as served,
    ):
        for body in bodies:
            CLIENT.post(f"{served.url}/v1/messages", content=body, headers=HEADERS)
    (row,) = gateway_status(tmp_path)
    assert (row.requests, row.failed, row.conversations) == (2, 1, 1)
