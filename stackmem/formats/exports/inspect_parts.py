"""Messages, replies, calls and scores as ``inspect_ai`` has them; a message of ours becomes one of theirs once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from stackmem.core.facts import CallRejected, FramePopped, ModelReplied, Stop
from stackmem.core.heap import Heap
from stackmem.core.messages import Message, Part, Text, Thinking, ToolCall, ToolResult, ToolSpec, Usage, View
from stackmem.core.state import State

from .slices import CallSlice
from .spelling import arguments

if TYPE_CHECKING:
    from inspect_ai.event import StoreEvent, ToolEvent
    from inspect_ai.model import ChatMessage, ChatMessageAssistant, ModelOutput, ModelUsage, StopReason
    from inspect_ai.scorer import Score
    from inspect_ai.tool import ToolInfo

_STOPS: dict[Stop, StopReason] = {
    "call": "tool_calls", "end": "stop", "truncated": "max_tokens", "refused": "content_filter",
    "window": "model_length", "paused": "unknown",
}  # fmt: skip


class InspectParts:
    """Makes their values of ours.

    Attributes:
        asked: The messages of the last prompt.
    """

    def __init__(self) -> None:
        self.asked: list[ChatMessage] = []
        self._known: dict[int, tuple[Message, list[ChatMessage]]] = {}
        self._tools: dict[tuple[ToolSpec, ...], list[ToolInfo]] = {}
        self._systems: dict[str, ChatMessage] = {}
        self._replies = 0

    def messages(self, view: View) -> list[ChatMessage]:
        """A prompt; prompts of a frame share what they have in common."""
        from inspect_ai.model import ChatMessageSystem

        found: list[ChatMessage] = []
        if view.system:
            if view.system not in self._systems:
                self._systems[view.system] = ChatMessageSystem(content=view.system, id=f"system-{len(self._systems)}")
            found.append(self._systems[view.system])
        for message in view.messages:
            if id(message) not in self._known:
                self._known[id(message)] = (message, self._message(message, f"message-{len(self._known)}"))
            found += self._known[id(message)][1]
        self.asked = found
        return found

    def _message(self, message: Message, name: str) -> list[ChatMessage]:
        from inspect_ai.model import ChatMessageTool, ChatMessageUser
        from inspect_ai.tool import ToolCallError

        if message.role == "assistant":
            return [self._assistant(message.parts, name)]
        found: list[ChatMessage] = []
        for place, part in enumerate(message.parts):
            if isinstance(part, ToolResult):
                error = ToolCallError("unknown", part.text) if part.failed else None
                result = ChatMessageTool(
                    content=part.text, tool_call_id=part.call_id, error=error, id=f"{name}-{place}"
                )
                found.append(result)
        said = "\n\n".join(part.text for part in message.parts if isinstance(part, Text))
        return [*found, ChatMessageUser(content=said, id=name)] if said or not found else found

    def _assistant(self, parts: tuple[Part, ...], name: str) -> ChatMessageAssistant:
        from inspect_ai.model import ChatMessageAssistant, Content, ContentReasoning, ContentText

        content: list[Content] = []
        for part in parts:
            if isinstance(part, Thinking):
                shown = part.raw.get("thinking")
                content.append(ContentReasoning(reasoning=shown if isinstance(shown, str) else "", redacted=not shown))
            elif isinstance(part, Text):
                content.append(ContentText(text=part.text))
        calls = [
            self._call(part, f"{name}-call-{place}") for place, part in enumerate(parts) if isinstance(part, ToolCall)
        ]
        return ChatMessageAssistant(content=content, tool_calls=calls or None, id=name)

    def _call(self, call: ToolCall, fallback: str) -> Any:
        from inspect_ai.tool import ToolCall as TheirCall

        return TheirCall(
            id=call.id or fallback, function=call.name, arguments=arguments(call),
            parse_error=None if call.malformed is None else "the arguments are no JSON object",
        )  # fmt: skip

    def tools(self, tools: tuple[ToolSpec, ...]) -> list[ToolInfo]:
        from inspect_ai.tool import ToolInfo, ToolParams
        from pydantic import ValidationError

        if tools not in self._tools:
            found = []
            for tool in tools:
                try:
                    parameters = ToolParams.model_validate(msgspec.json.decode(tool.schema or "{}"))
                except (ValidationError, msgspec.DecodeError):  # another agent's, in words of its own
                    parameters = ToolParams()
                found.append(ToolInfo(name=tool.name, description=tool.description, parameters=parameters))
            self._tools[tools] = found
        return self._tools[tools]

    def output(self, event: ModelReplied, model: str, usd: float | None, seconds: float) -> ModelOutput:
        from inspect_ai.model import ChatCompletionChoice, ModelOutput

        self._replies += 1
        message = self._assistant(event.parts, f"reply-{self._replies}")
        message.source = "generate"
        choice = ChatCompletionChoice(message=message, stop_reason=_STOPS[event.stop])
        return ModelOutput(model=model, choices=[choice], usage=self.usage(event.usage, usd), time=seconds)

    def usage(self, usage: Usage, usd: float | None) -> ModelUsage:
        from inspect_ai.model import ModelUsage

        return ModelUsage(
            input_tokens=usage.uncached, output_tokens=usage.output, total_tokens=usage.total,
            input_tokens_cache_read=usage.cache_read, total_cost=usd,
            input_tokens_cache_write=usage.cache_write_5m + usage.cache_write_1h,
        )  # fmt: skip

    def called(self, piece: CallSlice, when: dict[str, Any]) -> ToolEvent:
        from inspect_ai.event import ToolEvent
        from inspect_ai.tool import ToolCallError

        popped = next((fact.result for fact in piece.facts if isinstance(fact, FramePopped)), "")
        text = piece.result.text if piece.result is not None else popped
        failed = piece.result is not None and piece.result.failed
        refused = next((fact.code for fact in piece.facts if isinstance(fact, CallRejected)), "")
        return ToolEvent(
            id=piece.id, span_id=piece.frame.id, function=piece.call.name, arguments=arguments(piece.call),
            result=text, error=ToolCallError("approval" if refused else "unknown", text) if failed else None,
            failed=failed or None, agent_span_id=piece.opened or None,
            metadata={"step": piece.step, "refused": refused, "answered": piece.result is not None},
            working_time=piece.ended - piece.started, **when,
        )  # fmt: skip

    def store(self, frame: str, before: Heap, after: Heap, when: dict[str, Any]) -> StoreEvent:
        """What became of the heap, as changes of the sample's store."""
        from inspect_ai.event import StoreEvent

        changes: list[dict[str, str]] = []
        for name in {**before.chunks, **after.chunks}:
            old, new = before.chunks.get(name), after.chunks.get(name)
            path = f"/heap/{name.replace('~', '~0').replace('/', '~1')}"
            if new is None:
                changes.append({"op": "remove", "path": path})
            elif old is None or old.content != new.content:
                changes.append({"op": "replace" if old else "add", "path": path, "value": new.content})
        return StoreEvent.model_validate({"span_id": frame, "changes": changes, **when})

    def scores(self, state: State) -> dict[str, Score] | None:
        from inspect_ai.scorer import Score

        if state.checks is None:
            return None
        solved = Score(
            value="C" if state.solved else "I", answer=state.result,
            explanation=state.checks.error or state.checks.text, metadata={"rewards": state.checks.rewards},
        )  # fmt: skip
        return {"checks": solved}
