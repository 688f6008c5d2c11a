"""Agent definitions: their content, their faults, and what is reported before they run."""

import pytest

from stackmem.core.errors import Halted, UsageError
from stackmem.core.facts import FramePopped
from stackmem.core.program_facts import StepEntered, StepLeft, ToolAnswered
from stackmem.core.requests import InvokeTool
from stackmem.languages.language import Launch, language_of, read_with
from stackmem.languages.loop_agent.language import LANGUAGE, settings_of
from stackmem.languages.loop_agent.prompt import RUNTIME, prompt_params, system_prompt, tail
from stackmem.languages.loop_agent.reader import load_agent
from stackmem.languages.operations import Complete, EnterFrame, Group, LeaveFrame, Source

from .stage import OWN, PATH

GOOD = "name: a\nprompt: p\n"
FULL = """
name: full
description: does it all
prompt: Do it, {{agentName}}. {{_CURRENT_PAYLOAD}}
model: some-model
actions:
  - name: Run
    tool: shell
    description: runs a command
    params: {type: object}
    output_mapping: {stdout: out}
    parallel: true
    retries: 2
    min_runs: 0
    max_runs: 5
    expires: {turns: 2, mode: compact, by: summary, chars: 100, prompt: Shorten.}
sub_agents:
  - {name: s, messages: bookend, inline: {name: s, prompt: q}}
payload: {out: null}
payload_schema: {type: object}
allowed_paths: [out, 'a.*:add']
prompt_params: {includeForEachDocs: false, maxActionsInPrompt: 3, includeResponseTypeDefinition: {while: false}}
limits: {iterations: 10, tokens: 1000, failures: 3, context_tokens: 5000, usd: 1.5, seconds: 60}
loop_result_turns: 2
expires: {turns: 9}
"""


def load(path):
    return Source(path.path, GOOD) if path.path == "other.agent.yaml" else Source(path.path, failed="No such file")


def lint(text):
    return [
        f"{each.line}: {each.severity} {each.code} {each.message}"
        for each in read_with(LANGUAGE.lint(PATH, text), load)
    ]


