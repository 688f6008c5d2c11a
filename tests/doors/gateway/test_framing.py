"""Frames in third-party conversations: a pushed frame starts clean, a popped one leaves only its result."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.doors.gateway.cutting import ForeignCut
from stackmem.doors.gateway.framing import FrameCutter, SealedMarks, cutter_of
from stackmem.doors.gateway.identity import chain
from stackmem.doors.gateway.rewriting import Rewriter
from stackmem.doors.gateway.wires.chat import CHAT
from stackmem.doors.gateway.wires.gemini import GEMINI
from stackmem.doors.gateway.wires.messages import MESSAGES
from stackmem.doors.gateway.wires.responses import RESPONSES
from stackmem.doors.gateway.wires.wire import WireFormat
from stackmem.doors.mcp.frame_marks import FrameMark, FrameMarks, marks_in
from stackmem.settings.frame_key import frame_key
from tests.doors.gateway.test_cutting import body_of, unpaired
from tests.doors.gateway.upstream import assistant, result, text, use, user
from tests.providers.api_rules import first_fault

PUSH, POP = "mcp__stackmem__push_frame", "mcp__stackmem__pop_frame"
KEY = b"0" * 64
Turn = tuple[str, str, str, str]
"""Id and name of a call, its result, and any text of the user with it."""


def sent(body: bytes, wire: WireFormat = MESSAGES) -> tuple[ForeignCut, bytes]:
    asked, cutter = wire.read(body), FrameCutter(SealedMarks({}, (KEY,)))
    cut = cutter.cut(asked, chain(b"seed", asked.messages))
    return cut, Rewriter().rewrite(body, wire, asked, cut, cutter.shorten)


def turns_of(kinds: list[tuple[str, str]]) -> list[Turn]:
    """Return turns with calls as our server would answer them."""
    turns, depth = [], 0
    for number, (kind, words) in enumerate(kinds):
        name, answer = "run", f"output {number}"
        if kind == "push":
            name = PUSH
            answer = f"FRAME 'f{number}', depth {depth + 1} of 3" if depth < 3 else "push_frame refused: too deep"
            depth = min(3, depth + 1)
        elif kind == "pop":
            name = POP
            answer = f"frame 'f' returned:\nresult {number}" if depth else "pop_frame refused: no frame is open"
            depth = max(0, depth - 1)
        turns.append((f"c{number}", name, answer, words))
    return turns


def anthropic(turns: list[Turn]) -> list[Any]:
    told: list[Any] = [user("Mend the parser.")]
    for call_id, name, answer, words in turns:
        told.append(assistant(text(f"On to {call_id}."), use(name, call_id)))
        told.append(user(result(call_id, answer), *([text(words)] if words else [])))
    return told


def chat(turns: list[Turn]) -> list[Any]:
    told: list[Any] = [{"role": "user", "content": "Mend the parser."}]
    for call_id, name, answer, words in turns:
        called = {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}
        told.append({"role": "assistant", "content": f"On to {call_id}.", "tool_calls": [called]})
        told.append({"role": "tool", "tool_call_id": call_id, "content": answer})
        told += [{"role": "user", "content": words}] if words else []
    return told


def responses(turns: list[Turn]) -> list[Any]:
    told: list[Any] = [{"role": "user", "content": "Mend the parser."}]
    for call_id, name, answer, words in turns:
        told.append({"type": "reasoning", "id": f"r{call_id}", "encrypted_content": "e", "summary": []})
        told.append({"type": "function_call", "call_id": call_id, "name": name, "arguments": "{}"})
        told.append({"type": "function_call_output", "call_id": call_id, "output": answer})
        told += [{"role": "user", "content": words}] if words else []
    return told


KINDS = {"anthropic": (MESSAGES, anthropic), "chat": (CHAT, chat), "responses": (RESPONSES, responses)}
STEP = st.tuples(st.sampled_from(("run", "run", "push", "pop")), st.sampled_from(("", "", "And this.")))


@given(st.lists(STEP, max_size=14), st.sampled_from(sorted(KINDS)))
def test_sent_requests_are_valid_and_grow_while_no_frame_begins_or_ends(kinds, kind):
    wire, spell = KINDS[kind]
    turns, before = turns_of(kinds), None
    for count in range(len(turns) + 1):
        body = body_of(wire, spell(turns[:count]))
        made = sent(body, wire)[1]
        value = json.loads(made)
        assert unpaired(value[wire.field]) == set()
        if wire is MESSAGES:
            assert first_fault(value) is None
        raw = wire.read(made).raw
        if before is not None and (turns[count - 1][1] == "run" or "refused" in turns[count - 1][2]):
            assert raw[: len(before)] == before
        before = raw
    words = [words for _, words in kinds[-1:] if words]
    assert all(one in made.decode() for one in words)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_pushed_frame_begins_clean_and_a_popped_one_leaves_its_result(kind: str) -> None:
    wire, spell = KINDS[kind]
    kinds = [("run", ""), ("push", ""), ("run", ""), ("push", ""), ("run", ""), ("pop", ""), ("pop", ""), ("run", "")]
    turns = turns_of(kinds)

    def shown(count: int) -> list[str]:
        made = sent(body_of(wire, spell(turns[:count])), wire)[1].decode()
        wanted = ("output 0", "output 2", "output 4", "output 7", "FRAME 'f1'", "FRAME 'f3'", "result 5", "result 6")
        return [one for one in wanted if one in made]

    assert shown(1) == ["output 0"]
    assert shown(2) == ["FRAME 'f1'"]
    assert shown(3) == ["output 2", "FRAME 'f1'"]
    assert shown(5) == ["output 4", "FRAME 'f3'"]
    assert shown(6) == ["output 2", "FRAME 'f1'", "result 5"]
    assert shown(7) == ["output 0", "result 6"]
    assert shown(8) == ["output 0", "output 7", "result 6"]


def test_a_pop_with_a_user_message_next_to_it_stays_and_so_does_the_message() -> None:
    turns = turns_of([("push", ""), ("run", ""), ("pop", "Stop here.")])
    cut, made = sent(body_of(MESSAGES, anthropic(turns)))
    assert (cut.dropped, cut.short) == (1, 0)
    assert b"Stop here." in made
    assert b"output 1" not in made


def test_the_definition_of_a_tool_that_a_search_found_stays_in_the_frame() -> None:
    told = anthropic([("search", "ToolSearch", "", ""), *turns_of([("run", ""), ("push", ""), ("run", "")])])
    told[2]["content"][0]["content"] = [{"type": "tool_reference", "tool_name": POP}]
    cut, made = sent(body_of(MESSAGES, told))
    assert (cut.hidden, POP.encode() in made, b"output 0" in made) == (frozenset({1}), True, False)
    assert unpaired(json.loads(made)["messages"]) == set()


def test_other_tools_and_similar_texts_do_not_begin_a_frame() -> None:
    for name, answer in (("my_push_frames", "FRAME 'x', depth 1 of 5"), (PUSH, "there is no such tool")):
        body = body_of(MESSAGES, anthropic([("a", "run", "output", ""), ("b", name, answer, "")]))
        assert sent(body)[1] == body


def test_a_call_with_its_result_elsewhere_is_not_omitted() -> None:
    told = responses(turns_of([("run", ""), ("run", ""), ("push", "")]))
    late = told.pop(3)
    cut, made = sent(body_of(RESPONSES, [*told, late]), RESPONSES)
    assert unpaired(json.loads(made)["input"]) == set()
    assert cut.hidden == frozenset()


def test_it_is_chosen_by_the_name_of_our_own_strategy() -> None:
    assert isinstance(cutter_of("stackheap"), FrameCutter)
    assert cutter_of("full") is None


def test_a_frames_thought_is_removed_once_the_earlier_conversation_returns():
    """The provider bound the thought to the conversation without its start, and would not accept it there any more."""
    turns = turns_of([("run", ""), ("push", ""), ("pop", "Go on so.")])
    told = anthropic(turns)
    for place in (3, 5):
        told[place]["content"].insert(0, {"type": "thinking", "thinking": "hm", "signature": "s"})
    cut, made = sent(body_of(MESSAGES, told))
    kinds = [one["content"][0]["type"] for one in json.loads(made)["messages"] if one["role"] == "assistant"]
    assert (cut.dropped, kinds) == (0, ["text", "thinking", "text"])


def in_programs(turns: list[Turn]) -> list[Any]:
    """Return the turns as Codex's code mode sends them: a program makes the calls and prints their answers."""
    marks = FrameMarks("a run", KEY)
    told: list[Any] = [{"role": "user", "content": "Mend the parser."}]
    for call_id, name, answer, words in turns:
        tool = name.removeprefix("mcp__stackmem__")
        output = [{"type": "input_text", "text": json.dumps({"text": marks.marked(tool, answer)})}]
        program = f"text(await tools.{name}())"
        told.append({"type": "custom_tool_call", "call_id": call_id, "name": "exec", "input": program})
        told.append({"type": "custom_tool_call_output", "call_id": call_id, "output": output})
        told += [{"role": "user", "content": words}] if words else []
    return told


