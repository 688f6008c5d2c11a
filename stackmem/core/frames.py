"""The frame manager: what a push and a pop result in.

Rule 1: A push that exceeds a budget or the depth is refused with every fault. Exactly on budget is accepted.
Rule 2: A child starts with its registers, its context and the heap, never with its parent's conversation.
Rule 3: A pop returns its result to the parent's push call. The frame's conversation is not shown again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from msgspec import UNSET
from msgspec.structs import asdict, replace

from . import limits, programs
from .budgets import PROMPT_CHARS, Budgets
from .conversation.standing import block
from .facts import FramePopped, FramePushed, RunStarted
from .guidance import checkpoints
from .guidance.finishing import premature_end
from .guidance.repetition import copied_result, handed_on
from .heap import Heap, faults, index, name_faults, source_faults, sources_with, taken_over
from .images import image_chars
from .jobs.calls import ended_with
from .log import Log
from .messages import Text, ToolCall
from .requests import DigestSources, Effect, ReadClock, Verify
from .state import Frame, Notice, Pending, PoppedFrame, Registers, Reply, Result, State, Turn
from .text import clip_chars, edit_distance, mark_cut, tail
from .tool_schemas import parameters, tool_named
from .tools import (
    Branch,
    Call,
    Delegate,
    PopCall,
    PopFrame,
    PushFrame,
    PushFrames,
    Refusal,
    StartCall,
    StoreEntry,
    Tool,
    tool_name,
)

ROOT_RETURNS = "What was built or changed, how it was verified, and what is open."
_TextTurn = Result | Notice
NOT_VERIFIED = "not verified"
# Finds a mention such as: heap chunk 'name'.
_POINTER = re.compile(r"\bheap(?:\s+chunk)?\s*(['\"`])([A-Za-z0-9_./-]{1,64})\1", re.IGNORECASE)


def root(start: RunStarted) -> Frame:
    """Return the frame that a run starts with. Its R0 is the task, cut to the budget."""
    budgets = start.budgets
    intent = mark_cut(" ".join(start.task.split()), budgets.intent_chars)
    heap, attached = first_heap(start), start.attached or ()
    chars = (
        standing_chars(start) + len(start.task) + sum(len(each.text) + image_chars(each.images) for each in attached)
    )
    return Frame(
        id="frame-0",
        name="root",
        depth=0,
        registers=Registers(intent, ROOT_RETURNS),
        context="",
        opened=heap,
        turns=Log([Notice(each.text, heap, each.images) for each in attached]),
        task=start.task,
        opened_chars=chars,
        chars=chars,
    )


def first_heap(start: RunStarted) -> Heap:
    """Return the initial heap: empty, or taken over from earlier runs."""
    heap = Heap() if start.heap is UNSET else taken_over(start.heap)
    heap = heap if start.skills is UNSET else heap.with_skills(start.skills)
    brief = start.session is not UNSET and start.session.index is not UNSET
    return replace(heap, brief=brief, escaped=start.index == "escaped")


def standing_chars(start: RunStarted) -> int:
    """Estimate the characters of a prompt before any turn: system, tools, constants of the run."""
    tools = sum(len(tool.name) + len(tool.description) + len(tool.schema) for tool in start.tools)
    instructions = len(start.instructions) if start.instructions else 0
    return len(start.system) + tools + instructions + 1_000


def push(state: State, call: PushFrame, fields: Collection[str], pending: Pending) -> FramePushed | Effect | Refusal:
    """Return the new frame, the effect that it needs first, or the refusal."""
    budgets, store = state.begun.budgets, call.store
    wrong = _text_faults(asdict(call), budgets, fields) + faults(state.heap, store, budgets) + _typos(state, call)
    wrong += [fault for fault in (handed_on(state, call),) if fault]
    deepest = state.running.depth - state.running.pushed_at >= budgets.depth
    if deepest:
        wrong.insert(0, f"this frame is at depth {state.running.depth}, the deepest allowed; do the work here, or pop")
    if wrong:
        return Refusal("too_deep" if deepest else "push_refused", "push_frame refused: " + "; ".join(wrong))
    obstacle = checkpoints.answer(state, call) or source_obstacle(state, "push_frame", store, pending)
    if obstacle is not None:
        return obstacle
    if limits.constraint(call.constraint).seconds is not None and not state.clock_fresh:
        return ReadClock()  # the child's seconds count from now
    return FramePushed(
        frame=f"frame-{state.pushes + 1}",
        name=call.name,
        intent=call.objective or mark_cut(" ".join(call.context.split()), budgets.intent_chars),
        return_spec=call.return_spec,
        constraint=call.constraint if call.constraint.strip() else limits.remaining(state),
        context=call.context,
        stored=tuple(entry.name for entry in store),
        missing=missing_chunks(state, call),
        checkpoint=checkpoints.effect(state, call),
    )


def start_prompted(state: State, call: StartCall) -> FramePushed | Refusal:
    """Return the frame of a sub-agent or a branch, or the refusal. It has no registers: its prompt is its context."""
    budgets, tool = state.begun.budgets, tool_name(call)
    wrong = name_faults(call.name, budgets)
    if len(call.prompt) > PROMPT_CHARS:
        wrong.append(f"prompt is {len(call.prompt):,} chars, maximum is {PROMPT_CHARS:,}; put data in files, name them")
    elif not call.prompt.strip():
        wrong.append(f"prompt is empty (0 chars), maximum is {PROMPT_CHARS:,}; say what to do and what to report")
    deepest = state.running.depth - state.running.pushed_at >= budgets.depth
    if deepest:
        wrong.insert(0, f"this is depth {state.running.depth}, the deepest allowed; do the work here, or return")
    if wrong:
        return Refusal("too_deep" if deepest else "push_refused", f"{tool} refused: " + "; ".join(wrong))
    if answer := checkpoints.answer(state, call):
        return answer
    intent = mark_cut(" ".join(call.prompt.split()), budgets.intent_chars)
    effect = checkpoints.effect(state, call)
    return FramePushed(f"frame-{state.pushes + 1}", call.name, intent, "", "", call.prompt, checkpoint=effect)


def with_budget_faults(refusal: Refusal, call: ToolCall, budgets: Budgets, offered: tuple[Tool, ...]) -> Refusal:
    """Add the budget faults to the refusal of a push with invalid arguments, so that the model sees all faults
    together.
    """
    if call.name != tool_name(PushFrame) or not isinstance(call.arguments, dict):
        return refusal
    wrong = _text_faults(call.arguments, budgets, parameters(tool_named(call.name, offered) or PushFrame))
    more = f". Over the limits: {'; '.join(wrong)}" if wrong else ""
    return replace(refusal, way_out=refusal.way_out + more)


def _text_faults(texts: Mapping[str, object], budgets: Budgets, fields: Collection[str]) -> list[str]:
    """Return the faults of a push's texts, each with its length and maximum. ``texts`` may contain anything."""
    name = texts.get("name")
    wrong = name_faults(name if isinstance(name, str) else "", budgets)
    rows = (
        ("objective", budgets.intent_chars, True),
        ("context", budgets.context_chars, True),
        ("return_spec", budgets.return_chars, True),
        ("constraint", budgets.constraint_chars, False),
        ("verify", budgets.verify_chars, False),
    )
    for label, most, needed in rows:
        if label not in fields:
            continue
        text = texts.get(label)
        if isinstance(text, str) and len(text) > most:
            wrong.append(f"{label} is {len(text)} chars, maximum is {most}; move data to the heap and point to it")
        elif needed and not (isinstance(text, str) and text.strip()):
            wrong.append(f"{label} is empty (0 chars), maximum is {most}; say what the child needs to know")
    return wrong


