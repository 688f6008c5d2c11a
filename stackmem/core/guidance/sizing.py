"""The rules for small models: memory tools offered late, shorter results and replies.

Rule 1: The list of tools never changes. Once half of the window is used, a notice announces the memory tools. Calls of
    them are accepted from then on; before, these tools do not exist.
Rule 2: A frame that begins after that reads the notice before its first request.
Rule 3: The first write to or edit of an existing file that the run has not touched shows the file instead, unless the
    first message contained it. Small models overwrite a file with only the new part in it, and edit guessed lines.

All of this follows from ``RunStarted.small``.
"""

from __future__ import annotations

from msgspec import UNSET, json

from stackmem.core import limits
from stackmem.core.budgets import SmallSize
from stackmem.core.facts import NoticeGiven
from stackmem.core.jobs.calls import JobCall
from stackmem.core.messages import ToolCall, ToolSpec
from stackmem.core.requests import UseTool
from stackmem.core.state import Frame, Reply, Result, State
from stackmem.core.tool_schemas import with_optional
from stackmem.core.tools import Call, EditFile, Refusal, Tool, WorkspaceCall, WriteFile, tool_name

TOLD_AT = 0.5
UNREAD = "was not changed, because you have not read it"
"""Part of the answer that shows a file instead of changing it."""
_CODE = "memory_tools"
_EXAMPLES = {
    "heap_alloc": {"name": "test_command", "content": "python3 -m pytest -q"},
    "push_frame": {
        "name": "parser", "objective": "Write parse() in parser.py and run its test.",
        "context": "The test is test_parser.py.", "return_spec": "What was changed, and the result of the test.",
    },
}  # fmt: skip


def offered(state: State, strategy_tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """Return the tools that may be called now: the strategy's, and the optional ones that the model knows."""
    start = state.begun
    small = start.small
    if small is UNSET or not small.later:
        return with_optional(strategy_tools, start.tools, start.registered)
    tools = with_optional(strategy_tools, (*start.tools, *announced_tools(state, small)), start.registered)
    if _is_announced(state):
        return tools
    held_back = {tool.name for tool in small.later}
    return tuple(tool for tool in tools if tool_name(tool) not in held_back)


def announced_tools(state: State, small: SmallSize) -> tuple[ToolSpec, ...]:
    """Return the tools that a notice has announced."""
    return small.later if _is_announced(state) else ()


def notice(state: State) -> NoticeGiven | None:
    """Return the notice that the running frame reads once: the memory tools and an example call."""
    small = state.begun.small
    if small is UNSET or not small.later:
        return None
    frame = state.running
    if _CODE in frame.told:
        return None
    half_used = frame.context_tokens >= TOLD_AT * state.window_tokens
    if not half_used and not any(_CODE in other.told for other in state.stack):
        return None
    names = {tool.name for tool in small.later}
    example = next((name for name in _EXAMPLES if name in names), "")
    example_call = json.encode({"name": example, "arguments": _EXAMPLES[example]}).decode() if example else ""
    begins = f"{TOLD_AT:.0%} of the model's window is used. These" if half_used else "Besides the others, these"
    lines = [f"{begins} tools keep facts and let you work on a part in a new conversation:"]
    lines += [f"- {tool.name}: {tool.description}" for tool in small.later]
    return NoticeGiven(_CODE, "\n".join([*lines, *([f"For example: {example_call}"] if example_call else [])]))


def reply_tokens(state: State, small: SmallSize) -> int:
    """Return the maximum length of a reply. It doubles after each reply that was cut off, so that the run can
    continue.
    """
    return small.reply_tokens << state.idle


def changes_unread(state: State, call: Call) -> bool:
    """Return whether a call would change a file that the open frames have neither read nor written."""
    small = state.begun.small
    if small is UNSET or not isinstance(call, WriteFile | EditFile):
        return False
    path = _plain(call.path)
    look = small.look
    if look is not UNSET and any(path == file.path for file in look.files):
        return False
    return not any(path in _seen_paths(frame) for frame in state.stack)


def _seen_paths(frame: Frame) -> set[str]:
    """Return the paths of the calls that succeeded or that were answered with the file."""
    call_ids = {
        turn.call_id for turn in frame.turns if isinstance(turn, Result) and (not turn.failed or UNREAD in turn.text)
    }
    calls = (part for turn in frame.turns if isinstance(turn, Reply) for part in turn.parts)
    return {
        _plain(path)
        for part in calls
        if isinstance(part, ToolCall) and part.id in call_ids and isinstance(part.arguments, dict)
        if isinstance(path := part.arguments.get("path"), str)
    }


def _plain(path: str) -> str:
    return path.removeprefix("./")


def _is_announced(state: State) -> bool:
    return any(_CODE in frame.told for frame in state.stack)


def use_tool(state: State, call: WorkspaceCall | JobCall) -> UseTool | Refusal:
    """Return the effect of a call in the workspace, or its refusal."""
    field, tool = call.behavior.bounded, tool_name(call)
    size = len(getattr(call, field).encode(errors="replace")) if field else 0
    if size and size > state.written_bytes:
        return Refusal(
            "too_large",
            f"{tool} refused: {field} is {size:,} bytes, maximum is {state.written_bytes:,}",
            f"write the first {state.written_bytes:,} bytes, then add the rest with run_command: cat >> FILE <<'EOF'",
        )
    unread, longest = changes_unread(state, call), limits.longest_command(state)
    return limits.refused_seconds(call) or UseTool(call, state.shown_bytes, state.heap.sources, unread, longest)
