"""The system prompt of an agent: the same bytes for as long as the agent runs. A section that is off is absent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from stackmem.core.text import clip_chars

from . import prompt_sections as sections
from .definition import Action, Agent
from .prompt_params import PromptParams

_SLOT = re.compile(r"\{\{\s*(\w+)\s*\}\}")
SLOTS = (
    "agentName", "agentDescription", "parentAgentName", "subAgentCount", "actionCount", "subAgentDetails",
    "actionDetails", "_CURRENT_PAYLOAD",
)  # fmt: skip
_PAYLOAD_CHARS = 30_000


def system_prompt(
    agent: Agent, params: PromptParams, parent: str = "", described: dict[str, str] | None = None, given: Any = None
) -> str:
    """The prompt.

    Args:
        parent: The name of the agent that asks this one; empty at the top.
        described: Description of each sub-agent whose entry has none of its own.
        given: Template parameters, which the agent's own prompt may name.

    """
    parts = [*_contract(params), *_capabilities(agent, params, parent, described or {})]
    parts += _definition(agent, params, parent, given if isinstance(given, dict) else {})
    parts += _documents(params)
    return "\n\n".join(parts)


def _contract(params: PromptParams) -> Iterator[str]:
    yield "# Loop agent\nYou work in a loop towards your goal: each response is one decision, which is carried out."
    told = "Return ONLY one JSON object of the type `LoopAgentResponse`."
    yield f"# Response format\n{told}\n{sections.response_type(params)}"


def _capabilities(agent: Agent, params: PromptParams, parent: str, described: dict[str, str]) -> Iterator[str]:
    steps = "\n".join(_steps(agent, params, parent))
    yield (
        "# Each turn\nSee how far you are, then choose the next step (`nextStep.type`). "
        f"Stop only when the goal is reached, or cannot be reached.\n{steps}"
    )
    if parent:
        yield f"# Role: sub-agent\nParent: {parent}. Your result goes to the parent, not to the person."
    elif agent.sub_agents:
        yield f"# Role: top-level agent\nYou have {len(agent.sub_agents)} sub-agents. Hand on what fits them."
    if agent.sub_agents:
        yield _listed(
            f"## Sub-agents ({len(agent.sub_agents)})\nOne at a time. That one is done does not mean that you are.",
            [f"- **{sub.name}**: {described.get(sub.name, '')}".rstrip(": ") for sub in agent.sub_agents],
            params.most_sub_agents,
        )
    if agent.actions:
        yield _listed(
            f"## Actions ({len(agent.actions)})\nIndependent ones go into one response. A failed one may be tried "
            "again with other parameters, at most three times.",
            [_action(action) for action in agent.actions],
            params.most_actions,
        )


def _steps(agent: Agent, params: PromptParams, parent: str) -> Iterator[str]:
    if agent.actions:
        yield "- `Actions`: run one or more actions"
    if agent.sub_agents:
        yield "- `Sub-Agent`: ask a sub-agent"
    if params.types["forEach"]:
        yield "- `ForEach`: do one thing for every item of a list"
    if params.types["while"]:
        yield "- `While`: do one thing for as long as a condition holds"
    if parent:
        yield "- `Chat`: end here without a result; your parent reads `message`, such as what you need to know"
    else:
        yield "- `Chat`: say `message` to the person and wait for the reply"
    expand = "; with `messageIndex` a shortened result is shown whole" if params["includeMessageExpansionDocs"] else ""
    yield f"- `Retry`: think on in another turn{expand}"


def _listed(head: str, rows: list[str], most: int) -> str:
    shown = rows if most < 0 else rows[:most]
    left = len(rows) - len(shown)
    return "\n".join([head, *shown, *([f"({left} more, not described here)"] if left else [])])


def _action(action: Action) -> str:
    text = f"- **{action.name}**: {action.description}".rstrip(": ")
    if action.params:
        text += f"\n  params: {json.dumps(action.params, ensure_ascii=False, sort_keys=True)}"
    if action.min_runs:
        text += f"\n  it must run {action.min_runs} times before the task is complete"
    if action.max_runs is not None:
        text += f"\n  at most {action.max_runs} runs"
    return text


def _definition(agent: Agent, params: PromptParams, parent: str, given: dict[str, Any]) -> Iterator[str]:
    values = {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}
    told = (
        agent.name, agent.description, parent, str(len(agent.sub_agents)), str(len(agent.actions)), "(see Sub-agents)",
        "(see Actions)", "(see Current State)",
    )  # fmt: skip
    values |= dict(zip(SLOTS, told, strict=True))
    own = _SLOT.sub(lambda slot: values.get(slot[1], slot[0]), agent.prompt).strip()
    yield f"# Agent definition\nYour name is {agent.name}.\n{agent.description}".strip()
    yield f"## Specialization\n{own}"
    rules = ["- `taskComplete`: true only when the WHOLE request is fulfilled"]
    if params.types["payload"]:
        rules.append("- `payloadChangeRequest`: only what changes")
    if agent.allowed:
        rules.append(f"- Of the payload you may change {', '.join(map(str, agent.allowed))}, and nothing else")
    if agent.sub_agents:
        rules.append("- `terminateAfter`: usually false; look at a sub-agent's result before you end")
    if params["includeForEachDocs"] or params["includeWhileDocs"]:
        rules.append(sections.kept_for(agent.loop_result_turns, changes=params.types["payload"]))
    if not agent.sub_agents:
        rules.append("- There are no sub-agents")
    if not agent.actions:
        rules.append("- There are no actions")
    yield "## Key rules\n" + "\n".join(rules)


def _documents(params: PromptParams) -> Iterator[str]:
    loops = params["includeForEachDocs"] or params["includeWhileDocs"]
    if params["includeMessageExpansionDocs"]:
        yield sections.EXPANSION
    if loops:
        yield "## Loops\nFor many items, or for trying again, use a loop instead of many responses."
    if params["includeForEachDocs"]:
        yield sections.FOR_EACH
    if params["includeWhileDocs"]:
        yield sections.WHILE
    if params["includeVariableRefsDocs"]:
        yield sections.REFERENCES
    if params["includePayloadInPrompt"]:
        yield "## State\nThe payload is the state of your work. It stands at the end of each prompt."
    if params["includeResponseFormDocs"]:
        yield sections.FORMS
    if params["includeCommandDocs"]:
        yield sections.COMMANDS
    yield "# CRITICAL\nYour entire response is one JSON object: no fence, no comment, nothing before or after it."


def tail(payload: Any, params: PromptParams, loops: list[str]) -> str:
    """What stands at the end of one prompt and of no later one."""
    parts = list(loops)
    if params["includePayloadInPrompt"]:
        shown = clip_chars(json.dumps(payload, ensure_ascii=False, indent=1, default=str), _PAYLOAD_CHARS)
        parts.append(f"## Current State\n**Payload:**\n```json\n{shown}\n```")
    return "\n\n".join(parts)
