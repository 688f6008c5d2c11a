"""The bounded reader's next action for a given prompt, with hand-made views."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.log import Log
from stackmem.core.messages import Message, Text, ToolCall, ToolResult, ToolSpec, View
from stackmem.lab.simulated import VARIANTS, BoundedReader
from tests.build import started
from tests.providers.views import asking, assistant, user

PLAN = "unit 1: needs env.runner <probe docs/r.md>, spec.a <read docs/s.md>\nunit 2: needs env.runner <probe docs/r.md>"


def tools(strategy: str) -> tuple[ToolSpec, ...]:
    return started(strategy).tools


def answer(*messages: Message, strategy: str = "full", variant: str = "nesting", system: str = "") -> ToolCall:
    """Return the reader's call."""
    reply = BoundedReader(variant).reply(asking(*messages, tools=tools(strategy), system=system))
    assert isinstance(reply, ModelReplied)
    (call,) = [part for part in reply.parts if isinstance(part, ToolCall)]
    return call


def exchanged(*pairs: tuple[str, Any, str], failed: bool = False) -> list[Message]:
    """A call and its result for each item; a plain string is a command."""
    found: list[Message] = []
    for number, (tool, asked, text) in enumerate(pairs):
        arguments = {"command": asked} if isinstance(asked, str) else asked
        found += [
            assistant(ToolCall(f"c{number}", tool, arguments)),
            user(ToolResult(f"c{number}", text if tool != "run_command" else f"{text}\n[exit 0]", failed)),
        ]
    return found


def ran(command: str, text: str) -> tuple[str, Any, str]:
    return "run_command", command, text


def read(path: str, text: str) -> tuple[str, Any, str]:
    return "read_file", {"path": path}, text


def test_of_a_conversation_the_newest_request_counts_and_not_what_was_asked_before() -> None:
    before = "EARLIER IN THIS CONVERSATION\nREQUEST 1: Do units 1 to 2.\nRESULT 1: done units 1-2"
    said = f"{before}\n\nREQUEST\nDo units 3 to 8."
    assert answer(user("RUN", said)).arguments == {"command": "./work plan 3-8"}


TASK = user("RUN", "TASK\nDo units 1 to 8.")
PLANNED = ran("./work plan 1-8", PLAN)
CANDIDATES = read("docs/r.md", "candidate env.runner: tox pytest nox")
RUNNER = ran("./work probe env.runner nox", "env.runner = nox")
SPEC = read("docs/s.md", "spec.a = x1")

STEPS: list[tuple[str, list[tuple[str, Any, str]], str]] = [
    ("nothing is known: the plan", [], "./work plan 1-8"),
    ("the plan is known: the file of candidates", [PLANNED], "docs/r.md"),
    ("candidates are known: the first", [PLANNED, CANDIDATES], "./work probe env.runner tox"),
    (
        "one is excluded: the next",
        [PLANNED, CANDIDATES, ran("./work probe env.runner tox", "not env.runner = tox")],
        "./work probe env.runner pytest",
    ),
    ("one fact is known: the other's file", [PLANNED, CANDIDATES, RUNNER], "docs/s.md"),
    ("all is known: the unit", [PLANNED, CANDIDATES, RUNNER, SPEC], "./work do 1 env.runner=nox spec.a=x1"),
    (
        "a unit is done: the next",
        [PLANNED, RUNNER, SPEC, ran("./work do 1 env.runner=nox spec.a=x1", "done unit 1")],
        "./work do 2 env.runner=nox",
    ),
    (
        "a fact changed: its file again",
        [PLANNED, RUNNER, SPEC, ran("./work log 1", "changed spec @ 1")],
        "docs/s.md",
    ),
    (
        "a fact changed and was read again: the unit with the new value",
        [PLANNED, RUNNER, SPEC, ran("./work log 1", "changed spec @ 1"), read("docs/s.md", "spec.a = x2")],
        "./work do 1 env.runner=nox spec.a=x2",
    ),
    (
        "a higher stamp holds, whatever was read last",
        [PLANNED, RUNNER, ran("./work log 1", "spec.a = new @ 4"), read("docs/s.md", "spec.a = old")],
        "./work do 1 env.runner=nox spec.a=new",
    ),
    (
        "a value was refused: it is not believed again from memory, and found anew",
        [PLANNED, CANDIDATES, RUNNER, SPEC, ran("./work do 1 env.runner=nox spec.a=x1", "failed unit 1: wrong spec.a")],
        "docs/s.md",
    ),
    (
        "units come in order: the one that is first",
        [PLANNED, RUNNER, SPEC, ran("./work do 2 env.runner=nox", "failed unit 2: unit 1 comes first")],
        "./work do 1 env.runner=nox spec.a=x1",
    ),
    (
        "a file goes on: the rest of it",
        [PLANNED, RUNNER, read("docs/s.md", "[lines 1-50 of 90; read on with start_line=51]\nspec.b = 1")],
        "docs/s.md 51",
    ),
    (
        "a masked result proves nothing: the file again",
        [PLANNED, RUNNER, read("docs/s.md", "[masked: 2,000 characters of output; call again if you need them]")],
        "docs/s.md",
    ),
]