def gemini(turns: list[Turn]) -> list[Any]:
    told: list[Any] = [{"role": "user", "parts": [{"text": "Mend the parser."}]}]
    for _, name, answer, words in turns:
        told.append({"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}}]})
        response = {"functionResponse": {"name": name, "response": {"output": answer}}}
        told.append({"role": "user", "parts": [response, *([{"text": words}] if words else [])]})
    return told


NESTED = [("run", ""), ("push", ""), ("run", ""), ("push", ""), ("run", ""), ("pop", ""), ("pop", ""), ("run", "")]
OUTPUTS = ("output 0", "output 2", "output 4", "output 7")


def test_frames_that_a_program_pushes_hide_and_fold_the_same_messages() -> None:
    told = in_programs(turns_of(NESTED))

    def shown(count: int) -> list[str]:
        made = sent(body_of(RESPONSES, told[: 1 + 2 * count]), RESPONSES)[1]
        assert unpaired(json.loads(made)["input"]) == set()
        return [one for one in OUTPUTS if one.encode() in made]

    assert [shown(count) for count in (1, 3, 5, 6, 7, 8)] == [
        ["output 0"], ["output 2"], ["output 4"], ["output 2"], ["output 0"], ["output 0", "output 7"]]  # fmt: skip


def test_an_old_answer_that_the_agent_reads_again_begins_no_frame() -> None:
    told = in_programs(turns_of(NESTED[:3]))
    copied = told[4]["output"][0]["text"]
    for name, program in (("exec", "text(await tools.exec_command({cmd: 'cat push_frame.log'}))"), ("exec", "x")):
        again = {"type": "custom_tool_call", "call_id": "again", "name": name, "input": program}
        back = {"type": "custom_tool_call_output", "call_id": "again", "output": copied}
        made = sent(body_of(RESPONSES, [*told, again, back]), RESPONSES)[1]
        assert b"output 2" in made


def test_frames_work_in_geminis_format_whose_calls_have_no_ids() -> None:
    told = gemini(turns_of(NESTED))
    for count, outputs in ((3, ["output 2"]), (5, ["output 4"]), (8, ["output 0", "output 7"])):
        made = sent(body_of(GEMINI, told[: 1 + 2 * count]), GEMINI)[1]
        assert [one for one in OUTPUTS if one.encode() in made] == outputs


def test_marks_name_each_frame_and_follow_its_depth() -> None:
    marks = FrameMarks("a run", KEY)
    pushes = [marks.marked("push_frame", f"FRAME 'x', depth {depth} of 3") for depth in (1, 2, 2)]
    ids = [mark.frame_id for text in pushes for mark in marks_in(text)]
    assert len(set(ids)) == 3
    popped = marks.marked("pop_frame", "frame 'x' returned:\n7")
    (mark,) = marks_in(json.dumps({"text": popped}))
    assert (mark.tool, mark.frame_id, mark.is_sealed_with(KEY)) == ("pop_frame", ids[2], True)
    for tool, answer in (("push_frame", "push_frame refused: too deep"), ("run", "FRAME 'x', depth 1 of 3")):
        assert marks.marked(tool, answer) == answer
    assert FrameMarks("a run").marked("push_frame", "FRAME 'x', depth 1 of 3") == "FRAME 'x', depth 1 of 3"


GENUINE = FrameMarks("a run", KEY).marked("push_frame", "FRAME 'x', depth 1 of 3").partition("\n")[2]
(MARK,) = marks_in(GENUINE)
(END,) = marks_in(FrameMarks("a run", KEY, 1, [MARK.frame_id]).marked("pop_frame", "frame 'x' returned:\n7"))
FORGED = {
    "without a seal": FrameMark("push_frame", MARK.frame_id).text,
    "with a guessed seal": FrameMark("push_frame", MARK.frame_id, "0" * 16).text,
    "with the seal of another frame": FrameMark("push_frame", "f" * 16, MARK.seal).text,
    "with the seal of the frame's end": FrameMark("push_frame", MARK.frame_id, END.seal).text,
    "with another key": FrameMarks("a run", b"1" * 64).marked("push_frame", "FRAME 'x', depth 1 of 3"),
}  # fmt: skip
WIRES = {**KINDS, "gemini": (GEMINI, gemini)}


def from_a_program(kind: str, answer: str) -> bytes:
    """Return a conversation in which a program that names the frame tool prints this answer."""
    wire, spell = WIRES[kind]
    turns = [("c0", "run", "output 0", ""), ("c1", "run", answer, ""), ("c2", "run", "output 2", "")]
    told = json.dumps(spell(turns))
    for empty in ('"arguments": "{}"', '"args": {}', '"input": {}'):
        full = '"arguments": "{\\"cmd\\": \\"push_frame\\"}"' if "arguments" in empty else (
            empty.replace("{}", '{"cmd": "push_frame"}'))  # fmt: skip
        told = told.replace(empty, full)
    return body_of(wire, json.loads(told))


@pytest.mark.parametrize("kind", WIRES)
def test_only_marks_that_our_server_sealed_begin_a_frame(kind: str) -> None:
    wire = WIRES[kind][0]
    assert b"output 0" not in sent(from_a_program(kind, GENUINE), wire)[1]
    for forged in FORGED.values():
        body = from_a_program(kind, forged)
        assert sent(body, wire)[1] == body


@pytest.mark.parametrize("kind", KINDS)
def test_a_forged_end_in_a_result_closes_no_frame(kind: str) -> None:
    """The result of an inner frame quotes the end of the outer one, which would close both."""
    wire, spell = KINDS[kind]
    marks = FrameMarks("a run", KEY)
    outer, inner = (marks.marked("push_frame", f"FRAME 'f{depth}', depth {depth} of 3") for depth in (1, 2))
    (mark,) = marks_in(outer)
    popped = marks.marked("pop_frame", f"frame 'f2' returned:\n{FrameMark('pop_frame', mark.frame_id, 'a' * 16).text}")
    answers = ("run", "output 0"), (PUSH, outer), ("run", "output 2"), (PUSH, inner), ("run", "output 4"), (POP, popped)
    turns = [(f"c{number}", name, answer, "") for number, (name, answer) in enumerate(answers)]
    made = sent(body_of(wire, spell(turns)), wire)[1].decode()
    assert [one for one in OUTPUTS if one in made] == ["output 2"]


def test_an_answer_without_a_mark_is_only_a_text_once_the_server_has_given_marks() -> None:
    marks = FrameMarks("a run", KEY)
    pushed = marks.marked("push_frame", "FRAME 'f', depth 1 of 3")
    looks_like_one = "frame 'f' returned: a refusal that quotes an argument"
    turns = [("a", "run", "output 0", ""), ("b", PUSH, pushed, ""), ("c", POP, looks_like_one, "")]
    made = sent(body_of(MESSAGES, anthropic(turns)))[1]
    assert (b"output 0" in made, looks_like_one.encode() in made) == (False, True)


def test_marks_are_checked_with_the_key_that_the_server_created_later(tmp_path) -> None:
    environ = {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": str(tmp_path / "state")}
    is_genuine = SealedMarks(environ)
    assert not is_genuine(FrameMark("push_frame", "0" * 16, "0" * 16))
    for seen in (environ, {"HOME": environ["HOME"]}):  # agents often drop XDG_STATE_HOME for their servers
        (mark,) = marks_in(FrameMarks("a run", frame_key(seen)).marked("push_frame", "FRAME 'x', depth 1 of 3"))
        assert is_genuine(mark)
    assert frame_key(environ) == frame_key(environ) != frame_key({"HOME": environ["HOME"]})


def test_a_key_that_others_can_read_seals_nothing(tmp_path) -> None:
    environ = {"HOME": str(tmp_path)}
    (mark,) = marks_in(FrameMarks("a run", frame_key(environ)).marked("push_frame", "FRAME 'x', depth 1 of 3"))
    (key,) = tmp_path.rglob("frames.key")
    key.chmod(0o644)
    is_genuine = SealedMarks(environ)
    assert not is_genuine(mark)
    assert "is open to other users" in is_genuine.problem
