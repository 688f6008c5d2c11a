"""The sections of an agent's system prompt: what a response is, and how each kind of step is used."""

from __future__ import annotations

from .prompt_params import PromptParams

PAYLOAD_TYPE = """interface AgentPayloadChangeRequest {
    /** New keys; on a list that exists: items to append */
    newElements?: object;
    /** Values to change; objects merge, lists merge by position ({} leaves an element as it is) */
    updateElements?: object;
    /** "__DELETE__" at each place to remove, also within lists by position; null keeps */
    removeElements?: object;
    /** Keys to replace as a whole */
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
    /** Looked at before each iteration; sees payload, results and errors */
    condition: string;
    itemVariable?: string;  // "attempt", with attemptNumber and totalAttempts
    maxIterations?: number;  // 100; 0 means none
    continueOnError?: boolean;
    delayBetweenIterationsMs?: number;
{_LOOP_TARGET}
}}"""

EXPANSION = """## Message expansion
A long result may be shortened later; it then says `[Compacted: ...]` or `[AI Summary of ... chars ...]`. Its number
stands in front of it, as in `[#5]`. Only if you need what was left out:
```json
{"taskComplete": false, "nextStep": {"type": "Retry", "messageIndex": 5, "reason": "item 47 is needed"}}
```
The whole result is then shown once more."""

FOR_EACH = """### ForEach: one decision for a whole list
```json
{"nextStep": {"type": "ForEach", "forEach": {"collectionPath": "customers", "itemVariable": "customer",
  "action": {"name": "Send Mail", "params": {"to": "customer.email"}, "outputMapping": "customers[{{index}}].sent"}}}}
```
With `"executionMode": "parallel"` and `maxConcurrency` independent iterations run side by side; each sees the payload
as it was before the loop. Leave it sequential where an iteration needs what the one before it did. Do not call an
action once per item by hand."""

WHILE = """### While: poll, or try again
```json
{"nextStep": {"type": "While", "while": {"condition": "payload.status === 'pending'", "maxIterations": 20,
  "delayBetweenIterationsMs": 3000,
  "action": {"name": "Check", "params": {"attempt": "attempt.attemptNumber"}, "outputMapping": "status"}}}}
```
A condition compares (`=== !== < > && || !`), reads members, and calls `includes`, `some`, `every` and the like."""

REFERENCES = """### References in the parameters of a loop
`"item.field"` and `"payload.field"` become that value; a bare `"item"` is the whole item, `"index"` its number from 0,
`"attempt.attemptNumber"` counts a While. Within longer text write `{{item.field}}`. Anything else
stays as it is written."""

FORMS = """## Asking your person with a form
Use `responseForm` when you need something from the person. A choice:
```json
{"message": "Which one?", "responseForm": {"questions": [{"id": "pick", "label": "Which customer?", "type":
  {"type": "buttongroup", "options": [{"value": "a", "label": "Acme"}, {"value": "n", "label": "None"}]}}]}}
```
Several questions go into one form with a `title`; mark what you cannot do without with `"required": true`."""

COMMANDS = """## Commands
`actionableCommands` are shown to the person as things they can open or send; `automaticCommands` are told at once.
```json
{"taskComplete": true, "message": "The report is there.",
  "actionableCommands": [{"type": "open:url", "label": "Open it", "url": "https://example.com/report"}],
  "automaticCommands": [{"type": "notification", "message": "Done"}]}
```"""


def kept_for(turns: int, *, changes: bool) -> str:
    """How long a loop's results are shown; the engine and the prompt say the same number."""
    shown = {0: "not shown at all", 1: "shown for ONE turn only"}.get(turns, f"shown for {turns} turns only")
    store = "you must store with `payloadChangeRequest` in your next response, or let `outputMapping` write it"
    if not changes:
        store = "`outputMapping` must write"
    return f"- The results of ForEach and While are {shown}. What you will need later {store}"


def response_type(params: PromptParams) -> str:
    """The definition of a response, with the parts that are on."""
    types = params.types
    steps = "'Actions' | 'Sub-Agent' | 'Chat' | 'Retry'"
    steps += (" | 'ForEach'" if types["forEach"] else "") + (" | 'While'" if types["while"] else "")
    rows = [
        ("", "    /** true ends the loop */\n    taskComplete?: boolean;"),
        ("", "    /** Plain text, under 100 words; needed for Chat */\n    message?: string;"),
        ("responseForms", "    /** Asks the person */\n    responseForm?: AgentResponseForm;"),
        (
            "commands",
            "    actionableCommands?: ActionableCommand[];\n    automaticCommands?: AutomaticCommand[];",
        ),
        ("payload", "    /** Only what changes */\n    payloadChangeRequest?: AgentPayloadChangeRequest;"),
        ("", "    reasoning?: string;\n    /** 0.0 to 1.0 */\n    confidence?: number;"),
        ("", f"    /** Needed unless taskComplete */\n    nextStep?: {{\n        type: {steps};"),
        ("", "        actions?: Array<{ name: string; params: object }>;"),
        ("", "        subAgent?: { name: string; message: string; terminateAfter?: boolean;"),
        ("", "            templateParameters?: object };"),
        (
            "",
            "        /** With Retry: the number of a shortened result to see whole */\n        messageIndex?: number;",
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