def order_faults(state: State, call: PushFrame, fields: Collection[str]) -> list[str]:
    """Return the faults of a frame's texts, and of the chunks that they mention."""
    return _text_faults(asdict(call), state.begun.budgets, fields) + _typos(state, call)


def missing_chunks(state: State, call: PushFrame) -> tuple[str, ...]:
    """Return the names of chunks that the texts mention and that neither exist nor are stored by the push."""
    names = state.heap.chunks.keys() | {entry.name for entry in call.store}
    return tuple(name for name in pointers(call.objective, call.context) if name not in names)


def pointers(objective: str, context: str) -> list[str]:
    """Return the chunk names that the two texts mention, in order and without duplicates."""
    return list(dict.fromkeys(match[1] for match in _POINTER.findall(f"{objective}\n{context}")))


def _typos(state: State, call: PushFrame) -> list[str]:
    budgets = state.begun.budgets
    if len(call.objective) > budgets.intent_chars or len(call.context) > budgets.context_chars:
        return []  # the texts must change anyway, and they could contain any number of pointers
    names = list(dict.fromkeys([*state.heap.chunks, *(entry.name for entry in call.store)]))
    wrong = []
    for name in pointers(call.objective, call.context):
        nearby = [] if name in names else names[: 2 * budgets.heap_chunks]
        near = [other for other in nearby if edit_distance(name, other[:80], 2) <= 2]
        if near:
            wrong.append(f"heap {name!r} does not exist; did you mean {', '.join(map(repr, near[:3]))}?")
    return wrong


