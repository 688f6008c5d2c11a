"""Implements the tools of steps.

Built-ins and the deterministic tools of the standard library run as code. Every other tool is a frame of the agent that
returns one JSON value.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from stackmem.core.program_facts import StepEntered
from stackmem.core.requests import InvokeTool
from stackmem.core.strict_json import strict_value
from stackmem.languages.frame.values import brief, variable_set
from stackmem.languages.operations import FrameAnswer, RunFrame, Say, ToolAnswer

from ..frame.bounds import SECONDS
from .command_output import CommandOutput, storable
from .halts import Halt, bad_name, command_failed, file_failed, malformed_value, missing_parameter, tool_logic
from .registry import BUILT_INS, SPELLINGS, KnownTool
from .scope import Doing, Pointer, call_line, plain_output
from .tree import Output, ToolStep

_NOTHING = object()
_TAKES_ANY_INPUT = ("run_apl", "agent_native")
"""Tools whose ``with_inputs`` are the inputs of another program or of the agent."""


def set_vars(step: ToolStep, pointer: Pointer, path: str) -> Doing:
    if not step.variables:
        raise missing_parameter("set_vars", "vars")
    done: dict[str, Any] = {}
    for name, value in step.variables.items():
        if not name.isidentifier():
            raise bad_name(name)
        done[name] = pointer.scope.resolve(value)
        pointer.scope.set(name, done[name])
    yield StepEntered(path, call_line("set_vars", done))
    for name, value in done.items():
        yield variable_set(name, value)


def shell(step: ToolStep, pointer: Pointer, path: str) -> Doing:
    template = parameter(step, "command")
    if not isinstance(template, str):
        raise missing_parameter("shell", "command")
    command = pointer.scope.command(template)
    folder = pointer.scope.resolve(parameter(step, "working_directory"))
    env = {name: _env_text(pointer.scope.resolve(value)) for name, value in step.env.items()}
    arguments = {"command": command} | ({"working_directory": folder} if folder else {}) | ({"env": env} if env else {})
    answer = yield from _run(step, pointer, path, arguments)
    return _output(step, command, answer)


def _run(step: ToolStep, pointer: Pointer, path: str, arguments: dict[str, Any]) -> Doing:
    yield StepEntered(path, call_line(step.tool, arguments))
    answer: ToolAnswer = yield InvokeTool("shell", arguments, _seconds(step, pointer))
    return answer


def _output(step: ToolStep, command: str, answer: ToolAnswer) -> CommandOutput:
    """Build the output that later steps see. Halts if the command timed out or was killed."""
    if answer.failed not in ("", "exit"):
        raise command_failed(command, answer)
    value = answer.value if isinstance(answer.value, dict) else {}
    code = value.get("exit_code")
    return CommandOutput.of(
        str(value.get("stdout", "")), str(value.get("stderr", "")), code if isinstance(code, int) else -1,
        step.head.name, command,
    )  # fmt: skip


def failure(output: CommandOutput) -> Halt:
    """Build the halt for a failed command whose exit code no step reads."""
    return command_failed(output.command, ToolAnswer({"exit_code": output.exit_code, "stderr": output.stderr}, "exit"))


def read_file(step: ToolStep, pointer: Pointer, path: str) -> Doing:
    name = text_param(step, pointer, "read_file", "path")
    yield StepEntered(path, call_line("read_file", {"path": name}))
    return (yield from _use_file("read_file", InvokeTool("read_file", {"path": name})))


def _use_file(tool: str, operation: InvokeTool) -> Doing:
    answer: ToolAnswer = yield operation
    if answer.failed:
        raise file_failed(tool, operation.arguments["path"], answer)
    return answer.value


def write_file(step: ToolStep, pointer: Pointer, path: str) -> Doing:
    name = text_param(step, pointer, "write_file", "to_file")
    content = pointer.scope.resolve(parameter(step, "content_template"))
    if content is None:
        raise missing_parameter("write_file", "content_template")
    text = content if isinstance(content, str) else json.dumps(plain_output(content), ensure_ascii=False, indent=2)
    yield StepEntered(path, call_line("write_file", {"to_file": name, "characters": len(text)}))
    yield from _use_file("write_file", InvokeTool("write_file", {"path": name, "content": text}))


def create_directory(step: ToolStep, pointer: Pointer, path: str) -> Doing:
    name = text_param(step, pointer, "create_directory", "path")
    yield StepEntered(path, call_line("create_directory", {"path": name}))
    yield from _use_file("create_directory", InvokeTool("make_directory", {"path": name}))


def git_clone(step: ToolStep, pointer: Pointer, path: str) -> Doing:
    """Clone into ``workspace/NAME``. Returns ``{repo_local_path, cloned}``."""
    repository = text_param(step, pointer, "git_clone", "repo_path")
    folder = pointer.scope.resolve(parameter(step, "workspace")) or pointer.workspace
    name = posixpath.basename(repository.rstrip("/")).removesuffix(".git") or "repository"
    target = posixpath.join(str(folder), name)
    clone = f"git clone --quiet -- {shlex.quote(repository)} {shlex.quote(target)}"
    if _true(pointer.scope.resolve(parameter(step, "if_not_exists"))):
        clone = f"if [ -e {shlex.quote(target)} ]; then echo kept; else {clone}; fi"
    answer: ToolAnswer = yield from _run(step, pointer, path, {"command": clone})
    output = _output(step, clone, answer)
    if output.exit_code:
        raise failure(output)
    return {"repo_local_path": target, "cloned": output.stdout != "kept"}


def log(step: ToolStep, pointer: Pointer, path: str) -> Doing:
    message = pointer.scope.resolve(parameter(step, "message"))
    yield StepEntered(path, "log")
    if message is not None:
        yield Say(message if isinstance(message, str) else json.dumps(plain_output(message), ensure_ascii=False))
    if _true(pointer.scope.resolve(parameter(step, "dump_register"))):
        variables = {name: plain_output(value) for name, value in pointer.scope.variables.items()}
        yield Say(json.dumps(variables, ensure_ascii=False, indent=2, default=str))


def split(step: ToolStep, pointer: Pointer, path: str) -> Doing:
    source = pointer.scope.by_name(param(step, "split", "from"), literal=False)
    delimiter = pointer.scope.resolve(parameter(step, "delimiter", "\n"))
    if not isinstance(source, str) or not isinstance(delimiter, str) or not delimiter:
        odd = source if not isinstance(source, str) else delimiter
        kind = "an empty delimiter" if odd == "" else type(odd).__name__
        raise tool_logic("The 'split' tool takes a text and a delimiter.", f"Given: {kind}")
    yield StepEntered(path, call_line("split", {"from": source, "delimiter": delimiter}))
    parts = str.__str__(source).split(delimiter)
    return parts[:-1] if parts[-1] == "" else parts


def initialize_list(step: ToolStep, pointer: Pointer, path: str) -> Doing:
    name = pointer.scope.resolve(parameter(step, "name"))
    if name is not None and (not isinstance(name, str) or not name.isidentifier()):
        raise bad_name(repr(name))
    yield StepEntered(path, call_line("initialize_list", {"name": name}))
    if name:
        yield pointer.set(name, [])
    elif not step.register:
        raise missing_parameter("initialize_list", "name")
    return []


def append_to_list(step: ToolStep, pointer: Pointer, path: str) -> Doing:
    target = param(step, "append_to_list", "list")
    raw = parameter(step, "items", _NOTHING)
    if raw is _NOTHING:
        raise missing_parameter("append_to_list", "items")
    items = pointer.scope.by_name(raw, literal=True)
    is_variable = isinstance(target, str) and target.isidentifier()
    if is_variable:
        pointer.scope.refuse_constant(target)
    own = is_variable and target in pointer.scope.variables
    current = pointer.scope.variables[target] if own else pointer.scope.by_name(target, literal=False)
    if not isinstance(current, list):
        raise tool_logic("The 'append_to_list' tool takes a list.", f"`list` is {type(current).__name__}")
    yield StepEntered(path, call_line("append_to_list", {"list": target if is_variable else current, "items": items}))
    added = items if isinstance(items, list) else [items]
    if not is_variable:
        return [*current, *added]
    current.extend(added)  # safe to change in place, because no other variable shares the list; see ``Scope``
    yield pointer.set(target, current)
    return list(current) if step.register else current


CODE: dict[str, Callable[[ToolStep, Pointer, str], Doing]] = {
    "append_to_list": append_to_list,
    "create_directory": create_directory,
    "git_clone": git_clone,
    "initialize_list": initialize_list,
    "log": log,
    "read_file": read_file,
    "set_vars": set_vars,
    "shell": shell,
    "split": split,
    "write_file": write_file,
}


def parameter(step: ToolStep, name: str, default: Any = None) -> Any:
    """Return a parameter under any of its spellings, from the step itself or its ``with_inputs``."""
    places = (step.params,) if step.tool in _TAKES_ANY_INPUT else (step.inputs, step.params)
    built_in = next((each for each in BUILT_INS.get(step.tool, ()) if each.name == name), None)
    others = built_in.aliases if built_in else SPELLINGS.get((step.tool, name), ())
    for values in places:
        for spelling in (name, *others):
            if spelling in values:
                return values[spelling]
    return default


def param(step: ToolStep, tool: str, name: str) -> Any:
    value = parameter(step, name)
    if value is None:
        raise missing_parameter(tool, name)
    return value


def text_param(step: ToolStep, pointer: Pointer, tool: str, name: str) -> str:
    value = pointer.scope.resolve(param(step, tool, name))
    if not isinstance(value, str) or not value:
        raise tool_logic(f"The '{tool}' tool takes a text as `{name}`.", f"`{name}` is {type(value).__name__}")
    return str.__str__(value)


def checked_outputs(tool: str, declared: tuple[str, ...], scope: Mapping[str, Any]) -> dict[str, Any]:
    """Return the declared outputs of a custom tool.

    They are taken from its variables, or from a JSON object that one of its steps registered.
    """
    if all(name in scope for name in declared):
        return {name: scope[name] for name in declared}
    for register, value in scope.items():
        fields = _as_object(value)
        if fields is not None and all(name in fields for name in declared):
            return {**{name: fields[name] for name in declared}, register: fields}
    missing = ", ".join(name for name in declared if name not in scope)
    raise malformed_value(tool, f"its outputs are missing: {missing}")


def _as_object(value: Any) -> dict[str, Any] | None:
    parsed = value.json(None) if isinstance(value, CommandOutput) else value
    return parsed if isinstance(parsed, dict) else None


def _seconds(step: ToolStep, pointer: Pointer) -> float | None:
    timeout = pointer.scope.resolve(step.timeout_seconds)
    if timeout is None:
        return None
    try:
        seconds = float(timeout)
    except (TypeError, ValueError):
        seconds = 0.0
    if not 0 < seconds <= SECONDS:
        raise tool_logic("`timeout_seconds` is a number above 0, at most 3600.", f"Given: {timeout!r:.80}")
    return seconds


def _env_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str.__str__(value) if isinstance(value, str) else json.dumps(plain_output(value), ensure_ascii=False)


def _true(value: Any) -> bool:
    return value is True or (isinstance(value, str) and value.strip().lower() == "true")


_CANNOT = (
    'If it cannot be done, give {"error": "why it cannot", "details": "what you looked at"} instead; never invent a '
    "result."
)


def agent_native(step: ToolStep, pointer: Pointer, path: str) -> Doing:
    """Run the step's own prompt in a frame of the agent.

    Without ``outputs`` the result is parsed as JSON if possible, and is otherwise a text.
    """
    prompt = pointer.scope.resolve(parameter(step, "prompt"))
    if not isinstance(prompt, str) or not prompt.strip():
        raise missing_parameter("agent_native", "prompt")
    names = pointer.scope.resolve(parameter(step, "outputs")) or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise tool_logic("`outputs` is a list of names.", f"Given: {names!r:.80}")
    inputs = {name: plain_output(pointer.scope.resolve(value)) for name, value in step.inputs.items()}
    outputs = tuple(Output(name) for name in names)
    return (yield from _ask(step, pointer, path, prompt, inputs, outputs, typed=bool(names)))


def interface_only(tool: KnownTool, step: ToolStep, pointer: Pointer, path: str) -> Doing:
    """Run a tool that has a description but no body, in a frame of the agent."""
    params = {**step.params, **step.inputs}
    inputs = {}
    for each in tool.inputs:
        spelled = next((name for name in _spellings(tool, each.name) if name in params), None)
        if spelled is not None:
            raw = params[spelled]
            is_name = each.name in ("from", "by", "in", "list")
            value = pointer.scope.by_name(raw, literal=each.name == "by") if is_name else pointer.scope.resolve(raw)
            inputs[each.name] = plain_output(value)
        elif each.has_default:
            inputs[each.name] = pointer.scope.resolve(each.default)
        elif each.required:
            raise missing_parameter(tool.name, each.name)
    names = {name for each in tool.inputs for name in _spellings(tool, each.name)}
    inputs |= {name: plain_output(pointer.scope.resolve(value)) for name, value in params.items() if name not in names}
    task = f"{tool.description.strip() or tool.name}\n\nThis is the step {step.head.name!r}."
    value = yield from _ask(step, pointer, path, task, inputs, tool.outputs, typed=True, bare=not tool.source)
    if tool.name == "rank_items" and not tool.source and not isinstance(value, list):
        raise malformed_value(tool.name, "it gave no list")
    return value


def _spellings(tool: KnownTool, name: str) -> tuple[str, ...]:
    return (name, *SPELLINGS.get((tool.name, name), ()))


def _ask(
    step: ToolStep,
    pointer: Pointer,
    path: str,
    task: str,
    inputs: dict[str, Any],
    outputs: tuple[Output, ...],
    *,
    typed: bool,
    bare: bool = False,
) -> Doing:
    """Run a task in a frame of the agent and return its result.

    With ``bare``, a tool whose only output is ``result`` returns that value itself.
    """
    single = bare and len(outputs) == 1 and outputs[0].name == "result"
    hints = _hints(step, pointer)
    yield StepEntered(path, call_line(step.tool, inputs))
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


def _hints(step: ToolStep, pointer: Pointer) -> tuple[str, ...]:
    """Return the hints of ``using``. A single template may produce one text or the whole list."""
    hints = pointer.scope.resolve(list(step.using))
    if len(hints) == 1 and isinstance(hints[0], list):
        hints = hints[0]
    elif len(hints) == 1 and not isinstance(hints[0], str):
        raise tool_logic("`using` is a text or a list of texts.", f"Given: {brief(hints[0])}")
    return tuple(hint if isinstance(hint, str) else json.dumps(plain_output(hint)) for hint in hints)


def _value(tool: str, answer: FrameAnswer, *, typed: bool) -> Any:
    if answer.failed == "misfit":
        raise malformed_value(tool, answer.detail or "its result does not fit")
    if answer.failed:
        reason = f"The '{tool}' tool could not proceed because its frame ended early ({answer.failed})."
        raise tool_logic(reason, answer.detail or answer.result)
    try:
        return storable(answer.value) if typed else strict_value(answer.result, utf8=True)
    except (ValueError, RecursionError) as error:
        if typed:
            raise malformed_value(tool, "its result holds half a character or a number that is none") from error
        return answer.result


def _returns(outputs: tuple[Output, ...], *, single: bool, typed: bool) -> str:
    if not typed:
        return "One JSON value if the result is structured, else plain text."
    if single:
        description = outputs[0].description or "the result"
        return f"One JSON value and nothing else: {description}"
    lines = [
        f"- {output.name}: {output.description}" if output.description else f"- {output.name}" for output in outputs
    ]
    return "\n".join(["One JSON object and nothing else, with these members:", *lines])


def _schema(outputs: tuple[Output, ...], *, single: bool) -> dict[str, Any]:
    """Return the schema: any JSON for a single result, otherwise an object with every output or with an error."""
    if single or not outputs:
        return {}
    outputs_schema = {"type": "object", "required": [output.name for output in outputs]}
    return {"anyOf": [outputs_schema, {"type": "object", "required": ["error"]}]}


def _frame_name(step: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", step).strip("-")[:64] or "step"
