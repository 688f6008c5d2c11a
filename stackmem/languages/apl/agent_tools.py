"""The tools that need judgement: each is a frame of the agent's own, which gives one JSON value."""

from __future__ import annotations

import json
import re
from typing import Any

from stackmem.core.program_facts import StepEntered
from stackmem.core.strict_json import strict_value
from stackmem.languages.effects import FrameAnswer, RunFrame

from .code_tools import given
from .halts import malformed_value, missing_parameter, tool_logic
from .here import Doing, Here, said
from .nodes import Output, ToolStep
from .outputs import storable
from .registry import SPELLINGS, Known
from .scope import plain_output

_CANNOT = (
    'If it cannot be done, give {"error": "why it cannot", "details": "what you looked at"} instead; never invent a '
    "result."
)


def agent_native(step: ToolStep, here: Here, path: str) -> Doing:
    """``agent_native``: the step's own prompt; without ``outputs`` JSON if it is some, else the text."""
    prompt = here.scope.resolve(given(step, "prompt"))
    if not isinstance(prompt, str) or not prompt.strip():
        raise missing_parameter("agent_native", "prompt")
    names = here.scope.resolve(given(step, "outputs")) or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise tool_logic("`outputs` is a list of names.", f"Given: {names!r:.80}")
    inputs = {name: plain_output(here.scope.resolve(value)) for name, value in step.inputs.items()}
    outputs = tuple(Output(name) for name in names)
    return (yield from _ask(step, here, path, prompt, inputs, outputs, typed=bool(names)))


def interface_only(known: Known, step: ToolStep, here: Here, path: str) -> Doing:
    """A tool that has a description and no body."""
    params = {**step.params, **step.inputs}
    inputs = {}
    for each in known.inputs:
        spelled = next((name for name in _spellings(known, each.name) if name in params), None)
        if spelled is not None:
            raw = params[spelled]
            named = each.name in ("from", "by", "in", "list")
            value = here.scope.named(raw, literal=each.name == "by") if named else here.scope.resolve(raw)
            inputs[each.name] = plain_output(value)
        elif each.has_default:
            inputs[each.name] = here.scope.resolve(each.default)
        elif each.required:
            raise missing_parameter(known.name, each.name)
    taken = {name for each in known.inputs for name in _spellings(known, each.name)}
    inputs |= {name: plain_output(here.scope.resolve(value)) for name, value in params.items() if name not in taken}
    task = f"{known.description.strip() or known.name}\n\nThis is the step {step.head.name!r}."
    value = yield from _ask(step, here, path, task, inputs, known.outputs, typed=True, bare=not known.source)
    if known.name == "rank_items" and not known.source and not isinstance(value, list):
        raise malformed_value(known.name, "it gave no list")
    return value


def _spellings(known: Known, name: str) -> tuple[str, ...]:
    return (name, *SPELLINGS.get((known.name, name), ()))


def _ask(
    step: ToolStep,
    here: Here,
    path: str,
    task: str,
    inputs: dict[str, Any],
    outputs: tuple[Output, ...],
    *,
    typed: bool,
    bare: bool = False,
) -> Doing:
    """``bare``: a tool whose one output is ``result`` gives that value itself."""
    single = bare and len(outputs) == 1 and outputs[0].name == "result"
    using = here.scope.resolve(list(step.using))
    hints = tuple(hint if isinstance(hint, str) else json.dumps(plain_output(hint)) for hint in using)
    yield StepEntered(path, said(step.tool, inputs))
    answer: FrameAnswer = yield RunFrame(
        name=_frame_name(step.head.name),
        task=f"{task}\n\n{_CANNOT}",
        inputs=inputs,
        returns=_returns(outputs, single=single, typed=typed),
        schema=_schema(outputs, single=single) if typed else None,
        using=hints,
    )
    value = _value(step.tool, answer, typed=typed)
    if isinstance(value, dict) and "error" in value and not any(output.name == "error" for output in outputs):
        reason = f"The '{step.tool}' tool could not proceed because {str(value['error']).rstrip('.')}."
        raise tool_logic(reason, str(value.get("details", "")))
    if single:
        return value["result"] if isinstance(value, dict) and set(value) == {"result"} else value
    missing = [output.name for output in outputs if not isinstance(value, dict) or output.name not in value]
    if missing:
        raise malformed_value(step.tool, f"its outputs are missing: {', '.join(missing)}")
    return value


def _value(tool: str, answer: FrameAnswer, *, typed: bool) -> Any:
    if answer.failed == "misfit":
        raise malformed_value(tool, answer.detail or "its result does not fit")
    if answer.failed:
        reason = f"The '{tool}' tool could not proceed because its frame ended early ({answer.failed})."
        raise tool_logic(reason, answer.detail or answer.result)
    try:
        return storable(answer.value) if typed else strict_value(answer.result, whole=True)
    except (ValueError, RecursionError) as error:
        if typed:
            raise malformed_value(tool, "its result holds half a character or a number that is none") from error
        return answer.result


def _returns(outputs: tuple[Output, ...], *, single: bool, typed: bool) -> str:
    if not typed:
        return "One JSON value if the result is structured, else plain text."
    if single:
        about = outputs[0].description or "the result"
        return f"One JSON value and nothing else: {about}"
    lines = [
        f"- {output.name}: {output.description}" if output.description else f"- {output.name}" for output in outputs
    ]
    return "\n".join(["One JSON object and nothing else, with these members:", *lines])


def _schema(outputs: tuple[Output, ...], *, single: bool) -> dict[str, Any]:
    """Any JSON for a single result; else an object with every output, or with an error."""
    if single or not outputs:
        return {}
    wanted = {"type": "object", "required": [output.name for output in outputs]}
    return {"anyOf": [wanted, {"type": "object", "required": ["error"]}]}


def _frame_name(step: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", step).strip("-")[:64] or "step"