def source_obstacle(
    state: State, tool: str, entries: tuple[StoreEntry, ...], pending: Pending
) -> DigestSources | Refusal | None:
    """Return what must happen before ``entries`` are stored: take digests first, or refuse because of them."""
    if not any(entry.source for entry in entries):
        return None
    if pending.digests is None:
        return DigestSources(sources_with(state.heap, entries))
    wrong = source_faults(entries, pending.digests)
    return Refusal("bad_source", f"{tool} refused: " + "; ".join(wrong)) if wrong else None


def pop(state: State, call: PopCall, pending: Pending) -> FramePopped | Effect | Refusal:
    """Return the end of the frame, what must happen before it, or the refusal."""
    budgets = state.begun.budgets
    frame = state.running
    most = programs.result_chars(frame, budgets)
    store, tool = entries_of(call), tool_name(call)
    wrong = []
    if len(call.result) > most:
        wrong.append(f"result is {len(call.result)} chars, maximum is {most}; shorten it and point to where data is")
    elif not call.result.strip():
        wrong.append(f"result is empty (0 chars), maximum is {most}; report what was done, how verified, what is open")
    elif fault := copied_result(state, call) or premature_end(state):
        wrong.append(fault)
    wrong += faults(state.heap, store, budgets)
    if wrong:
        return Refusal("pop_refused", f"{tool} refused: " + "; ".join(wrong))
    misfit = programs.refuse_misfit(frame, call.result)
    if misfit is not None:
        return misfit
    obstacle = checkpoints.answer(state, call) or source_obstacle(state, tool, store, pending)
    if obstacle is not None:
        return obstacle
    if frame.verify and pending.verified is None:
        return Verify(frame.verify, sources_with(state.heap, store))
    verified = pending.verified.outcome if pending.verified else ""
    return FramePopped(
        frame.id,
        call.result,
        verified=verified,
        stored=tuple(entry.name for entry in store),
        checkpoint=checkpoints.effect(state, call),
    )


def forced_pop(state: State, code: str) -> FramePopped:
    """End a frame that does not end itself. The text of its last reply becomes its result."""
    frame = state.running
    most = programs.result_chars(frame, state.begun.budgets)
    words = mark_cut(last_words(frame), most) or "(it left no text)"
    return FramePopped(frame.id, words, forced=code, verified=NOT_VERIFIED if frame.verify else "")


def last_words(frame: Frame) -> str:
    """Return the text of the frame's last reply, or an empty string."""
    for turn in reversed(frame.turns):
        if isinstance(turn, Reply):
            return "\n".join(part.text for part in turn.parts if isinstance(part, Text)).strip()
    return ""


def partial_result(state: State) -> str:
    """Describe what a run that stops early has achieved: for each open frame its children's results and its last
    text.
    """
    lines = []
    for frame in state.stack:
        own = [f"- {done.frame.name}: {done.result}" for done in state.popped if done.frame.parent == frame.id]
        words = last_words(frame)
        lines += [f"frame {frame.name!r} is open", *own, *([f"its last words: {words}"] if words else [])]
    return clip_chars("\n".join(lines), state.begun.budgets.root_result_chars)


def entries_of(call: Call | None) -> tuple[StoreEntry, ...]:
    """Return the chunks that a push or a pop stores."""
    return call.store if isinstance(call, PushFrame | PushFrames | PopFrame) else ()


