"""Conversations are distinguished by their content."""

from hashlib import sha256
from itertools import starmap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.facts import ModelReplied
from stackmem.core.messages import ReplyPart, Text, Thinking, ToolCall, Usage
from stackmem.doors.gateway.conversations import Conversations, Placed
from stackmem.doors.gateway.identity import AgentIds, ChainIndex, agent_ids, chain, new_messages, seed
from stackmem.doors.gateway.wires.messages import read
from tests.doors.gateway.upstream import assistant, request, result, text, use, user


class Client:
    """Sends requests and receives replies, as the gateway sees them."""

    def __init__(self) -> None:
        self.known = Conversations()

    def ask(
        self, *messages: Any, agent: str = "", session: str = "", parent: str = "", key: str = "k", **more: Any
    ) -> tuple[Placed, bytes]:
        body = request(*messages, **more)
        digest, asked, ids = sha256(body).digest(), read(body), AgentIds(session, agent, parent)
        found = chain(seed("w", key, ids.strand), asked.messages)
        return self.known.assign(asked, found, seed("w", key, ""), digest, ids), digest

    def turn(self, *messages: Any, reply: tuple[ReplyPart, ...], **more: Any) -> Placed:
        placed, digest = self.ask(*messages, **more)
        self.known.add_reply(placed, ModelReplied(reply, "end", Usage()), digest)
        return placed


RUN = ToolCall("c1", "run", {"command": "ls"})
DELEGATE = ToolCall("c1", "task", {"prompt": "Find every caller of parse."})
LONG = "The parser was rewritten; what is left is the documentation of its four public functions, and a release."


def begun(client: Client, call: ToolCall = RUN) -> list[Any]:
    """A conversation whose reply waits for its call's result, with the history as the client has it."""
    client.turn(user("Mend the parser."), reply=(Text("I look."), call))
    return [user("Mend the parser."), assistant("I look.", use(call.name, call.id, **call.arguments))]


def test_a_request_that_extends_the_end_is_the_next_turn_and_records_only_new_parts():
    client = Client()
    history = begun(client)
    placed, _ = client.ask(*history, user(result("c1", "a.py"), "Go on."))
    assert (placed.conversation, placed.kind) == (1, "turn")
    assert [len(one.parts) for one in placed.new_messages] == [2]


def test_marks_thinking_reminders_and_trailing_blanks_do_not_change_the_conversation():
    client = Client()
    client.turn(
        user("Mend it.", "<system-reminder>today</system-reminder>"), reply=(Thinking({"type": "thinking"}), RUN)
    )
    first = {"role": "user", "content": "Mend it.\n"}
    said = assistant({"type": "thinking", "thinking": "x", "signature": "y"}, use("run", "c1", command="ls"))
    told = user({**result("c1", "a.py"), "cache_control": {"type": "ephemeral"}})
    placed, _ = client.ask(first, said, told)
    assert placed.kind == "turn"


def test_a_request_that_continues_from_an_earlier_point_is_an_edit():
    client = Client()
    history = begun(client)
    client.turn(*history, user(result("c1", "a.py")), reply=(Text("Done."),))
    placed, _ = client.ask(*history, user(result("c1", "b.py")))
    assert (placed.conversation, placed.kind) == (1, "edit")


def test_the_same_body_after_a_failure_is_a_retry_of_the_same_conversation():
    client = Client()
    history = begun(client)
    first, _ = client.ask(*history, user(result("c1", "a.py")))
    again, _ = client.ask(*history, user(result("c1", "a.py")))
    assert (first.retry, again.retry) == (False, True)
    assert (again.conversation, again.kind, again.new_messages) == (1, "turn", first.new_messages)


def test_a_first_request_that_failed_is_a_retry_too():
    client = Client()
    first, _ = client.ask(user("Mend it."))
    again, _ = client.ask(user("Mend it."))
    assert (again.conversation, again.retry) == (first.conversation, True)


