"""The modes of a session, and its options: mode, model and strategy, which the editor shows as menus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stackmem.core.person_facts import Approve
from stackmem.doors.acp.editor_session import EditorSession
from stackmem.memory import STRATEGIES
from stackmem.models.catalog import rows
from stackmem.models.registry import unready

MODES: dict[Approve, tuple[str, str]] = {
    "never": ("Never ask", "Calls in the sandbox need no permission."),
    "writes": ("Ask for writes", "File changes need permission."),
    "commands": ("Ask for commands", "File changes and commands need permission."),
    "all": ("Ask for everything", "Every call in the workspace needs permission."),
}
PLAN = "plan"
_PREFIXES = {"anthropic": "anthropic/", "openai": "openai/", "google": "gemini/", "deepseek": "openai/"}


def modes(conversation: EditorSession) -> dict[str, Any]:
    """Return the modes, for editors without options."""
    available = [{"id": mode, "name": name, "description": says} for mode, (name, says) in MODES.items()]
    available.append({"id": PLAN, "name": "Plan", "description": "The agent only looks, and answers with a plan."})
    return {"currentModeId": _mode(conversation), "availableModes": available}


def config_options(conversation: EditorSession, environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the options with their current values."""
    mode = [(each["id"], each["name"], each["description"]) for each in modes(conversation)["availableModes"]]
    models = [(name, name, "") for name in model_names(conversation.models, environ)]
    strategies = [(name, name, "") for name in dict.fromkeys([conversation.strategy, *STRATEGIES])]
    return [
        _select("mode", "Mode", "Which calls need permission", _mode(conversation), mode),
        _select("model", "Model", "The model from the next prompt on", conversation.model, models),
        _select("strategy", "Strategy", "How the prompts are built", conversation.strategy, strategies),
    ]


def model_names(used: Iterable[str], environ: Mapping[str, str]) -> list[str]:
    """Return the models that the session used, and the models of the table whose provider has a key.

    The table names DeepSeek's models too, but only a server at another address has them.
    """
    ready = {prefix for prefix, problem in unready(environ).items() if not problem}
    ready_models = [
        row.name if row.provider == "anthropic" else f"{_PREFIXES[row.provider]}{row.name}"
        for row in rows()
        if row.provider != "deepseek" and _PREFIXES[row.provider] in ready
    ]
    return list(dict.fromkeys([*used, *ready_models]))


def _mode(conversation: EditorSession) -> str:
    return PLAN if conversation.planning else conversation.mode


def _select(option: str, name: str, says: str, current: str, values: list[tuple[str, str, str]]) -> dict[str, Any]:
    category = {"mode": "mode", "model": "model"}.get(option)
    choices = [
        {"value": value, "name": label, **({"description": text} if text else {})} for value, label, text in values
    ]
    return {
        "type": "select",
        "id": option,
        "name": name,
        "description": says,
        **({"category": category} if category else {}),
        "currentValue": current,
        "options": choices,
    }