@pytest.mark.parametrize(("pairs", "wanted"), [step[1:] for step in STEPS], ids=[step[0] for step in STEPS])
def test_the_next_step_follows_from_what_is_visible(pairs: list[tuple[str, Any, str]], wanted: str) -> None:
    call = answer(TASK, *exchanged(*pairs)).arguments
    told = call.get("command") or " ".join(str(call[name]) for name in ("path", "start_line") if name in call)
    assert told == wanted


ADVICE = "FRAMES PAY above {} steps: push phases of {} (more than {} phases: in groups)."


@pytest.mark.parametrize(
    ("units", "least", "phase", "wanted"),
    [
        pytest.param(15, 20, 10, None, id="short work stays in one frame"),
        pytest.param(52, 20, 10, "units-1-9", id="long work is split into phases"),
        pytest.param(52, 42, 21, "units-1-18", id="longer phases if the prompt says so"),
        pytest.param(400, 20, 10, "units-1-80", id="many phases are grouped"),
    ],
)
def test_work_is_given_to_frames_as_the_prompt_advises(units, least, phase, wanted):
    task = user(
        "RUN", f"FRAME 'root', depth 0 of 5\n\nTASK\nDo units 1 to {units}.", ADVICE.format(least, phase, 2 * phase)
    )
    call = answer(task, strategy="adaptive")
    assert call.arguments.get("name") == wanted
    assert (call.name == "push_frame") == (wanted is not None)


def test_what_is_begun_is_ended_before_a_frame_is_pushed_for_the_rest():
    task = user("RUN", f"FRAME 'root', depth 0 of 5\n\nTASK\nDo units 1 to 8.\n{ADVICE.format(20, 10, 20)}")
    advised = [*exchanged(PLANNED, CANDIDATES, RUNNER, SPEC)]
    advised[-1] = user(*advised[-1].parts, Text(ADVICE.format(5, 10, 20)))
    assert answer(task, *advised, strategy="adaptive").arguments == {"command": "./work do 1 env.runner=nox spec.a=x1"}
    done = [*advised, *exchanged(ran("./work do 1 env.runner=nox spec.a=x1", "done unit 1"))]
    assert answer(task, *done, strategy="adaptive").arguments["name"] == "units-2-8"


def test_all_units_done_end_the_run() -> None:
    call = answer(TASK, *exchanged(ran("./work status", "done units 1-8")))
    assert call.name == "pop_frame"
    assert call.arguments["result"].startswith("done units 1-8\n")


def test_without_any_objective_it_asks_for_the_status_and_then_ends() -> None:
    assert answer(user("hello")).arguments == {"command": "./work status"}
    twice = exchanged(ran("./work status", "?"), ran("./work status", "?"))
    assert answer(user("hello"), *twice).name == "pop_frame"


def test_where_progress_is_out_of_sight_it_asks_for_the_status() -> None:
    old = exchanged(read("docs/s.md", "spec.a = x1"))
    assert answer(TASK, *old).arguments == {"command": "./work status"}


def test_a_call_that_brought_nothing_twice_is_not_made_again() -> None:
    nothing = [
        PLANNED,
        RUNNER,
        *[read("docs/s.md", "[masked: 9 characters of output; call again if you need them]")] * 2,
    ]
    call = answer(TASK, *exchanged(*nothing, ran("./work status", "no unit is done\nnext unit 1 of 8")))
    assert (call.name, call.arguments["result"]) == ("pop_frame", "failed unit 1: missing spec.a")