def test_equal_beginnings_are_two_conversations():
    client = Client()
    client.turn(user("Mend it."), reply=(Text("Which part?"),))
    placed, _ = client.ask(user("Mend it."))
    assert (placed.kind, placed.conversation) == ("new", 2)


def test_a_conversation_whose_words_stand_in_an_open_call_is_that_calls_child():
    client = Client()
    begun(client, DELEGATE)
    placed, _ = client.ask(user("<system-reminder>x</system-reminder>", "Find every caller of parse."))
    assert (placed.kind, placed.parent, placed.call_id) == ("child", 1, "c1")


def test_a_conversation_that_begins_while_one_other_waits_is_its_child_without_a_call():
    client = Client()
    begun(client)
    placed, _ = client.ask(user("Other words."))
    assert (placed.kind, placed.parent, placed.call_id) == ("child", 1, "")


def test_another_key_is_never_the_same_conversation_nor_a_child():
    client = Client()
    history = begun(client)
    placed, _ = client.ask(*history, user(result("c1", "a.py")), key="other")
    assert (placed.kind, placed.parent) == ("new", None)


def test_agents_that_name_themselves_are_apart_though_their_words_are_equal():
    client = Client()
    begun(client, DELEGATE)
    words = user("Find every caller of parse.")
    one = client.turn(words, agent="a", reply=(RUN,))
    two = client.turn(words, agent="b", reply=(RUN,))
    said = assistant(use("run", "c1", command="ls"))
    placed, _ = client.ask(words, said, user(result("c1", "a.py")), agent="a")
    assert (one.conversation, two.conversation, placed.conversation) == (2, 3, 2)


def test_a_request_for_a_title_is_a_side_request():
    client = Client()
    begun(client)
    placed, _ = client.ask(user("Title for: Mend the parser."), tools=())
    assert (placed.kind, placed.parent) == ("side", 1)


def chat(client: Client) -> list[Any]:
    """A conversation of an agent without tools, such as aider."""
    client.turn(user("Mend the parser."), reply=(Text(LONG),), tools=(), system="You edit files.")
    return [user("Mend the parser."), assistant(LONG)]


def test_a_message_for_a_commit_is_a_side_request_of_the_conversation_without_tools_that_it_quotes():
    client = Client()
    history = chat(client)
    quoting = user(f"USER: Mend the parser.\nASSISTANT: {LONG}\n# Diffs:\n-a\n+b")
    side = client.turn(quoting, reply=(Text("fix: parser"),), tools=(), system="Write a commit message.")
    other, _ = client.ask(user("# Diffs:\n-a\n+b"), tools=(), system="Write a commit message.")
    same, _ = client.ask(quoting, tools=(), system="You edit files.")
    turn, _ = client.ask(*history, user("Go on."), tools=(), system="You edit files.")
    assert [(one.conversation, one.kind, one.parent) for one in (side, other, same, turn)] == [
        (2, "side", 1), (3, "new", None), (1, "compacted", None), (1, "turn", None)
    ]  # fmt: skip


def test_a_conversation_continues_with_the_summary_of_a_side_request_that_quoted_it():
    client = Client()
    chat(client)
    summary = f"They spoke about a parser. {LONG[:60]} and more of the kind."
    side = client.turn(user(f"# USER\nMend.\n# ASSISTANT\n{LONG}"), reply=(Text(summary),), tools=(), system="Sum up.")
    placed, _ = client.ask(user(f"I spoke to you before.\n{summary}"), assistant("Ok."), user("Go on."), tools=())
    assert [(one.conversation, one.kind, one.parent) for one in (side, placed)] == [
        (2, "side", 1), (1, "compacted", None)
    ]  # fmt: skip


def test_a_conversation_that_starts_with_anothers_last_words_continues_it():
    client = Client()
    history = begun(client)
    client.turn(*history, user(result("c1", "a.py"), "Sum up."), reply=(Text(LONG),))
    placed, _ = client.ask(user(f"This session continues another one:\n{LONG}\nGo on."))
    assert (placed.conversation, placed.kind) == (1, "compacted")


