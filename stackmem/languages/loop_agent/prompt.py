"""The system prompt of an agent. Its bytes stay the same while the agent runs.

Sections that are switched off are left out. This module contains first the flags that select sections, then the
sections, then their assembly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from stackmem.core.text import clip_chars

from .tree import Agent, AgentAction

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
    """All prompt parameters."""

    flags: dict[str, bool]  # every flag by name
    types: dict[str, bool]  # which parts the response's type definition has
    # how many sub-agents and actions are described; -1 for all
    most_sub_agents: int = -1
    most_actions: int = -1

    def __getitem__(self, flag: str) -> bool:
        return self.flags[flag]


def prompt_params(*layers: Any) -> PromptParams:
    """Combine parameters; each layer overrides the earlier ones. A flag is on unless it is ``false``.

    By default, a part of the response's type definition is included if the section that explains it is. The payload's
    part always is by default, because a payload can be changed without being shown.
    """
    merged: dict[str, Any] = {}
    types: dict[str, Any] = {}
    for layer in layers:
        if isinstance(layer, dict):
            merged.update(layer)
            own = layer.get("includeResponseTypeDefinition")
            types.update(own if isinstance(own, dict) else {} if own is None else dict.fromkeys(_TYPES, own))
    flags = {name: merged.get(name) is not False for name in _FLAGS}
    aligned = {name: flags[flag] or name == "payload" for name, flag in _TYPES.items()}
    return PromptParams(
        flags,
        {name: types[name] is not False if name in types else aligned[name] for name in _TYPES},
        *(_most(merged.get(name)) for name in _COUNTS),
    )


def _most(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else -1


def unknown_params(params: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with an agent's ``prompt_params``."""
    names = (*_FLAGS, *_COUNTS, "includeResponseTypeDefinition")
    for name, value in params.items():
        if name not in names:
            yield f"`prompt_params` has no `{name[:80]}`; known: {', '.join(names)}"
        elif name in _COUNTS and (isinstance(value, bool) or not isinstance(value, int) or value < -1):
            yield f"`{name}` of `prompt_params` is a whole number from -1 (all)"
        elif name in _FLAGS and not isinstance(value, bool):
            yield f"`{name}` of `prompt_params` is true or false"
    types = params.get("includeResponseTypeDefinition")
    if types is not None and not isinstance(types, bool):
        if not isinstance(types, dict):
            yield "`includeResponseTypeDefinition` of `prompt_params` is a mapping, or true or false"
            return
        for name, value in types.items():
            if name not in _TYPES or not isinstance(value, bool):
                yield f"`includeResponseTypeDefinition` takes {', '.join(_TYPES)}, each true or false"


PAYLOAD_TYPE = """interface AgentPayloadChangeRequest {
    /** New keys, or items to append to an existing list */
    newElements?: object;
    /** Values to change; objects merge, lists merge by position ({} keeps an item) */
    updateElements?: object;
    /** "__DELETE__" at each place to remove, in lists by position; null keeps the value */
    removeElements?: object;
    /** Keys whose whole value is replaced */
    replaceElements?: object;
    reasoning?: string;
}"""

FORM_TYPE = """interface AgentResponseForm {
    title?: string; description?: string; submitLabel?: string;
    questions: Array<{ id: string; label: string; required?: boolean; defaultValue?: unknown; helpText?: string;
        widthHint?: 'narrow' | 'medium' | 'wide' | 'full' | 'auto';
        type: { type: 'text' | 'textarea' | 'email'; placeholder?: string; maxLength?: number }
            | { type: 'number' | 'currency'; min?: number; max?: number; prefix?: string; suffix?: string }
            | { type: 'date' | 'datetime' | 'time' | 'daterange' }
            | { type: 'slider'; min: number; max: number; step?: number; suffix?: string }
            | { type: 'buttongroup' | 'radio' | 'dropdown' | 'checkbox';
                options: Array<{ value: string | number | boolean; label: string }>; multiple?: boolean } }>;
}"""

COMMAND_TYPES = """type ActionableCommand =
    | { type: 'open:resource'; label: string; resourceType: 'Record' | 'Dashboard' | 'Report' | 'Form' | 'View';
        entityName?: string; resourceId?: string; mode?: 'view' | 'edit' }
    | { type: 'open:url'; label: string; url: string }
    | { type: 'client:capture-data-snapshot'; label: string; artifactId?: string }
    | { type: 'compose:email'; label: string; to?: string; cc?: string; subject?: string; body?: string };
type AutomaticCommand =
    | { type: 'refresh:data'; scope: 'entity' | 'cache'; entityNames?: string[]; cacheName?: 'Core' | 'AI' | 'Actions' }
    | { type: 'notification'; message: string; severity?: 'success' | 'info' | 'warning' | 'error' };"""