def test_a_full_definition_is_read():
    agent, faults = load_agent(FULL)
    assert faults == ()
    assert (agent.name, agent.model, agent.loop_result_turns) == ("full", "some-model", 2)
    assert (agent.actions[0].retries, agent.actions[0].max_runs, agent.actions[0].expires.by) == (2, 5, "summary")
    assert (agent.limits.usd, agent.limits.seconds, agent.limits.iterations) == (1.5, 60.0, 10)
    assert agent.sub_agents[0].messages == "bookend"
    assert settings_of(FULL) == {"max_usd": "1.5", "max_seconds": "60.0"}
    assert settings_of(GOOD) == {}
    assert settings_of("- a") == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "the agent's definition"),
        ("- a", "agent/schema an agent's definition is a mapping"),
        ("a: [", "agent/syntax"),
        ("prompt: p", "the agent needs `name`"),
        ("name: a", "the agent needs `prompt`"),
        ("name: ''\nprompt: p", "`name` of the agent is a text, not empty"),
        ("name: 5\nprompt: p", "`name` of the agent is a text, not a number"),
        (GOOD + "name: b", "`name` stands twice in the agent"),
        (GOOD + "mood: x", "the agent has no `mood`; known: name"),
        (GOOD + "actions: {}", "`actions` of the agent is a list, not a mapping"),
        (GOOD + "actions: [x]", "an action is a mapping, not a text"),
        (GOOD + "actions: [{name: x}]", "an action needs `tool`"),
        (GOOD + "actions: [{name: x, tool: shell, retries: -1}]", "`retries` of an action is a whole number from 0"),
        (GOOD + "actions: [{name: x, tool: shell, retries: 99}]", "`retries` of an action is 99, at most 10"),
        (GOOD + "actions: [{name: x, tool: shell, parallel: 1}]", "`parallel` of an action is true or false"),
        (GOOD + "actions: [{name: x, tool: shell, params: []}]", "`params` of an action is a mapping"),
        (
            GOOD + "actions: [{name: x, tool: shell, params: {type: 5}}]",
            "error agent/schema the params of x cannot be used as a JSON Schema: the schema is not valid at /type: ",
        ),
        (
            GOOD + "payload_schema: {$ref: 'http://localhost/s.json'}",
            "error agent/schema `payload_schema` cannot be used as a JSON Schema: the schema refers to",
        ),
        (GOOD + "actions: [{name: x, tool: shell, min_runs: 3, max_runs: 2}]", "`min_runs` (3) is above"),
        (GOOD + "actions: [{name: x, tool: shell, output_mapping: a..b}]", "agent/bad-path"),
        (GOOD + "actions: [{name: x, tool: shell, output_mapping: '{bad'}]", "an output mapping is a payload path"),
        (GOOD + "actions: [{name: x, tool: shell}, {name: X, tool: shell}]", "two actions are called `X`"),
        (GOOD + "actions: [{name: x, tool: mine}]", "warning agent/unknown-tool"),
        (GOOD + "sub_agents: [{name: s}]", "either `file` or `inline`"),
        (GOOD + "sub_agents: [{name: s, file: x, inline: {name: b, prompt: p}}]", "either `file` or `inline`"),
        (GOOD + "sub_agents: [{name: s, file: gone.agent.yaml}]", "agent/unknown-sub-agent the file gone.agent.yaml"),
        (GOOD + "sub_agents: [{name: s, messages: some, file: other.agent.yaml}]", "`messages` of a sub-agent is"),
        (GOOD + "sub_agents: [{name: s, inline: {name: b}}]", "the agent needs `prompt`"),
        (GOOD + "sub_agents: [{name: s, inline: {name: b, prompt: p, actions: [{name: x, tool: m}]}}]", "unknown-tool"),
        (GOOD + "allowed_paths: [5]", "an allowed path is a text"),
        (GOOD + "allowed_paths: ['a:fly']", "'fly' is not an operation"),
        (GOOD + "allowed_paths: ['a..b']", "is not a path; write it like"),
        (GOOD + "limits: {usd: much}", "`usd` of `limits` is a number above 0, not a text"),
        (GOOD + "limits: {usd: 0}", "`usd` of `limits` is a number above 0"),
        (GOOD + f"limits: {{seconds: {'9' * 400}}}", "`seconds` of `limits` is a number above 0"),
        (GOOD + "limits: {hours: 1}", "`limits` has no `hours`"),
        (GOOD + "expires: {mode: never}", "`mode` of `expires` is one of none, remove, compact"),
        (GOOD + "prompt_params: {includeMagic: true}", "`prompt_params` has no `includeMagic`"),
        (GOOD + "prompt_params: {includeWhileDocs: 1}", "is true or false"),
        (GOOD + "prompt_params: {maxActionsInPrompt: -2}", "a whole number from -1"),
        (GOOD + "prompt_params: {includeResponseTypeDefinition: 5}", "is a mapping, or true or false"),
        (GOOD + "prompt_params: {includeResponseTypeDefinition: {sun: true}}", "takes payload, responseForms"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_found_at_its_place(text, found):
    told = lint(text)
    assert told
    if text:
        assert any(found in each for each in told), told


EXAMPLES = {
    '{"nextStep": {"type": "Dance"}}': "agent/bad-example",
    '{"nextStep": {"type": "Actions", "actions": [{"name": "fly"}]}}': "agent/unknown-action",
    '{"nextStep": {"type": "Sub-Agent", "subAgent": {"name": "x", "message": "m"}}}': "agent/unknown-sub-agent",
    '{"nextStep": {"type": "While", "while": {"condition": "a =", "action": {"name": "run"}}}}': "agent/bad-condition",
    '{"nextStep": {"type": "ForEach", "forEach": {"collectionPath": "..", "action": {"name": "r"}}}}': "agent/bad-path",
}


@pytest.mark.parametrize(("example", "code"), EXAMPLES.items(), ids=EXAMPLES.values())
def test_examples_in_the_prompt_are_looked_at(example, code):
    text = f"name: a\nprompt: |\n  Do.\n  ```json\n  {example}\n  ```\nactions: [{{name: run, tool: shell}}]\n"
    assert any(f"4: error {code}" in each for each in lint(text))


AGAIN = "actions:\n  - {name: x, tool: shell}\n  - {name: X, tool: shell}\n"
MEANT = {
    "name: a\npromt: x\nprompt: p\n": "2: error agent/schema the agent has no `promt`; did you mean `prompt`?",
    GOOD + "actions:\n  - {name: x, tool: shel}\n": "which is not built in; did you mean shell?",
    GOOD + "actions:\n  - name: x\n    tool: mine\n": "5: warning agent/unknown-tool",
    "name: a\nprompt: |\n  Hi.\n  {{ AgentNam }} {{item}}\n": "4: warning agent/unknown-slot the prompt",
    'name: a\nprompt: |\n  ```json\n  {"nextStep": ...}\n  ```\n': "3: warning agent/bad-example an example in the",
    'name: a\nprompt: "```json\\n{\\"nextStep\\": {\\"type\\": \\"X\\"}}\\n```"\n': "2: error agent/bad-example",
    GOOD
    + "payload: {n: 1}\nstart_schema: {required: [m], properties: {n: {type: string}}}\n": "3: warning agent/payload",
    GOOD + "limits: {failures: 0}\n": "3: error agent/schema `failures` of `limits` is 0, at least 1",
    GOOD + "limits: {usd: -1}\n": "`usd` of `limits` is a number above 0 and at most 1,000,000,000, not -1",
    GOOD + AGAIN: "5: error agent/schema two actions are called `X`",
    GOOD + "sub_agents: [{name: s, file: x.agent.yaml}]\n": "3: error agent/broken-sub-agent x.agent.yaml:1:1: the",
}


@pytest.mark.parametrize(("text", "told"), MEANT.items())
def test_a_finding_says_where_and_what_was_meant(text, told):
    def load_one(path):
        return Source(path.path, "name: b\n")

    found = [
        f"{each.line}: {each.severity} {each.code} {each.message}"
        for each in read_with(LANGUAGE.lint(PATH, text), load_one)
    ]
    assert [each for each in found if told in each], found


def test_a_sub_agent_without_anything_is_one_finding():
    assert len(lint(GOOD + "sub_agents: [{name: s}]\n")) == 1


def test_a_prompt_of_thousands_of_examples_and_slots_has_no_findings():
    examples, slots = "  ```json\n  {}\n  ```\n" * 5_000, "  {{a}}\n" * 5_000
    text = f"name: a\nprompt: |\n{examples}{slots}"
    assert lint(text) == []


def test_sound_examples_and_sound_files_have_no_findings():
    examples = ['{"nextStep": {"type": "Actions", "actions": [{"name": "run"}]}}', '{"a": 1}', "no",
                '{"taskComplete": true}',
                '{"taskComplete": true, "nextStep": {"type": "Retry"}}',
                '{"nextStep": {"forEach": {"collectionPath": "static:[]", "action": {"name": "run"}}}}']  # fmt: skip
    blocks = "".join(f"  ```json\n  {each}\n  ```\n" for each in examples)
    subs = "sub_agents: [{name: s, file: other.agent.yaml}]\n"
    text = f"name: a\nprompt: |\n{blocks}actions: [{{name: run, tool: shell}}]\n{subs}"
    assert lint(text) == []


def test_agents_too_deep_in_one_another_are_refused():
    text = "name: a\nprompt: p\n"
    inner = "{name: a, prompt: p}"
    for _ in range(10):
        inner = f"{{name: a, prompt: p, sub_agents: [{{name: s, inline: {inner}}}]}}"
    assert any("nested deeper than 8" in each for each in lint(f"{text}sub_agents: [{{name: s, inline: {inner}}}]"))


def test_the_outline_lists_agents_actions_and_sub_agents():
    text = FULL + "\n"
    launch = Launch(PATH, text, tools=OWN)
    assert read_with(LANGUAGE.outline(launch), load) == (
        "full (main.agent.yaml), model some-model", "  action Run: shell", "  sub-agent s: inline, messages bookend",
        "  payload: out", "s (main.agent.yaml)",
    )  # fmt: skip
    assert read_with(LANGUAGE.models(launch), load) == ("some-model",)
    with pytest.raises(Halted):
        read_with(LANGUAGE.outline(Launch(PATH, "name: a")), load)
    with pytest.raises(UsageError, match="known: none"):
        read_with(LANGUAGE.outline(Launch(PATH, GOOD, {"x": 1})), load)


def test_the_suffixes_are_told_from_others():
    assert language_of("X.Agent.YAML") == "loop_agent"
    assert language_of("x.agent.yml") == "loop_agent"
    assert language_of("agent.yaml") is None


def test_what_a_person_reads_while_it_runs():
    tell = LANGUAGE.announcer()
    call = InvokeTool("fetch", {"q": "x" * 500})
    assert tell(StepEntered("a/turn 1", "Actions")) == ("a/turn 1: Actions",)
    assert tell(StepLeft("a/turn 1", "list", 3)) == ("a/turn 1: 3 iterations",)
    assert tell(call)[0].startswith('  fetch {"q": "xxx')
    assert tell(call)[0].endswith("…")
    assert tell(Group((call, call))) == ("  2 actions side by side: fetch",)
    assert tell(Group((Complete(()),))) == ("  1 agents side by side",)
    assert tell(EnterFrame("s", "find")) == ("Asking s: find",)
    assert tell(LeaveFrame("found")) == ("Answered: found",)
    assert tell(ToolAnswered(None, "error", "no")) == ("  failed (error): no",)
    assert tell(ToolAnswered(1)) == tell(FramePopped("f", "x")) == ()


SECTIONS = {
    "includeForEachDocs": ("### ForEach", "interface ForEachOperation", "'ForEach'"),
    "includeWhileDocs": ("### While", "interface WhileOperation", "'While'"),
    "includeResponseFormDocs": ("with a form", "interface AgentResponseForm"),
    "includeCommandDocs": ("## Commands", "type ActionableCommand"),
    "includeMessageExpansionDocs": ("## Message expansion", "you see a shortened result in full"),
    "includeVariableRefsDocs": ("### References",),
    "includePayloadInPrompt": ("## State",),
}


@pytest.mark.parametrize(("flag", "texts"), SECTIONS.items())
def test_a_section_that_is_off_is_absent_and_its_types_with_it(flag, texts):
    agent, _ = load_agent(FULL)
    on, off = system_prompt(agent, prompt_params({})), system_prompt(agent, prompt_params({flag: False}))
    assert [text for text in texts if text not in on] == []
    assert [text for text in texts if text in off] == []


def test_flags_have_layers_and_types_may_be_set_by_themselves():
    params = prompt_params({"includeWhileDocs": False}, {"includeWhileDocs": True}, {"maxActionsInPrompt": 0})
    assert params["includeWhileDocs"]
    assert params.most_actions == 0
    only = prompt_params(
        {"includeWhileDocs": False, "includeResponseTypeDefinition": {"while": True, "payload": False}}
    )
    assert (only.types["while"], only.types["payload"]) == (True, False)
    assert not any(prompt_params({"includeResponseTypeDefinition": False}).types.values())
    assert prompt_params({}, None, "x").most_actions == -1
    assert RUNTIME == "__agentTypePromptParams"


def test_no_more_actions_and_sub_agents_are_described_than_asked_for():
    agent, _ = load_agent(FULL)
    prompt = system_prompt(agent, prompt_params({"maxActionsInPrompt": 0, "maxSubAgentsInPrompt": 0}))
    assert "**Run**" not in prompt
    assert prompt.count("(1 more, not described here)") == 2
    assert "at most 5 runs" in system_prompt(agent, prompt_params({}))


def test_the_prompt_never_holds_the_payload():
    agent, _ = load_agent(FULL)
    assert "Do it, full. (see Current State)" in system_prompt(agent, prompt_params({}), template_values=[1])
    assert tail({"a": 1}, prompt_params({"includePayloadInPrompt": False}), []) == ""
    assert "You have no actions" in system_prompt(
        load_agent(GOOD)[0], prompt_params({"includeResponseTypeDefinition": False})
    )
    assert "characters left out" in tail({"a": "x" * 40_000}, prompt_params({}), [])
