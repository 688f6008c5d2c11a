"""A language with one line per step and a real generator, for tests of the program interface."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

from stackmem.core.errors import Halted, UsageError
from stackmem.core.program_facts import PhaseEnded, StepEntered
from stackmem.core.requests import AskUser, InvokeTool, LoadSource, Wait
from stackmem.languages.frame.values import digest_of, step_left, variable_set
from stackmem.languages.language import INTERPRETERS, MODULES, Finding, Language, Launch, Reading
from stackmem.languages.operations import (
    ChunkAnswer,
    Complete,
    Completion,
    DropChunk,
    EnterFrame,
    FrameAnswer,
    Group,
    KeepChunk,
    LeaveFrame,
    ListChunks,
    Operation,
    Program,
    ReadChunk,
    RunFrame,
    Say,
    Source,
    ToolAnswer,
    prompt,
)

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def start(launch: Launch) -> Program:
    known = {"who"}
    if launch.inputs.keys() - known:
        raise UsageError(f"no input {sorted(launch.inputs.keys() - known)}; known: who")
    scope: dict[str, Any] = dict(launch.inputs)
    for number, line in enumerate(launch.text.splitlines(), 1):
        if not line.strip():
            continue
        path = f"line {number}"
        yield StepEntered(path, line)
        value = yield from _step(line.replace("$here", launch.module_path), scope, path)
        scope["it"] = value
        yield variable_set("it", value)
        yield step_left(path, value)
    yield PhaseEnded("main", {name: digest_of(value) for name, value in scope.items()})
    return scope.get("it")


def _step(line: str, scope: dict[str, Any], path: str) -> Generator[Any, Any, Any]:
    word, _, rest = line.partition(" ")
    if word == "repeat":
        total = 0
        for item in range(int(rest)):
            yield StepEntered(f"{path}/{item}", "add")
            total += item
            yield variable_set("item", item)
            yield step_left(f"{path}/{item}", total)
        return total
    if word == "halt":
        raise Halted("Told To", f"HALTED\n{rest}", path)
    if word == "both":
        return [_value(answer, path) for answer in (yield Group(tuple(_effect(each) for each in rest.split(" & "))))]
    if word == "tolerate":
        answer = yield _effect(rest)
        return [getattr(answer, "failed", ""), getattr(answer, "detail", "")]
    spelled = line.replace("$it", str(scope.get("it"))).replace("$who", str(scope.get("who")))
    return _value((yield _effect(spelled)), path)


def _effect(line: str) -> Any:
    word, _, rest = line.partition(" ")
    name, _, more = rest.partition(" ")
    effects: dict[str, Operation] = {
        "shell": InvokeTool("shell", {"command": rest}),
        "read": InvokeTool("read_file", {"path": rest}),
        "write": InvokeTool("write_file", {"path": name, "content": more, "parents": True}),
        "list": InvokeTool("list_files", {"path": rest or "."}),
        "ask": Complete(prompt(rest), name="asked"),
        "ask_by": Complete(prompt(more), name="asked", model=name),
        "frame_by": RunFrame("work", more, model=name),
        "ask_json": Complete(prompt(rest), schema=NUMBER),
        "frame": RunFrame("work", rest, {"long": "x" * 20_001, "short": [1]}, "a number", NUMBER, ("be quick",)),
        "enter": EnterFrame(name, more),
        "leave": LeaveFrame(rest),
        "say": Say(rest),
        "user": AskUser(rest),
        "wait": Wait(0.01),
        "load": LoadSource(rest),
        "keep": KeepChunk(name, more, "kept"),
        "chunk": ReadChunk(rest),
        "drop": DropChunk(rest),
        "chunks": ListChunks(),
    }
    if word == "use":
        return InvokeTool(name, json.loads(more or "{}"))
    if word not in effects:
        raise Halted("Unknown Word", f"HALTED\n{word} is no step")
    return effects[word]


def _value(answer: Any, path: str) -> Any:
    match answer:
        case ToolAnswer() | Completion() | FrameAnswer() if answer.failed:
            raise Halted("Failed", f"{answer.failed}: {answer.detail}", path)
        case ToolAnswer():
            return answer.value
        case Completion() | FrameAnswer():
            said = answer.text if isinstance(answer, Completion) else answer.result
            return said if answer.value is None else answer.value
        case Source():
            return answer.text or answer.failed
        case ChunkAnswer():
            return answer.content or answer.failed
        case _:
            return answer


def outline(launch: Launch) -> Reading:
    if launch.inputs.keys() - {"who"}:
        raise UsageError("no such input; known: who")
    yield LoadSource("nothing.tiny")
    return "\n".join(launch.text.splitlines())


def lint(path: str, text: str) -> Reading:
    source: Source = yield LoadSource("beside.tiny", path)
    found = [
        Finding(path, number, 1, "error" if line == "bad" else "warning", "tiny/bad-line", f"{line!r} is bad")
        for number, line in enumerate(text.splitlines(), 1)
        if line.startswith("bad")
    ]
    return tuple(found) if source.failed else ()


def announcer() -> Any:
    return lambda happening: (f"step {happening.path}",) if isinstance(happening, StepEntered) else ()


LANGUAGE = Language("tiny", "lines", start, outline, lint, announcer)


def install() -> None:
    INTERPRETERS[".tiny"] = "tiny"
    MODULES["tiny"] = "tests.languages.tiny"


def remove() -> None:
    INTERPRETERS.pop(".tiny", None)
    MODULES.pop("tiny", None)
