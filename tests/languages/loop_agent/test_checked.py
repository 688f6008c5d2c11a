"""Lint errors end a run before its first effect; apart from them, only faults that depend on inputs do."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.errors import Halted
from stackmem.core.requests import LoadSource
from stackmem.languages.language import Launch, read_with
from stackmem.languages.loop_agent.language import start
from stackmem.languages.loop_agent.lint import lint
from stackmem.languages.operations import Source

from .stage import OWN, PATH

PATHS = st.sampled_from(["a", "a[{{index}}]", "b.c", "..", "a:add", "**.id", "*"])
NAMES = st.sampled_from(["Run", "Get", "kid", ""])
STEPS = st.one_of(
    st.builds(lambda name: {"type": "Actions", "actions": [{"name": name, "params": {"command": "x"}}]}, NAMES),
    st.builds(lambda name: {"type": "Sub-Agent", "subAgent": {"name": name, "message": "m"}}, NAMES),
    st.builds(lambda word: {"type": "While", "while": {"condition": word, "action": {"name": "Run"}}}, PATHS),
    st.builds(lambda word: {"type": word}, st.sampled_from(["Retry", "Dance"])),
)
PROMPTS = st.one_of(
    st.just("Do it."),
    st.builds(lambda step: f"```json\n{json.dumps({'nextStep': step})}\n```", STEPS),
    st.builds(lambda step: f"Say {json.dumps({'nextStep': step})}.", STEPS),
)
ACTIONS = st.fixed_dictionaries(
    {"name": NAMES, "tool": st.sampled_from(["shell", "fetch", "gone"])},
    optional={"output_mapping": PATHS, "retries": st.sampled_from([0, 99]), "odd": st.just(1)},
)


def agents(subs):
    more = {
        "actions": st.lists(ACTIONS, max_size=2),
        "sub_agents": st.lists(subs, max_size=2),
        "allowed_paths": st.lists(PATHS, max_size=2),
        "on_misfit": st.sampled_from(["retry", "never"]),
    }
    return st.fixed_dictionaries({"name": st.just("a"), "prompt": PROMPTS}, optional=more)


FILES = st.builds(lambda name, file: {"name": name, "file": file}, NAMES, st.sampled_from(["one", "two", "none"]))
INNER = agents(FILES)
SUBS = st.one_of(FILES, st.builds(lambda name, agent: {"name": name, "inline": agent}, NAMES, INNER))


@given(agents(SUBS), INNER, INNER)
def test_a_run_halts_before_its_first_effect_where_the_linter_has_an_error_and_nowhere_else(agent, one, two):
    files = {"one": json.dumps(one), "two": json.dumps(two)}

    def load(asked):
        return Source(f"/w/{asked.path}", files[asked.path]) if asked.path in files else Source("", failed="no file")

    text = json.dumps(agent)
    errors = [each for each in read_with(lint(PATH, text, OWN), load) if each.severity == "error"]
    program = start(Launch(PATH, text, {}, "/w", "/w", {"checked": True}, OWN))
    halted, report = None, "a.yaml:1:1: "
    try:
        asked = next(program)
        while isinstance(asked, LoadSource):
            asked = program.send(load(asked))
    except Halted as halt:
        halted, report = halt.kind, halt.report
    assert re.search(r":\d+:\d+: ", report), report
    assert (halted in ("Invalid Agent", "Unknown Tool")) == bool(errors), (halted, errors)
