"""What a tool does and takes, for actions whose definition does not say so: no model should have to guess it."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from stackmem.core.messages import ToolSpec

from .definition import Action, Agent

_TEXT = {"type": "string"}


def _takes(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }


BUILT_IN: dict[str, tuple[str, dict[str, Any]]] = {
    "shell": (
        "Runs a command in the workspace; gives stdout, stderr and exit_code.",
        _takes({"command": _TEXT}, working_directory=_TEXT, env={"type": "object"}, timeout_seconds={"type": "number"}),
    ),
    "read_file": ("Gives the text of a file of the workspace.", _takes({"path": _TEXT})),
    "write_file": (
        "Writes a file of the workspace; parents: true makes its directories.",
        _takes({"path": _TEXT, "content": _TEXT}, parents={"type": "boolean"}),
    ),
    "list_files": ("Gives the paths of the workspace, or of one of its directories.", _takes({}, path=_TEXT)),
    "make_directory": ("Makes a directory in the workspace.", _takes({"path": _TEXT})),
}


def with_tools(agent: Agent, tools: tuple[ToolSpec, ...]) -> Agent:
    """The agent, inline ones in it too, with its tools' own words where an action has none."""
    own = {tool.name: (tool.description, json.loads(tool.schema)) for tool in tools}
    return _with(agent, {**BUILT_IN, **own})


def _with(agent: Agent, known: dict[str, tuple[str, dict[str, Any]]]) -> Agent:
    return replace(
        agent,
        actions=tuple(_told(action, known) for action in agent.actions),
        sub_agents=tuple(
            replace(sub, inline=_with(sub.inline, known)) if sub.inline else sub for sub in agent.sub_agents
        ),
    )


def _told(action: Action, known: dict[str, tuple[str, dict[str, Any]]]) -> Action:
    description, schema = known.get(action.tool, ("", {}))
    return replace(action, description=action.description or description, params=action.params or schema)