_LOOP_TARGET = """    action?: { name: string; params: object; outputMapping?: string | object };
    subAgent?: { name: string; message: string; templateParameters?: object };"""

FOR_EACH_TYPE = f"""interface ForEachOperation {{
    /** Path of a list in the payload, or static:[...] */
    collectionPath: string;
    itemVariable?: string;  // "item"
    indexVariable?: string;  // "index"
    maxIterations?: number;  // 1000; 0 means none
    continueOnError?: boolean;
    delayBetweenIterationsMs?: number;
    executionMode?: 'sequential' | 'parallel';
    maxConcurrency?: number;  // 10
{_LOOP_TARGET}
}}"""

WHILE_TYPE = f"""interface WhileOperation {{
    /** Checked before each iteration; can use payload, results and errors */
    condition: string;
    itemVariable?: string;  // "attempt", with attemptNumber and totalAttempts
    maxIterations?: number;  // 100; 0 means none
    continueOnError?: boolean;
    delayBetweenIterationsMs?: number;
{_LOOP_TARGET}
}}"""

EXPANSION = """## Message expansion
A long result may be shortened later. It then contains `[Compacted: ...]` or `[AI Summary of ... chars ...]` and begins
with its number, such as `[#5]`. Request it only if you need the missing part:
```json
{"taskComplete": false, "nextStep": {"type": "Retry", "messageIndex": 5, "reason": "item 47 is needed"}}
```
The complete result is then shown once more."""

FOR_EACH = """### ForEach: one decision for a whole list
```json
{"nextStep": {"type": "ForEach", "forEach": {"collectionPath": "customers", "itemVariable": "customer",
  "action": {"name": "Send Mail", "params": {"to": "customer.email"}, "outputMapping": "customers[{{index}}].sent"}}}}
```
With `"executionMode": "parallel"` and `maxConcurrency`, independent iterations run in parallel, and each sees the
payload from before the loop. Keep it sequential if an iteration depends on an earlier one. Do not call an action once
per item yourself."""

WHILE = """### While: poll or retry
```json
{"nextStep": {"type": "While", "while": {"condition": "payload.status === 'pending'", "maxIterations": 20,
  "delayBetweenIterationsMs": 3000,
  "action": {"name": "Check", "params": {"attempt": "attempt.attemptNumber"}, "outputMapping": "status"}}}}
```
A condition compares (`=== !== < > && || !`), reads members, and calls `includes`, `some`, `every` and the like."""

REFERENCES = """### References in the parameters of a loop
`"item.field"` and `"payload.field"` become that value; a bare `"item"` is the whole item, `"index"` its number from 0,
`"attempt.attemptNumber"` counts a While. Within longer text write `{{item.field}}`. Anything else
stays as written."""

FORMS = """## Asking the user with a form
Use `responseForm` if you need input from the user. A choice:
```json
{"message": "Which one?", "responseForm": {"questions": [{"id": "pick", "label": "Which customer?", "type":
  {"type": "buttongroup", "options": [{"value": "a", "label": "Acme"}, {"value": "n", "label": "None"}]}}]}}
```
Several questions go into one form with a `title`; mark the answers that you need with `"required": true`."""

COMMANDS = """## Commands
The user sees `actionableCommands` as things to open or send; `automaticCommands` appear immediately.
```json
{"taskComplete": true, "message": "The report is ready.",
  "actionableCommands": [{"type": "open:url", "label": "Open it", "url": "https://example.com/report"}],
  "automaticCommands": [{"type": "notification", "message": "Done"}]}
```"""


def results_rule(turns: int, *, changes: bool) -> str:
    """Return the rule about how long loop results are shown. The engine uses the same number of turns."""
    duration = {0: "not shown at all", 1: "shown for ONE turn only"}.get(turns, f"shown for {turns} turns only")
    store = "you must store with `payloadChangeRequest` in your next response, or let `outputMapping` write it"
    if not changes:
        store = "`outputMapping` must write"
    return f"- The results of ForEach and While are {duration}. What you will need later {store}"


