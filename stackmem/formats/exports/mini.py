"""The trajectory format 1.1 of mini-swe-agent: the whole run as one conversation, with frames one after the other.

A chat answers each call immediately. The answer to a push is therefore the name of the frame, and the frame's result
follows as a separate message.

Source: mini-swe-agent 2, "Output files".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from stackmem.core.facts import ContextCompacted, FramePopped, FramePushed, ModelReplied, RunStarted, ToolReturned
from stackmem.core.messages import ToolCall
from stackmem.core.state import Notice, Result, State
from stackmem.review.measure.moments import Moment
from stackmem.trace.record import Record

from .slices import added_usd, call_ids, new_texts, walk
from .spelling import (
    arguments,
    compact,
    mended_about,
    model_of,
    opening_text,
    prompt_text,
    reply_text,
    thinking_text,
    view_of,
)
from .stated import StatedRun

Json = dict[str, Any]

_STATUS = {"popped": "Submitted", "limit:steps": "LimitsExceeded", "limit:usd": "LimitsExceeded"}


def mini(records: Iterable[Record], run: str) -> Iterator[str]:
    """Yield one JSON object. Its cost is null if the price of the model is unknown.

    Raise TraceError if a record is broken, or the run's strategy is not installed.
    """
    messages: list[Json] = []
    open_calls: list[str] = []
    last: Moment | None = None
    for moment in walk(records):
        last = moment
        match moment.event:
            case RunStarted():
                messages.append(_message("system", view_of(moment.after).system, moment))
                messages.append(_message("user", _opening(moment.after), moment))
            case ModelReplied():
                if moment.view is not None:
                    prompt_parts = [("system", moment.view.system), ("user", prompt_text(moment.view))]
                    messages += [_message(role, text, moment) for role, text in prompt_parts if text]
                message, open_calls = _reply(moment, moment.event)
                messages.append(message)
            case FramePushed():
                message_text = f"frame {moment.event.frame} begins"
                messages += [_answer(message_text, call, moment) for call in open_calls[:1]]
                messages.append(_message("user", _opening(moment.after), moment))
                open_calls = []
            case FramePopped():
                messages += [_answer("the frame ends", call, moment) for call in open_calls[:1]]
                messages += [_message("user", turn.text, moment) for turn in new_texts(moment)]
                open_calls = []
            case ContextCompacted(up_to_step=step, text=text):
                message_text = f"The conversation up to step {step} was replaced by this summary:\n{text}"
                messages.append(_message("user", message_text, moment))
            case _:
                messages += _new_messages(moment, open_calls)
    if last is not None:
        messages.append(_exit(last))
        info = _info(last.after, StatedRun(records))
        yield compact({"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1.1"})
        yield "\n"


def _opening(state: State) -> str:
    return opening_text(view_of(state))


def _message(role: str, content: str, moment: Moment, **more: Any) -> Json:
    extra = {"timestamp": moment.at, "stackmem": {"seq": moment.seq, "frame": moment.frame.id}}
    return {"role": role, "content": content, "extra": extra, **more}


def _reply(moment: Moment, event: ModelReplied) -> tuple[Json, list[str]]:
    """Return the reply and the ids of its calls, which mini-swe-agent calls actions."""
    calls = [part for part in event.parts if isinstance(part, ToolCall)]
    names = call_ids(calls)
    message = _message("assistant", reply_text(event.parts), moment)
    extra, usage = message["extra"], event.usage
    extra["stackmem"] |= mended_about(event)
    extra["cost"] = added_usd(moment)
    extra["actions"] = [
        {"command": arguments(call).get("command", ""), "tool_call_id": name}
        for name, call in zip(names, calls, strict=True)
        if call.name == "run_command"
    ]
    extra["response"] = {
        "id": event.reply_id,
        "model": model_of(event, moment.before),
        "usage": {
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.output,
            "total_tokens": usage.total,
            "prompt_tokens_details": {"cached_tokens": usage.cache_read},
            "cache_read_input_tokens": usage.cache_read,
            "cache_creation_input_tokens": usage.cache_write_5m + usage.cache_write_1h,
        },
    }
    if calls:
        message["tool_calls"] = [
            {"id": name, "type": "function", "function": {"name": call.name, "arguments": compact(arguments(call))}}
            for name, call in zip(names, calls, strict=True)
        ]
    if thinking := thinking_text(event.parts):
        message["reasoning_content"] = thinking
    return message, names


def _answer(text: str, call: str, moment: Moment) -> Json:
    return _message("tool", text, moment, tool_call_id=call)


def _new_messages(moment: Moment, open_calls: list[str]) -> Iterator[Json]:
    """Yield results in the order of ``open_calls``, which it consumes, and notices as messages of the user."""
    for turn in new_texts(moment):
        match turn:
            case Notice():
                yield _message("user", turn.text, moment)
            case Result() if open_calls:
                message = _answer(turn.text, open_calls.pop(0), moment)
                if isinstance(moment.event, ToolReturned):
                    message["extra"] |= {"raw_output": turn.text, "returncode": moment.event.exit_code}
                yield message
            case Result():
                yield _message("user", turn.text, moment)


def _exit(last: Moment) -> Json:
    state = last.after
    result = state.end.result if state.end else ""
    message = _message("exit", result, last)
    message["extra"] |= {"exit_status": _status(state), "submission": result}
    return message


def _status(state: State) -> str:
    return _STATUS.get(state.end.ending, state.end.ending) if state.end else "running"


def _info(state: State, statements: StatedRun) -> Json:
    start = state.begun
    return {
        "model_stats": {"instance_cost": statements.usd(state), "api_calls": state.facts},
        "config": {
            "agent": {
                "system_template": start.system,
                "strategy": statements.strategy(start),
                "step_limit": state.limits.steps or 0,
            },
            "agent_type": "stackmem",
            "model": {"model_name": start.model},
            "model_type": "stackmem",
            "environment": {"cwd": start.workspace, "isolation": start.isolation, "network": start.network},
            "environment_type": "stackmem",
        },
        "mini_version": f"stackmem {start.version}",
        "exit_status": _status(state),
        "submission": state.end.result if state.end else "",
    }