def test_where_no_way_is_left_the_unit_may_be_done_out_of_sight_and_the_status_says_so() -> None:
    nothing = [PLANNED, RUNNER, *[read("docs/s.md", "[masked: 9 characters of output]")] * 2]
    assert answer(TASK, *exchanged(*nothing)).arguments == {"command": "./work status"}
    done = ran("./work status", "done units 1-1\nnext unit 2 of 8")
    assert answer(TASK, *exchanged(*nothing, done)).arguments["command"].startswith(("./work plan 2", "./work do 2"))


def opening(objective: str, context: str = "", index: str = "", depth: int = 1) -> Message:
    frame = f"FRAME 'x', depth {depth} of 5\nR0 INTENT: {objective}\nR1 RETURN: what was done\n\nCONTEXT\n{context}\n\n"
    return user("RUN", frame + (index or "HEAP INDEX: 0 chunks, 0 of 10,000 characters used"))


def test_a_range_of_more_than_ten_units_is_pushed_in_tens_and_a_hundred_in_parts_of_ten() -> None:
    names = [
        answer(opening(f"Do units 1 to {last}.", depth=0), strategy="stackheap").arguments["name"]
        for last in (11, 100, 101, 1_000)
    ]
    assert names == ["units-1-10", "units-1-10", "units-1-100", "units-1-100"]


def test_at_the_last_depth_but_one_a_range_is_cut_into_ten_and_at_the_last_it_is_done() -> None:
    assert answer(opening("Do units 1 to 400.", depth=4), strategy="stackheap").arguments["name"] == "units-1-40"
    assert answer(opening("Do units 1 to 40.", depth=5), strategy="stackheap").name == "run_command"


def test_a_push_keeps_to_every_budget_and_says_the_range() -> None:
    facts = "\n".join(f"spec.k{number} = {'v' * 60}" for number in range(60))
    returned = ("push_frame", {"name": "a"}, f"frame 'a' returned:\ndone units 1-10\n{facts}")
    call = answer(opening("Do units 1 to 40."), *exchanged(returned), strategy="stackheap")
    told = call.arguments
    assert told["objective"].startswith("Do units 11 to 20.")
    assert len(told["objective"]) <= 200
    assert 0 < len(told["context"]) <= 500
    assert len(told["return_spec"]) <= 200


INDEX = (
    "HEAP INDEX: 1 chunk, 11 of 10,000 characters used\n- spec | 11 chars | keys: a | created step 3 | last read never"
)


def test_a_chunk_that_the_index_offers_is_read_before_the_file() -> None:
    call = answer(opening("Do units 1 to 8.", index=INDEX), *exchanged(PLANNED, RUNNER), strategy="stackheap")
    assert (call.name, call.arguments) == ("heap_read", {"name": "spec"})


def test_an_index_in_the_system_prompt_is_read_as_well() -> None:
    frame = user("RUN", "FRAME 'x', depth 1 of 5\nR0 INTENT: Do units 1 to 8.")
    call = answer(frame, *exchanged(PLANNED, RUNNER), strategy="stackheap:index=system", system=f"Words.\n\n{INDEX}")
    assert (call.name, call.arguments) == ("heap_read", {"name": "spec"})


def test_a_stale_chunk_is_not_read() -> None:
    stale = f"{INDEX} | STALE: its source has changed since"
    call = answer(opening("Do units 1 to 8.", index=stale), *exchanged(PLANNED, RUNNER), strategy="stackheap")
    assert (call.name, call.arguments) == ("read_file", {"path": "docs/s.md"})


def test_a_pop_stores_what_was_found_with_its_source_and_tells_it() -> None:
    done = ran("./work do 1 env.runner=nox spec.a=x1", "done unit 8")
    call = answer(
        opening("Do units 1 to 8."), *exchanged(PLANNED, CANDIDATES, RUNNER, SPEC, done), strategy="stackheap"
    )
    assert call.arguments["store"] == [
        {"name": "env", "content": "env.runner = nox", "description": "keys: runner"},
        {"name": "spec", "content": "spec.a = x1", "description": "keys: a", "source": "docs/s.md"},
    ]
    assert call.arguments["result"].split("\n")[0] == "done units 1-8"


