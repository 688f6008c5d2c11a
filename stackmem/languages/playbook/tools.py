"""The built-in tools, and the calls that a reply queued, made in the order of the text."""

from __future__ import annotations

import re
from typing import Any

from stackmem.core.requests import AskUser, InvokeTool
from stackmem.core.text import clip_chars
from stackmem.languages import operations
from stackmem.languages.frame import artifacts as kept
from stackmem.languages.frame.values import as_text, variable_set
from stackmem.languages.operations import Routine, Say, ToolAnswer

from ..frame.bounds import VALUE_CHARS
from .calls import artifact_name, bind_arguments, find_target
from .inference import GivenCall
from .literals import CallTo, variables_in
from .reply_items import Queued
from .session_log import brief, call_text
from .state import (
    LARGE_CHARS,
    AgentState,
    CallFailure,
    PlaybookExecution,
    PlaybookFrame,
    PlaybookState,
    excess,
    resolve,
)

HUMAN = "human"
PERSON = (HUMAN, "user")
"""The names by which agents address the user."""
FRAME_CHARS = 300_000
"""Maximum number of characters loaded in one frame."""


def run_queue(here: PlaybookExecution, frame: PlaybookFrame, queue: list[Queued]) -> Routine:
    """Make the queued calls, and return the lines about them for the model."""
    lines: list[str] = []
    frame.returned = {}
    for queued in queue:
        value = yield from _make_call(here, frame, queued.call)
        text = call_text(queued.call, 60)
        if isinstance(value, CallFailure):
            line = f"{text} failed: {value.reason}"
            lines.append(f"what? {line}")
            here.agent.log.add("HIGH", f"what? {line}")
            continue
        if queued.spare:
            frame.extra_calls.append(GivenCall(queued.call, queued.into, has_returned=True, value=value))
        if queued.into:
            here.agent.set(queued.into, value)
            frame.returned[queued.into] = value
            yield variable_set(queued.into, value)
        lines += yield from _report_call(here, queued, value, text)
    return lines


def _report_call(here: PlaybookExecution, queued: Queued, value: Any, text: str) -> Routine:
    """Return the lines about a call that returned. A large result becomes an artifact."""
    name = queued.call.name
    if name == "LoadArtifact":
        return [f"Loaded Artifact[{value}]"]
    if name in ("Say", "SaveArtifact", "SendMessage"):
        return []
    large = len(as_text(value)) > LARGE_CHARS
    came = as_text(value) if not large else ""
    if large:
        here.world.results += 1
        artifact = f"{name.rpartition('.')[2]}_result_{here.world.results}"
        failed = yield from save(here.world, artifact, f"Result of {text}", value)
        came = (
            f"(could not be kept: {failed})" if failed else f"Artifact[{artifact}] ({len(as_text(value)):,} characters)"
        )
    line = f"{text} finished" if value is None else f"{text} returned {came}"
    line = f"{line}; it is ${queued.into}" if queued.into else line
    here.agent.log.add("MEDIUM", line, brief(line, 200), f"{name}() {'finished' if value is None else 'returned'}")
    return [line]


def _make_call(here: PlaybookExecution, frame: PlaybookFrame, call: CallTo) -> Routine:
    """Make a call, after the calls nested in its arguments. Returns its value or a ``CallFailure``."""
    target = find_target(here.world.program, here.agent.agent.name, call.name)
    bindings = bind_arguments(target, call) if target else "it is unknown"
    if target is None or isinstance(bindings, str):
        return CallFailure(str(bindings))
    if target.book is None and "artifact_name" in bindings:
        loading = target.name == "LoadArtifact"
        bindings["artifact_name"] = artifact_name(here.world, here.agent, bindings["artifact_name"], loading=loading)
    arguments: dict[str, Any] = {}
    for name, value in bindings.items():
        result = yield from _value(here, frame, value)
        if isinstance(result, CallFailure):
            return result
        if reason := excess(result):
            return CallFailure(reason)
        arguments[name] = result
    if target.book is None:
        return (yield from call_built_in(here, frame, target.name, arguments))
    return (yield from here.play(target.agent, target.book, arguments, here.world.source_location(frame)))