@pytest.mark.parametrize(
    "quoted",
    [
        f"This session is being continued.\nAnalysis:\n\nSummary:\n{LONG}\n\nGo on.",
        f"Another model wrote this:\n<summary>\n{LONG.replace('; ', ';  ')}\n</summary>",
    ],
)
def test_a_summary_whose_tags_the_client_removed_continues_its_conversation(quoted):
    client = Client()
    history = begun(client)
    written = f"<analysis>\nI think of it all.\n</analysis>\n\n<summary>\n{LONG}\n</summary>"
    client.turn(*history, user(result("c1", "a.py"), "Sum up."), reply=(Text(written),))
    placed, _ = client.ask(user(quoted))
    assert (placed.conversation, placed.kind) == (1, "compacted")


def test_another_history_of_the_same_session_continues_its_conversation():
    client = Client()
    client.turn(user("Mend the parser."), reply=(Text("I look."), RUN), session="s")
    placed, _ = client.ask(user("A compacted history."), session="s")
    other, _ = client.ask(user("A compacted history."), session="t")
    assert [(one.conversation, one.kind) for one in (placed, other)] == [(1, "compacted"), (2, "new")]


def test_a_client_that_normalizes_a_call_has_not_gone_back():
    client = Client()
    call = ToolCall("toolu_01A09q90qw90lq917835lq9", "edit", {"old": "a", "new": "b"})
    client.turn(user("Mend it."), reply=(call,))
    said = assistant(use(call.name, call.id, old="a", new="b", replace_all=False))
    placed, _ = client.ask(user("Mend it."), said, user(result(call.id, "ok")))
    assert (placed.kind, [len(one.parts) for one in placed.new_messages]) == ("turn", [1])


def delegate(number: int, prompt: str) -> ToolCall:
    return ToolCall(f"c{number}", "task", {"prompt": prompt, "description": "List", "type": "general-purpose"})


def test_sub_agents_with_ids_belong_to_the_call_with_their_words_and_equal_ones_to_one_call_each():
    client = Client()
    prompts = ["Part one of the work.", "Part two of the work, with general-purpose tools.", "Part one of the work."]
    client.turn(user("Go."), reply=tuple(starmap(delegate, enumerate(prompts))), session="s")
    client.turn(user("Other work."), reply=(RUN,), session="t")
    asked = [
        client.ask(user("The agents are general-purpose."), user(prompts[place]), session="s", agent=f"a{place}")[0]
        for place in (2, 1, 0)
    ]
    assert [(one.kind, one.parent) for one in asked] == [("child", 1)] * 3
    assert sorted(one.call_id for one in asked) == ["c0", "c1", "c2"]
    assert asked[1].call_id == "c1"


def test_an_agent_in_the_background_is_found_after_its_call_was_answered():
    client = Client()
    call = delegate(1, "Part one of the work.")
    client.turn(user("Go."), reply=(call,), session="s")
    said = assistant(use(call.name, call.id, **call.arguments))
    client.turn(user("Go."), said, user(result("c1", "It runs.")), reply=(Text("Well."),), session="s")
    child = client.turn(user("Part one of the work."), reply=(delegate(2, "A smaller part."),), session="s", agent="a")
    grand, _ = client.ask(user("A smaller part."), session="s", agent="b", parent="a")
    assert [(one.kind, one.parent, one.call_id) for one in (child, grand)] == [("child", 1, "c1"), ("child", 2, "c2")]


def test_a_title_that_is_requested_first_is_a_side_request_of_its_session():
    client = Client()
    title = client.turn(user("Title for: Go."), tools=(), reply=(Text("A title."),), session="s")
    main, _ = client.ask(user("Go."), session="s")
    assert [(one.kind, one.conversation) for one in (title, main)] == [("side", 1), ("new", 2)]