def test_what_is_stored_never_takes_more_than_the_heap_has_left() -> None:
    full = "HEAP INDEX: 1 chunk, 9,990 of 10,000 characters used\n- x | 9,990 chars | created step 3 | last read never"
    done = ran("./work do 1 env.runner=nox spec.a=x1", "done unit 8")
    call = answer(
        opening("Do units 1 to 8.", index=full), *exchanged(PLANNED, RUNNER, SPEC, done), strategy="stackheap"
    )
    assert call.name == "pop_frame"
    assert "store" not in call.arguments
    assert "spec.a = x1" in call.arguments["result"]


def test_a_chunk_that_holds_more_than_is_known_is_read_before_it_is_written() -> None:
    index = INDEX.replace("keys: a", "keys: b, c")
    done = ran("./work do 1 env.runner=nox spec.a=x1", "done unit 8")
    pairs = exchanged(PLANNED, RUNNER, SPEC, done)
    call = answer(opening("Do units 1 to 8.", index=index), *pairs, strategy="stackheap")
    assert (call.name, call.arguments) == ("heap_read", {"name": "spec"})


def test_a_shortened_result_is_expanded_where_only_it_can_tell() -> None:
    plan = ran("./work plan 3-4", "unit 3: needs result.u2 <unit 2>")
    stub = ran("./work do 2", "== build\n[shortened: 400 of 1,500 characters; expand index 9 shows it whole]")
    call = answer(TASK, *exchanged(stub, plan, ran("./work status", "done units 1-2")), strategy="expandable")
    assert (call.name, call.arguments) == ("expand", {"index": 9})


def test_a_popped_frame_is_asked_for_what_it_alone_was_told() -> None:
    plan = ran("./work plan 13-14", "unit 13: needs result.u4 <unit 4>")
    pairs = exchanged(plan, ran("./work status", "done units 1-12"))
    call = answer(opening("Do units 11 to 20."), *pairs, strategy="stackheap_lossless")
    assert (call.name, call.arguments) == ("heap_read", {"name": "frame:units-1-10", "query": "result.u4"})


def test_the_file_of_notes_on_the_topic_is_viewed() -> None:
    listing = "/memories: 1 files, 9 of 100,000 characters used in all\n- /memories/spec.md | 9 chars"
    viewed = ("memory", {"command": "view", "path": "/memories"}, listing)
    noted = ("memory", {"command": "create", "path": "/memories/env.md", "file_text": "env.runner = nox\n"}, "created")
    call = answer(TASK, *exchanged(PLANNED, viewed, RUNNER, noted), strategy="memory_dir")
    assert call.arguments == {"command": "view", "path": "/memories/spec.md"}


def test_files_of_earlier_runs_are_viewed_before_anything_else_if_the_prompt_says_so() -> None:
    system = started("memory_files").system
    first = answer(TASK, strategy="memory_files", system=system)
    assert (first.name, first.arguments) == ("memory", {"command": "view", "path": "/memories"})
    plain = started("memory_dir").system
    assert answer(TASK, strategy="memory_dir", system=plain).name == "run_command"
    viewed = ("memory", {"command": "view", "path": "/memories"}, "/memories: 0 files, 0 of 100,000 characters used")
    assert answer(TASK, *exchanged(viewed), strategy="memory_files", system=system).name == "run_command"


def test_a_log_goes_on_to_the_page_that_it_names() -> None:
    plan = ran("./work plan 1-8", "unit 1: needs request.gap <run ./work log 3>")
    page = ran("./work log 3", "-- log 3, collected for gap, page 1 of 2; ./work log 3 2 shows the next\n10:00 noise")
    assert answer(TASK, *exchanged(plan, page)).arguments == {"command": "./work log 3 2"}


