"""When hooks run, and what their decisions change.

Rule 1: Hooks run one after another. The first one that refuses decides, and the later ones do not run.
Rule 2: Before a call, hooks run once everything else allows it, and before the user is asked.
Rule 3: After a call or a request, hooks cannot refuse anything. Their words about a call reach the model.
Rule 4: The hooks are those that the run recorded at its start. A recorded outcome is never asked for again.
"""

from __future__ import annotations

from msgspec import UNSET, json
from msgspec.structs import replace

from ..facts import (
    CallAnswered,
    ChunkAllocated,
    ChunkFreed,
    ChunkRead,
    ChunkWritten,
    Event,
    FramePopped,
    FramePushed,
    ReplyNudged,
)
from ..frames import tell
from ..messages import ToolCall
from ..parallel.facts import FramesPushed
from ..person_facts import TurnEnded
from ..program_facts import ProgramCalled
from ..requests import AskPermission, AskUser, Effect, RunHook, UseOwnTool, UseTool
from ..state import Notice, Pending, State
from ..tools import Refusal
from .hook_facts import Hook, HookDue, HookEvent, HookRan
from .permissions import matches

_CALLED = (
    AskPermission, AskUser, UseTool, UseOwnTool, ProgramCalled, CallAnswered, ChunkAllocated, ChunkFreed, ChunkRead,
    ChunkWritten,
)  # fmt: skip


def hooks_of(state: State, event: HookEvent, tool: str = "") -> tuple[Hook, ...]:
    """Return the hooks for an event, in the order of the files."""
    hooks = () if state.begun.hooks is UNSET else state.begun.hooks
    return tuple(hook for hook in hooks if hook.event == event and _names(hook, tool))


def _names(hook: Hook, tool: str) -> bool:
    return not hook.tools or any(matches(pattern, tool) for pattern in hook.tools)


def guarded(state: State, pending: Pending, outcome: Event | Effect | Refusal) -> Event | Effect | Refusal:
    """Return what the hooks make of the outcome of a reply: a hook to run first, a refusal, or the outcome itself."""
    event = None if state.begun.hooks is UNSET else _event_before(pending, outcome)
    if event is None:
        return outcome
    call = pending.calls[0] if pending.calls else None
    hooks = hooks_of(state, event, call.name if call is not None else "")
    ran = pending.hooked
    stopped = next((each for each in ran if each.stops), None)
    if stopped is not None:
        return _refusal(stopped, call)
    if len(ran) >= len(hooks):
        return outcome
    return RunHook(hooks[len(ran)], _payload_before(state, event, call, outcome), state.heap.sources)


def _event_before(pending: Pending, outcome: Event | Effect | Refusal) -> HookEvent | None:
    match outcome:
        case FramePushed() | FramesPushed():
            return "before_push"
        case FramePopped(forced="") | TurnEnded(forced=""):
            return "before_pop"
        case _ if isinstance(outcome, _CALLED) and pending.calls:
            return "before_tool"
        case _:
            return None


def _refusal(ran: HookRan, call: ToolCall | None) -> Refusal | ReplyNudged:
    reason = ran.text or "it gave no reason"
    if call is None:
        return ReplyNudged("hook_refused", f"Your answer is not accepted: {ran.hook.name} refused it: {reason}")
    return Refusal("hook_refused", f"{call.name} refused by {ran.hook.name}: {reason}")


def _payload_before(state: State, event: HookEvent, call: ToolCall | None, outcome: Event | Effect | Refusal) -> str:
    """Return the input of the hooks before a call or before the end of a frame, as JSON."""
    payload: dict[str, object] = {"hook_event_name": event, "frame": state.running.name, "step": state.step}
    if call is not None:
        payload |= {"tool_name": call.name, "tool_input": call.arguments, "tool_use_id": call.id}
    if isinstance(outcome, FramePopped):
        payload |= {"result": outcome.result, "verified": outcome.verified}
    elif isinstance(outcome, TurnEnded):
        payload |= {"result": outcome.result}
    return json.encode(payload).decode()


def after_tool(before: State, after: State, text: str, *, failed: bool) -> State:
    """Return the state after a call was answered, with the hooks that now run."""
    if before.pending is None or not before.pending.calls:
        return after
    call = before.pending.calls[0]
    if not hooks_of(before, "after_tool", call.name):
        return after
    payload = {
        "hook_event_name": "after_tool", "frame": before.running.name, "step": before.step, "tool_name": call.name,
        "tool_input": call.arguments, "tool_use_id": call.id, "tool_response": {"text": text, "failed": failed},
    }  # fmt: skip
    return replace(after, due=HookDue("after_tool", call.name, json.encode(payload).decode()))


def after_request(after: State, event: FramePopped | TurnEnded) -> State:
    """Return the state after a request has its result, with the hooks that now run."""
    if after.begun.hooks is UNSET or not hooks_of(after, "after_request"):
        return after
    payload = {
        "hook_event_name": "after_request", "step": after.step, "result": event.result, "forced": event.forced,
        "usd": after.cost_usd, "tokens": after.usage.total,
    }  # fmt: skip
    return replace(after, due=HookDue("after_request", "", json.encode(payload).decode()))


def next_due(state: State, due: HookDue) -> RunHook:
    """Return the next hook that runs after a call or a request."""
    hooks = hooks_of(state, due.event, due.tool)
    return RunHook(hooks[due.done], due.given, state.heap.sources if state.stack else ())


def apply_hook(state: State, event: HookRan) -> State:
    """Return the state after a hook ran."""
    heap, due = state.heap.with_digests(event.digests), state.due
    after = replace(state, heap=heap, tree=event.tree or state.tree)
    if due is None:
        pending = state.pending
        return after if pending is None else replace(after, pending=replace(pending, hooked=(*pending.hooked, event)))
    more = due.done + 1 < len(hooks_of(state, due.event, due.tool))
    after = replace(after, due=replace(due, done=due.done + 1) if more else None)
    if due.event != "after_tool" or not event.text or (event.outcome == "failed" and not event.hook.required):
        return after
    words, pending = f"{event.hook.name} says about {due.tool}:\n{event.text}", after.pending
    if pending is not None and pending.together:  # nothing may come between the results of one reply
        return replace(after, pending=replace(pending, words=(*pending.words, words)))
    return tell(after, Notice(words, heap))


def listing(state: State) -> list[str]:
    """Return the hooks of a run, one line each, for the user."""
    hooks = () if state.begun.hooks is UNSET else state.begun.hooks
    return [spelled(hook) for hook in hooks] or ["no hooks"]


def spelled(hook: Hook) -> str:
    """Return a hook in one line."""
    tools = f" {', '.join(hook.tools)}" if hook.tools else ""
    location = "in the sandbox" if hook.sandbox else "outside of the sandbox"
    fails = "; a failure refuses" if hook.required else ""
    command = json.encode(hook.command).decode()
    return f"{hook.event}{tools}  {command}  ({hook.source}; {location}, at most {hook.seconds:g} s{fails})"