def test_many_equal_sessions_stay_apart():
    client = Client()
    said = assistant(use("run", "c1", command="ls"))
    first = [client.turn(user("Mend it."), reply=(RUN,), session=f"s{number}") for number in range(50)]
    later = [
        client.turn(user("Mend it."), said, user(result("c1", "a.py")), reply=(RUN,), session=f"s{number}")
        for number in reversed(range(50))
    ]
    assert [one.conversation for one in first] == [one.conversation for one in reversed(later)] == [*range(1, 51)]
    assert {one.kind for one in later} == {"turn"}


def test_the_ids_of_known_agents_are_read():
    claude = {"x-claude-code-session-id": "s", "x-claude-code-agent-id": "a", "x-claude-code-parent-agent-id": "p"}
    codex = {"session-id": "s", "thread-id": "a", "x-codex-turn-metadata": '{"parent_thread_id": "p"}'}
    opencode = {"x-session-affinity": "a", "x-session-id": "a", "x-parent-session-id": "p"}
    assert agent_ids(claude) == agent_ids(codex) == AgentIds("s", "a", "p")
    assert agent_ids(opencode) == AgentIds("a", "", "p")
    assert agent_ids({"x-session-id": "other", "x-codex-turn-metadata": "[" * 10_000}) == AgentIds()


def test_a_failed_request_leaves_the_conversation_as_it_was():
    client = Client()
    history = begun(client)
    client.ask(*history, user(result("c1", "a.py"), "Do this."))
    placed, _ = client.ask(*history, user(result("c1", "a.py"), "No, that."))
    assert placed.kind == "turn"


def test_two_requests_from_one_point_are_recorded():
    client = Client()
    history = begun(client)
    one, first = client.ask(*history, user(result("c1", "a.py"), "Left."))
    two, second = client.ask(*history, user(result("c1", "a.py"), "Right."))
    reply = ModelReplied((Text("Well."),), "end", Usage())
    assert [client.known.add_reply(one, reply, first), client.known.add_reply(two, reply, second)] == [False, True]


def test_the_index_forgets_the_oldest():
    index = ChainIndex(most=2)
    found = chain(b"s", read(request(user("a"), assistant("b"), user("c"))).messages)
    index.add(found.digests[1:2], 7)
    index.add([b"x", b"y"], 8)
    assert index.longest(found) is None


def test_the_index_holds_nothing_of_a_conversation_that_is_forgotten():
    index = ChainIndex()
    found = chain(b"s", read(request(user("a"), assistant("b"), user("c"))).messages)
    index.add(found.digests[1:], 7)
    index.remove(found.digests, 8)
    assert index.longest(found) == (7, len(found))
    index.remove(found.digests, 7)
    assert index.longest(found) is None


TURNS = st.lists(st.tuples(st.text(max_size=5), st.booleans()), min_size=1, max_size=6)


@given(TURNS)
def test_a_conversation_stays_one_and_records_every_block_once(turns):
    client = Client()
    history: list[Any] = [user("Begin: x")]
    told: list[str] = []
    for number, (words, calls) in enumerate(turns):
        name = f"c{number}"
        reply = (Text(f"r{number}"), ToolCall(name, "run", {"n": number})) if calls else (Text(f"r{number}"),)
        placed = client.turn(*history, reply=reply)
        assert (placed.conversation, placed.kind) == (1, "turn" if number else "new")
        told += [getattr(part, "text", "") for one in placed.new_messages for part in one.parts]
        blocks = [text(f"r{number}"), *([use("run", name, n=number)] if calls else [])]
        history += [assistant(*blocks), user(*([result(name, "out")] if calls else []), f"u{number} {words}")]
    wanted = ["Begin: x"]
    for number, (words, calls) in enumerate(turns[:-1]):
        wanted += [*(["out"] if calls else []), f"u{number} {words}"]
    assert told == wanted


def test_the_unknown_rest_of_a_message_is_recorded():
    messages = read(request(user("a", "b"))).messages
    assert [part.text for one in new_messages(messages, 1, 2) for part in one.parts] == ["b"]