def test_a_file_that_is_seen_to_change_is_read_again() -> None:
    stale = f"{INDEX.replace('| created', '| source docs/s.md | created')}"
    read_then = [*exchanged(PLANNED, RUNNER, SPEC)]
    changed = user(ToolResult("z", "fine\n[exit 0]"), f"{stale} | STALE: its source has changed since")
    asked = assistant(ToolCall("z", "run_command", {"command": "./work log 1"}))
    call = answer(opening("Do units 1 to 8.", index=stale), *read_then, asked, changed, strategy="stackheap")
    assert (call.name, call.arguments) == ("read_file", {"path": "docs/s.md"})


def test_a_closed_frame_pops_at_once() -> None:
    closed = "this frame's conversation fills 85% of the model's window; only pop_frame and the heap tools work"
    messages = [assistant(ToolCall("c", "read_file", {"path": "a"})), user(ToolResult("c", closed, True))]
    call = answer(opening("Do units 1 to 8."), *exchanged(PLANNED), *messages, strategy="stackheap")
    assert (call.name, call.arguments["result"][:14]) == ("pop_frame", "failed unit 1:")


def test_a_costly_discovery_is_noted_and_a_file_of_notes_is_written() -> None:
    pairs = exchanged(PLANNED, RUNNER)
    noted = answer(TASK, *pairs, strategy="notes")
    assert (noted.name, noted.arguments) == ("add_note", {"text": "env.runner = nox"})
    listed = answer(TASK, *pairs, strategy="memory_dir")
    assert (listed.name, listed.arguments) == ("memory", {"command": "view", "path": "/memories"})


def test_a_sub_agent_receives_all_known_facts() -> None:
    task = user("RUN", "TASK\nDo units 1 to 30.")
    told = exchanged(
        ("delegate", {"name": "a", "prompt": "x"}, "sub-agent 'a' returned:\ndone units 1-10\nspec.a = x1")
    )
    call = answer(task, *told, strategy="isolated")
    assert call.name == "delegate"
    assert call.arguments["prompt"].startswith("Do units 11 to 20.\n")
    assert "\nspec.a = x1" in call.arguments["prompt"]


def test_a_branch_knows_that_it_is_the_branch() -> None:
    task = user("RUN", "TASK\nDo units 1 to 30.")
    pushed = exchanged(
        ("branch", {"name": "a", "prompt": "Do units 1 to 10."}, "BRANCH 'a', depth 1 of 5\n\nDo units 1 to 10.")
    )
    assert answer(task, *pushed, strategy="fold").arguments == {"command": "./work plan 1-10"}


def test_a_compaction_request_is_answered_by_text_of_bounded_length() -> None:
    facts = "\n".join(f"spec.k{number} = v{number}" for number in range(80))
    asked = Text("COMPACTION REQUEST (kind: summary; at most 300 characters)\n\nSum up.")
    shown = exchanged(ran("./work do 3 spec.k7=v7", "changed env @ 2\ndone unit 3"), read("docs/s.md", facts))
    last = Message("user", (*shown[-1].parts, asked))
    reply = BoundedReader().reply(asking(TASK, *shown[:-1], last, tools=tools("full")))
    assert isinstance(reply, ModelReplied)
    (text,) = reply.parts
    assert isinstance(text, Text)
    assert len(text.text) <= 300
    assert text.text.split("\n")[:3] == ["done units 1-3", "changed env @ 2", "spec.k0 = v0"]
    assert reply.stop == "end"


def test_the_summary_of_a_conversation_says_what_was_asked_for_last() -> None:
    begun = user("RUN\nconversation: a user reads along", "TASK\nWork with a user.", "Do units 1 to 2.")
    done = exchanged(ran("./work do 2", "done unit 2"))
    last = user(*done[-1].parts, "Do units 3 to 8.", "COMPACTION REQUEST (kind: summary; at most 300 characters)")
    reply = BoundedReader().reply(asking(begun, *done[:-1], last, tools=tools("full")))
    assert isinstance(reply, ModelReplied)
    (text,) = reply.parts
    assert isinstance(text, Text)
    assert text.text.split("\n") == ["done units 1-2", "Do units 3 to 8."]


def test_a_summary_has_at_most_forty_lines() -> None:
    facts = "\n".join(f"spec.k{number} = v{number}" for number in range(80))
    asked = user("SUMMARY\n" + facts, "COMPACTION REQUEST (kind: rolling; at most 90,000 characters)")
    reply = BoundedReader().reply(asking(asked))
    assert isinstance(reply, ModelReplied)
    (text,) = reply.parts
    assert isinstance(text, Text)
    assert len(text.text.split("\n")) == 40