def response_type(params: PromptParams, *, several: bool) -> str:
    """Return the response's type definition. ``several``: the agent has more than one sub-agent."""
    types = {**params.types, "subAgents": several}
    steps = "'Actions' | 'Sub-Agent' | 'Chat' | 'Retry'"
    steps += (" | 'ForEach'" if types["forEach"] else "") + (" | 'While'" if types["while"] else "")
    rows = [
        ("", "    /** true ends the loop */\n    taskComplete?: boolean;"),
        ("", "    /** Plain text, under 100 words; required for Chat */\n    message?: string;"),
        ("responseForms", "    /** Asks the user */\n    responseForm?: AgentResponseForm;"),
        (
            "commands",
            "    actionableCommands?: ActionableCommand[];\n    automaticCommands?: AutomaticCommand[];",
        ),
        ("payload", "    /** Only what changes */\n    payloadChangeRequest?: AgentPayloadChangeRequest;"),
        ("", "    reasoning?: string;\n    /** 0.0 to 1.0 */\n    confidence?: number;"),
        ("", f"    /** Required unless taskComplete */\n    nextStep?: {{\n        type: {steps};"),
        ("", "        actions?: Array<{ name: string; params: object }>;"),
        ("", "        subAgent?: { name: string; message: string; terminateAfter?: boolean;"),
        ("", "            templateParameters?: object };"),
        ("subAgents", "        /** Independent ones, each like subAgent */\n        subAgents?: object[];"),
        (
            "",
            "        /** With Retry: the number of the result to show in full */\n        messageIndex?: number;",
        ),
        ("forEach", "        forEach?: ForEachOperation;"),
        ("while", "        while?: WhileOperation;"),
    ]
    body = "\n".join(text for part, text in rows if not part or types[part])
    parts = [f"interface LoopAgentResponse {{\n{body}\n    }};\n}}"]
    more = (
        ("payload", PAYLOAD_TYPE),
        ("responseForms", FORM_TYPE),
        ("commands", COMMAND_TYPES),
        ("forEach", FOR_EACH_TYPE),
        ("while", WHILE_TYPE),
    )
    parts += [text for part, text in more if types[part]]
    return "\n".join(f"```ts\n{part}\n```" for part in parts)


_SLOT = re.compile(r"\{\{\s*(\w+)\s*\}\}")
SLOTS = (
    "agentName", "agentDescription", "parentAgentName", "subAgentCount", "actionCount", "subAgentDetails",
    "actionDetails", "_CURRENT_PAYLOAD",
)  # fmt: skip
_PAYLOAD_CHARS = 30_000


def system_prompt(
    agent: Agent,
    params: PromptParams,
    parent: str = "",
    described: dict[str, str] | None = None,
    template_values: Any = None,
) -> str:
    """Build the system prompt.

    Args:
        parent: Name of the calling agent; empty at the top.
        described: Descriptions of the sub-agents whose entry has none.
        template_values: Template parameters, which the agent's own prompt may use.
    """
    parts = [*_contract(agent, params), *_capabilities(agent, params, parent, described or {})]
    parts += _definition(agent, params, parent, template_values if isinstance(template_values, dict) else {})
    parts += _documents(params)
    return "\n\n".join(parts)


def _contract(agent: Agent, params: PromptParams) -> Iterator[str]:
    yield "# Loop agent\nYou work in a loop towards your goal: each response is one decision, which is carried out."
    message = "Return ONLY one JSON object of the type `LoopAgentResponse`."
    yield f"# Response format\n{message}\n{response_type(params, several=len(agent.sub_agents) > 1)}"


