"""The content of the system prompt: how to call actions, which steps exist, and what may be changed."""

import json

from stackmem.core.messages import ToolSpec
from stackmem.languages.loop_agent.prompt import prompt_params, system_prompt
from stackmem.languages.loop_agent.reader import load_agent
from stackmem.languages.loop_agent.tools import BUILT_IN, with_tools
from stackmem.run.programs.tools import _TAKES

from .stage import actions, ask, done, play

AGENT = """
name: a
prompt: p
actions:
  - {name: Run, tool: shell}
  - {name: Get, tool: fetch, description: Gets it., params: {type: object, required: [url]}}
  - {name: Poll, tool: poll, min_runs: 2}
"""
KID = AGENT + "sub_agents: [{name: kid, inline: {name: kid, prompt: q, actions: [{name: Look, tool: list_files}]}}]\n"


def test_an_action_without_parameters_has_those_of_its_tool():
    played = play(actions("Run", comand="ls"), actions("Run", command="ls", timeout_seconds=5), done(), agent=KID)
    shown = played.asked[0].system
    assert "- **Run**: Runs a command in the workspace; gives stdout, stderr and exit_code.\n  params: {" in shown
    assert '"timeout_seconds": {"type": "number"}' in shown
    assert '- **Get**: Gets it.\n  params: {"required": ["url"], "type": "object"}' in shown
    assert "- **Poll**: A tool of my own." in shown
    assert "BAD_PARAMETERS" in played.prompt(1)
    assert [(call.arguments, call.timeout_seconds) for call in played.calls] == [({"command": "ls"}, 5.0)]


def test_a_sub_agents_actions_have_them_too():
    asked = play(ask("kid"), done(), done(), agent=KID.replace("min_runs: 2", "min_runs: 0")).asked
    assert "- **Look**: Gives the paths of the workspace" in asked[1].system
    by_file = AGENT.replace("min_runs: 2", "min_runs: 0") + "sub_agents: [{name: f, file: f.agent.yaml}]\n"
    text = "name: f\nprompt: q\nactions: [{name: Look, tool: list_files}]\n"
    asked = play(ask("f"), done(), done(), agent=by_file, sources={"f.agent.yaml": text}).asked
    assert "- **Look**: Gives the paths of the workspace" in asked[1].system


def test_what_is_told_of_the_built_in_tools_is_what_they_take():
    for name, (_, schema) in BUILT_IN.items():
        own = {"timeout_seconds"} if name == "shell" else set()
        assert set(schema["properties"]) - own == set(_TAKES[name])
        assert schema["required"] == [each for each, (_, needed) in _TAKES[name].items() if needed]


def test_the_schema_of_a_tool_of_ones_own_is_shown():
    tool = ToolSpec("own", "Mine.", json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}}))
    agent, _ = load_agent("name: a\nprompt: p\nactions: [{name: Own, tool: own}, {name: Other, tool: gone}]\n")
    shown = system_prompt(with_tools(agent, (tool,)), prompt_params({}))
    assert (
        '- **Own**: Mine.\n  params: {"properties": {"n": {"type": "integer"}}, "type": "object"}\n- **Other**\n'
        in shown
    )


def test_the_steps_that_there_are_and_no_others_are_listed():
    top = play(done(), agent="name: a\nprompt: p\nprompt_params: {includeWhileDocs: false}\n").asked[0].system
    listed = [line.split("`")[1] for line in top.splitlines() if line.startswith("- `") and ": " in line][:5]
    assert listed == ["ForEach", "Chat", "Retry", "taskComplete", "payloadChangeRequest"]
    asked = play(ask("kid"), done(), done(), agent=KID.replace("min_runs: 2", "min_runs: 0")).asked
    assert "wait for the reply" in asked[0].system
    assert "your parent reads `message`" in asked[1].system


def test_what_may_be_changed_and_what_must_run_is_told():
    told = play(done(), agent=AGENT.replace("min_runs: 2", "min_runs: 0") + "allowed_paths: ['a.*', 'l[*].x:add']\n")
    assert "- Of the payload you may change only `a.*`, `l.*.x` (add); a path that does not" in told.asked[0].system
    assert "it must run 2 times" in play(done(), *[actions("Poll")] * 2, done(), agent=AGENT).asked[0].system