def test_a_prompt_over_the_window_fails_as_at_a_provider() -> None:
    reply = BoundedReader(window_tokens=1_000).reply(asking(user("x" * 3_000)))
    assert isinstance(reply, ModelFailed)
    assert reply.kind == "window"
    assert isinstance(BoundedReader(window_tokens=1_000).reply(asking(user("x" * 2_000))), ModelReplied)


def test_only_the_oracle_knows_what_is_not_visible() -> None:
    whole, cut = [TASK, *exchanged(PLANNED, RUNNER, SPEC)], [TASK, *exchanged(PLANNED, RUNNER)]
    said = {}
    for variant in ("nesting", "oracle"):
        reader = BoundedReader(variant)
        for messages in (whole, cut):
            reply = reader.reply(asking(*messages, tools=tools("full")))
            assert isinstance(reply, ModelReplied)
            said[variant] = next(part.arguments for part in reply.parts if isinstance(part, ToolCall))
    assert said["nesting"] == {"path": "docs/s.md"}
    assert said["oracle"] == {"command": "./work do 1 env.runner=nox spec.a=x1"}


TEXTS = st.one_of(
    st.text(max_size=60),
    st.sampled_from([PLAN, "spec.a = x1", "done unit 3", "changed spec @ 4", "failed unit 1: wrong spec.a", INDEX,
                     "Do units 1 to 30.", "next unit 4 of 9", "candidate env.runner: a b", "not env.runner = a",
                     "[lines 1-5 of more than 9; x]", "FRAME 'x', depth 9 of 5", "only pop_frame works",
                     "[stored on the heap: spec, env]", "Do units 99999 to 1.", "failed unit 1: unit 0 comes first"]),
)  # fmt: skip
ARGUMENTS = st.one_of(
    st.none(),
    st.lists(TEXTS, max_size=2),
    st.dictionaries(
        st.sampled_from(["command", "path", "name", "store", "content", "text", "start_line", "prompt"]),
        st.one_of(
            TEXTS, st.integers(), st.none(), st.lists(st.dictionaries(st.sampled_from(["name", "content"]), TEXTS))
        ),
        max_size=3,
    ),
)
NAMES = st.sampled_from(
    ["read_file", "run_command", "heap_read", "push_frame", "memory", "heap_alloc", "expand", "zzz"]
)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    messages = [user(*draw(st.lists(TEXTS, min_size=1, max_size=3)))]
    for number in range(draw(st.integers(0, 5))):
        messages.append(assistant(ToolCall(f"c{number}", draw(NAMES), draw(ARGUMENTS))))
        messages.append(user(ToolResult(f"c{number}", draw(TEXTS), draw(st.booleans())), Text(draw(TEXTS))))
    return messages


OFFERED = ("full", "stackheap", "isolated", "fold", "notes", "memory_dir", "expandable", "stackheap:index=listed")


@given(conversations(), st.sampled_from(OFFERED), st.sampled_from(VARIANTS))
def test_whatever_is_visible_the_answer_is_one_call_of_an_offered_tool(
    messages: list[Message], strategy: str, variant: str
) -> None:
    offered = tools(strategy)
    reply = BoundedReader(variant).reply(asking(*messages, tools=offered))
    assert isinstance(reply, ModelReplied)
    (call,) = [part for part in reply.parts if isinstance(part, ToolCall)]
    schema = json.loads(next(tool.schema for tool in offered if tool.name == call.name))
    assert set(schema["required"]) <= set(call.arguments) <= set(schema["properties"])


@given(conversations())
def test_the_same_prompt_is_answered_alike_grown_step_by_step_or_seen_at_once(messages: list[Message]) -> None:
    offered, grown, replies = tools("stackheap"), Log[Message](), []
    reader = BoundedReader()
    for message in messages:
        grown = grown.append(message)
        if message.role == "user":
            request = asking(tools=offered)
            view = View("You are an agent.", offered, grown)
            replies.append(reader.reply(type(request)(view, step=1, facts=0)))
    assert replies[-1] == BoundedReader().reply(asking(*messages, tools=offered))