def _value(here: PlaybookExecution, frame: PlaybookFrame, value: Any) -> Routine:
    """Replace the variables and calls in a value by their results."""
    match value:
        case CallTo():
            result = yield from _make_call(here, frame, value)
            if not isinstance(result, CallFailure):
                line = f"{call_text(value, 60)} returned {brief(as_text(result), 200)}"
                here.agent.log.add("MEDIUM", line)
            return result
        case list():
            items = []
            for each in value:
                result = yield from _value(here, frame, each)
                if isinstance(result, CallFailure):
                    return result
                items.append(result)
            return items
        case dict():
            result = yield from _value(here, frame, list(value.values()))
            return result if isinstance(result, CallFailure) else dict(zip(value, result, strict=True))
    resolved = resolve(value, here.agent.variables)
    missing = variables_in(resolved)
    return CallFailure(f"${missing[0]} has no value, since the call that binds it failed") if missing else resolved


def call_built_in(here: PlaybookExecution, frame: PlaybookFrame, name: str, arguments: dict[str, Any]) -> Routine:
    """Call a built-in tool and return its value or a ``CallFailure``. Loading an artifact returns its name."""
    match name:
        case "Say":
            return (yield from _send(here, arguments.get("target_agent_id", HUMAN), as_text(arguments["message"])))
        case "SaveArtifact":
            failed = yield from save(
                here.world, arguments["artifact_name"], arguments["artifact_summary"], arguments["artifact_content"]
            )
            return CallFailure(failed) if failed else None
        case "LoadArtifact":
            text, failed = yield from load(here.world, here.agent, arguments["artifact_name"])
            if failed:
                return CallFailure(failed)
            name = arguments["artifact_name"]
            others = sum(len(content) for other, content in frame.loaded.items() if other != name)
            if others + len(text) > FRAME_CHARS:
                return CallFailure(
                    f"this frame has loaded {others:,} of at most {FRAME_CHARS:,} characters; return first"
                )
            frame.loaded.pop(name, None)
            frame.loaded[name] = text
            return name
        case operations.RUN_PROGRAM_TOOL:
            answer: ToolAnswer = yield InvokeTool(
                name, {"path": arguments["path"], "inputs": arguments["inputs"] or {}}
            )
            return CallFailure(answer.detail) if answer.failed else answer.value
        case "SendMessage":
            return (yield from _send(here, arguments["target_agent_id"], as_text(arguments["message"])))
        case _:
            return (yield from _receive(here, arguments["source_agent_id"]))


def _say(here: PlaybookExecution, message: Any) -> Routine:
    text, failed = yield from expand_artifacts(here.world, as_text(message))
    if failed:
        return CallFailure(failed)
    yield Say(text)
    return None


def _send(here: PlaybookExecution, target: Any, text: str) -> Routine:
    if target in PERSON:
        return (yield from _say(here, text))
    other = here.world.agents.get(target) if isinstance(target, str) else None
    if other is None:
        return CallFailure(f"unknown agent {as_text(target)[:80]!r}; known: {_agents(here)}")
    sender = here.agent.agent.name
    other.inbox.setdefault(sender, []).append(text)
    other.fired_triggers.clear()
    if here.world.snoop:
        yield Say(f"[{sender} to {target}] {text}")
    return None


def _receive(here: PlaybookExecution, source: Any) -> Routine:
    if source in PERSON:
        return (yield from ask_person(here, f"{here.agent.agent.name} waits for your message"))
    if not isinstance(source, str) or source not in here.world.agents:
        return CallFailure(f"unknown agent {as_text(source)[:80]!r}; known: {_agents(here)}")
    text = yield from here.wait(source)
    here.agent.fired_triggers.clear()
    here.agent.log.add("HIGH", f"Received message from {source}: {text}")
    return text