def open_child(state: State, event: FramePushed, heap: Heap) -> State:
    """Return the state with the child running. ``heap`` includes what the push stored."""
    call = state.pending.call if state.pending else None
    if state.pending is None or not isinstance(call, PushFrame | StartCall):
        return state
    if isinstance(call, Branch):  # its prompt continues the parent's
        chars = int(state.running.context_tokens * 2.5) + len(event.context)
    else:
        texts = (event.intent, event.return_spec, event.context)
        index_chars = 0 if isinstance(call, Delegate) else len(index(heap, state.begun.budgets))
        chars = standing_chars(state.begun) + sum(map(len, texts)) + index_chars
    words = state.session.standing if state.session is not None else ()
    words_text = "" if isinstance(call, Branch) else block(words)
    child = Frame(
        id=event.frame,
        name=event.name,
        depth=state.running.depth + 1,
        registers=Registers(event.intent, event.return_spec, event.constraint),
        context=event.context,
        opened=heap,
        turns=Log(),
        verify=call.verify.strip() if isinstance(call, PushFrame) else "",
        missing=event.missing,
        call_id=state.pending.calls[0].id,
        parent=state.running.id,
        pushed_at=state.running.pushed_at,
        model=state.running.model,
        window_tokens=state.running.window_tokens,
        started_step=state.step,
        started_tokens=state.usage.total,
        started_seconds=state.seconds,
        opened_chars=chars + len(words_text),
        chars=chars + len(words_text),
        standing=words_text,
        standing_seen=state.running.standing_seen if isinstance(call, Branch) else len(words),
        standing_step=state.step,
    )
    return replace(state, stack=(*state.stack, child), pushes=state.pushes + 1, heap=heap, pending=None, idle=0)


def close_running(state: State, event: FramePopped, heap: Heap) -> State:
    """Return the state with the parent running again and its call answered. ``heap`` includes what the pop stored."""
    frame = state.running
    if frame.program and not frame.call_id:
        return programs.close_frame(replace(state, heap=heap), event)
    done = PoppedFrame(frame, event.result, state.step, event.forced, event.verified)
    after = replace(
        state, stack=state.stack[:-1], popped=state.popped.append(done), heap=heap, pending=None, failures=(), idle=0,
        program=frame.caller if frame.program else state.program,
    )  # fmt: skip
    if not after.stack or frame.request:
        return replace(after, result=event.result)
    tested = state.pending.verified if state.pending else None
    text = _report(after, frame, event, tested.text if tested else "")
    return tell(after, Result(frame.call_id, text, bool(event.forced), heap, state.step))


def _report(state: State, frame: Frame, event: FramePopped, tested: str) -> str:
    subject = f"{'program' if frame.program else _word(state)} {frame.name!r}"
    text = f"{subject} returned:\n{event.result}"
    if event.forced:
        text = f"{subject} was popped by the harness (forced: {event.forced}); its last words:\n{event.result}"
    if event.verified == NOT_VERIFIED:
        text += f"\n[{NOT_VERIFIED}]"
    elif event.verified:
        text += f"\n[verified: {event.verified}]" + (f"\n{tail(tested, 10, 1_000)}" if tested else "")
    if event.stored:
        text += f"\n[stored on the heap: {', '.join(event.stored)}]"
    return text + ended_with(state.jobs, frame.id)


def _word(state: State) -> str:
    """Return the model's word for a child, according to the tool that starts one."""
    words = {tool_name(Delegate): "sub-agent", tool_name(Branch): "branch"}
    return next((words[tool.name] for tool in state.begun.tools if tool.name in words), "frame")


def tell(state: State, turn: Turn) -> State:
    """Return the state with ``turn`` added to the running frame's conversation."""
    return replace(state, stack=(*state.stack[:-1], with_turn(state.running, turn)))


def with_turn(frame: Frame, turn: Turn) -> Frame:
    """Return the frame with ``turn`` added to its conversation."""
    added = len(turn.text) + image_chars(turn.images) if isinstance(turn, _TextTurn) else 0
    return replace(frame, turns=frame.turns.append(turn), chars=frame.chars + added)
