"""The flags that say which sections a prompt has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

RUNTIME = "__agentTypePromptParams"
_TYPES = {
    "payload": "includePayloadInPrompt", "responseForms": "includeResponseFormDocs", "commands": "includeCommandDocs",
    "forEach": "includeForEachDocs", "while": "includeWhileDocs",
}  # fmt: skip
_FLAGS = (
    "includeForEachDocs", "includeWhileDocs", "includeResponseFormDocs", "includeCommandDocs",
    "includeMessageExpansionDocs", "includeVariableRefsDocs", "includePayloadInPrompt", "crushActionResults",
)  # fmt: skip
_COUNTS = ("maxSubAgentsInPrompt", "maxActionsInPrompt")


class PromptParams(Struct, frozen=True):
    """All of them.

    Attributes:
        flags: Every flag by its name.
        types: Which parts the definition of a response has.
        most_sub_agents, most_actions: How many are described; -1 is all.

    """

    flags: dict[str, bool]
    types: dict[str, bool]
    most_sub_agents: int = -1
    most_actions: int = -1

    def __getitem__(self, flag: str) -> bool:
        return self.flags[flag]


def prompt_params(*layers: Any) -> PromptParams:
    """What holds when each layer overrides those before it; a flag is on unless it is ``false``.

    A part of the response's definition goes with the section that explains it, unless it is set by itself. The payload
    alone stays in it, since it can be changed without being shown.
    """
    given: dict[str, Any] = {}
    types: dict[str, Any] = {}
    for layer in layers:
        if isinstance(layer, dict):
            given.update(layer)
            own = layer.get("includeResponseTypeDefinition")
            types.update(own if isinstance(own, dict) else {} if own is None else dict.fromkeys(_TYPES, own))
    flags = {name: given.get(name) is not False for name in _FLAGS}
    aligned = {name: flags[flag] or name == "payload" for name, flag in _TYPES.items()}
    return PromptParams(
        flags,
        {name: types[name] is not False if name in types else aligned[name] for name in _TYPES},
        *(_most(given.get(name)) for name in _COUNTS),
    )


def _most(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else -1


def unknown_params(given: dict[str, Any]) -> Iterator[str]:
    """What is wrong with an agent's ``prompt_params``."""
    known = (*_FLAGS, *_COUNTS, "includeResponseTypeDefinition")
    for name, value in given.items():
        if name not in known:
            yield f"`prompt_params` has no `{name[:80]}`; known: {', '.join(known)}"
        elif name in _COUNTS and (isinstance(value, bool) or not isinstance(value, int) or value < -1):
            yield f"`{name}` of `prompt_params` is a whole number from -1 (all)"
        elif name in _FLAGS and not isinstance(value, bool):
            yield f"`{name}` of `prompt_params` is true or false"
    types = given.get("includeResponseTypeDefinition")
    if types is not None and not isinstance(types, bool):
        if not isinstance(types, dict):
            yield "`includeResponseTypeDefinition` of `prompt_params` is a mapping, or true or false"
            return
        for name, value in types.items():
            if name not in _TYPES or not isinstance(value, bool):
                yield f"`includeResponseTypeDefinition` takes {', '.join(_TYPES)}, each true or false"