def wait_for(here: PlaybookExecution, target: str) -> Routine:
    """Wait for a message of an agent or the user, and return the line about it for the model."""
    name = target.removeprefix("agent").strip()
    if name in PERSON:
        return f"User said: {(yield from ask_person(here, f'{here.agent.agent.name} waits for your message'))}"
    if name in here.world.agents and name != here.agent.agent.name:
        return f"Received message from {name}: {(yield from _receive(here, name))}"
    return f"note: cannot wait for {target[:80]}, so the playbook continues; known: {_agents(here)}"


def _agents(here: PlaybookExecution) -> str:
    return ", ".join([HUMAN, *here.world.agents])


def ask_person(here: PlaybookExecution, question: str) -> Routine:
    """Ask the user and return the answer."""
    text = yield AskUser(question)
    here.agent.fired_triggers.clear()
    here.agent.log.add("HIGH", f"User said: {text}")
    return text


_ARTIFACT_MENTION = re.compile(r"Artifact\[([^\]\n]{1,200})\]")


def save(world: PlaybookState, name: Any, summary: Any, content: Any) -> Routine:
    """Store a text as an artifact. Returns what went wrong, or an empty text."""
    if not isinstance(name, str) or not name.strip():
        return "the name of an artifact must be a text"
    artifact: kept.Artifact = yield from kept.save(name.strip(), content, as_text(summary), world.artifacts)
    if not artifact.failed:
        world.artifacts[artifact.name] = artifact
    return artifact.failed


def load(world: PlaybookState, agent: AgentState, name: Any) -> Routine:
    """Return ``(text, failed)`` with the shown form of an artifact or of a large variable."""
    if isinstance(name, str) and name[:1] == "$" and name[1:] in agent.variables:
        return clip_chars(as_text(agent.variables[name[1:]]), kept.LOADED_CHARS), ""
    artifact = world.artifacts.get(name.strip()) if isinstance(name, str) else None
    if artifact is None:
        return "", _no_artifact(world, name)
    text, failed = yield from kept.load(artifact)
    return f"Summary: {artifact.summary}\n\nContent: {text}", failed


def read_whole(world: PlaybookState, agent: AgentState, name: Any) -> Routine:
    """Return ``(text, failed, summary)`` with the full text of an artifact or of a large variable."""
    if isinstance(name, str) and name[:1] == "$" and name[1:] in agent.variables:
        return as_text(agent.variables[name[1:]]), "", f"the variable {name}"
    artifact = world.artifacts.get(name.strip()) if isinstance(name, str) else None
    if artifact is None:
        return "", _no_artifact(world, name), ""
    text, failed = yield from kept.read(artifact)
    return text, failed, artifact.summary


def _no_artifact(world: PlaybookState, name: Any) -> str:
    names = ", ".join(world.artifacts) or "none"
    return f"unknown artifact {as_text(name)[:80]!r}; known: {names[:1000]}"


def expand_artifacts(world: PlaybookState, text: str) -> Routine:
    """Replace each ``Artifact[name]`` in a text by its content.

    Returns ``(text, failed)``. Each artifact is read once.
    """
    parts, at, room = [], 0, VALUE_CHARS
    read: dict[str, str] = {}
    for match in _ARTIFACT_MENTION.finditer(text):
        artifact = world.artifacts.get(match[1].strip())
        if artifact is None:
            return "", f"unknown artifact {match[1]!r}; save it before you show it"
        if artifact.name not in read:
            content, failed = yield from kept.read(artifact)
            read[artifact.name] = f"({match[0]}: {failed})" if failed else content
        parts += [text[at : match.start()], read[artifact.name]]
        at, room = match.end(), room - len(read[artifact.name])
        if room < 0:
            return "", f"the message with its artifacts has over {VALUE_CHARS:,} characters; show fewer"
    return "".join([*parts, text[at:]]), ""