def _capabilities(agent: Agent, params: PromptParams, parent: str, described: dict[str, str]) -> Iterator[str]:
    steps = "\n".join(_steps(agent, params, parent))
    yield (
        "# Each turn\nAssess the progress, then choose the next step (`nextStep.type`). "
        f"Stop only when the goal is reached or cannot be reached.\n{steps}"
    )
    if parent:
        yield f"# Role: sub-agent\nParent: {parent}. Your result goes to the parent, not to the user."
    elif agent.sub_agents:
        yield f"# Role: top-level agent\nYou have {len(agent.sub_agents)} sub-agents. Delegate the work that fits them."
    if agent.sub_agents:
        several = "Independent ones go into `subAgents` of one response; each sees the payload as it is now."
        at_once = "One at a time." if len(agent.sub_agents) == 1 else several
        yield _list_rows(
            f"## Sub-agents ({len(agent.sub_agents)})\n{at_once} You are not done just because one of them is.",
            [f"- **{sub.name}**: {described.get(sub.name, '')}".rstrip(": ") for sub in agent.sub_agents],
            params.most_sub_agents,
        )
    if agent.actions:
        yield _list_rows(
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
        yield "- `While`: do one thing while a condition is true"
    if parent:
        yield "- `Chat`: end here without a result; your parent reads `message`, such as what you need to know"
    else:
        yield "- `Chat`: send `message` to the user and wait for the reply"
    expand = (
        "; with `messageIndex`, you see a shortened result in full" if params["includeMessageExpansionDocs"] else ""
    )
    yield f"- `Retry`: continue thinking in another turn{expand}"


def _list_rows(head: str, rows: list[str], most: int) -> str:
    visible = rows if most < 0 else rows[:most]
    remaining = len(rows) - len(visible)
    return "\n".join([head, *visible, *([f"({remaining} more, not described here)"] if remaining else [])])


def _action(action: AgentAction) -> str:
    text = f"- **{action.name}**: {action.description}".rstrip(": ")
    if action.params:
        text += f"\n  params: {json.dumps(action.params, ensure_ascii=False, sort_keys=True)}"
    if action.min_runs:
        text += f"\n  it must run {action.min_runs} times before the task is complete"
    if action.max_runs is not None:
        text += f"\n  at most {action.max_runs} runs"
    return text


def _definition(agent: Agent, params: PromptParams, parent: str, slots: dict[str, Any]) -> Iterator[str]:
    values = {name: value if isinstance(value, str) else json.dumps(value) for name, value in slots.items()}
    texts = (
        agent.name, agent.description, parent, str(len(agent.sub_agents)), str(len(agent.actions)), "(see Sub-agents)",
        "(see Actions)", "(see Current State)",
    )  # fmt: skip
    values |= dict(zip(SLOTS, texts, strict=True))
    own = _SLOT.sub(lambda slot: values.get(slot[1], slot[0]), agent.prompt).strip()
    yield f"# Agent definition\nYour name is {agent.name}.\n{agent.description}".strip()
    yield f"## Specialization\n{own}"
    rules = ["- `taskComplete`: true only when the WHOLE request is fulfilled"]
    if params.types["payload"]:
        rules.append("- `payloadChangeRequest`: only what changes")
    if agent.allowed:
        exact = any(rule.steps[-1] not in ("*", "**") for rule in agent.allowed)
        exception = "; a path that does not end in `*` covers only the whole value" if exact else ""
        rules.append(f"- Of the payload you may change only {', '.join(map(str, agent.allowed))}{exception}")
    if agent.sub_agents:
        rules.append("- `terminateAfter`: usually false; check a sub-agent's result before you end")
    if params["includeForEachDocs"] or params["includeWhileDocs"]:
        rules.append(results_rule(agent.loop_result_turns, changes=params.types["payload"]))
    if not agent.sub_agents:
        rules.append("- You have no sub-agents")
    if not agent.actions:
        rules.append("- You have no actions")
    yield "## Key rules\n" + "\n".join(rules)


def _documents(params: PromptParams) -> Iterator[str]:
    loops = params["includeForEachDocs"] or params["includeWhileDocs"]
    if params["includeMessageExpansionDocs"]:
        yield EXPANSION
    if loops:
        yield "## Loops\nFor many items or repeated attempts, use a loop instead of many responses."
    if params["includeForEachDocs"]:
        yield FOR_EACH
    if params["includeWhileDocs"]:
        yield WHILE
    if params["includeVariableRefsDocs"]:
        yield REFERENCES
    if params["includePayloadInPrompt"]:
        yield "## State\nThe payload is the state of your work. Each prompt ends with it."
    if params["includeResponseFormDocs"]:
        yield FORMS
    if params["includeCommandDocs"]:
        yield COMMANDS
    yield "# CRITICAL\nYour entire response is one JSON object: no fence, no comment, nothing before or after it."


def tail(payload: Any, params: PromptParams, loops: list[str]) -> str:
    """Return the part at the end of the prompt that is not repeated in later prompts."""
    parts = list(loops)
    if params["includePayloadInPrompt"]:
        payload_json = clip_chars(json.dumps(payload, ensure_ascii=False, indent=1, default=str), _PAYLOAD_CHARS)
        parts.append(f"## Current State\n**Payload:**\n```json\n{payload_json}\n```")
    return "\n\n".join(parts)
