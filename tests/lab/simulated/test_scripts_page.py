"""The scripts in docs/scripts.md play, and the page names every word of the language."""

import re
from pathlib import Path

import pytest

from stackmem.core.facts import CallRejected, ModelFailed, RunEnded, ToolReturned
from stackmem.core.machine import advance, evolve
from stackmem.core.requests import AskModel, Effect
from stackmem.core.state import State
from stackmem.lab.simulated import script_language
from stackmem.lab.simulated.script_language import parse_script
from stackmem.lab.simulated.scripted import ScriptedModel
from stackmem.memory import open_strategy
from tests.build import World, started

PAGE = (Path(__file__).parents[3] / "docs" / "scripts.md").read_text(encoding="utf-8")
SCRIPTS = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)


def played(text):
    """Return the facts of a run of the script in a workspace that contains spec.md."""
    command = "python -c 'import hello; print(hello.hello())'"
    world = World(files={"spec.md": "the spec"}, outputs={command: ToolReturned("hello", exit_code=0)})
    start = started()
    strategy = open_strategy(start.strategy)
    model = ScriptedModel(parse_script(text, "page.yaml"))
    state, events = evolve(State(), start), []
    while (upcoming := advance(state, strategy)) is not None:
        if isinstance(upcoming, AskModel):
            event = model.reply(upcoming)
        else:
            event = world.perform(upcoming) if isinstance(upcoming, Effect) else upcoming
        events.append(event)
        state = evolve(state, event)
    return events


@pytest.mark.parametrize("text", SCRIPTS[:2], ids=["the first script", "a block text"])
def test_a_script_of_the_page_runs_to_its_end(text):
    assert played(text)[-1].ending == "popped"


def test_the_faults_of_the_page_are_survived_until_the_script_runs_dry():
    events = played(SCRIPTS[2])
    assert [event.kind for event in events if isinstance(event, ModelFailed)] == ["overloaded", "script"]
    assert [event.code for event in events if isinstance(event, CallRejected)] != []
    assert any(isinstance(event, ToolReturned) and event.text == "the spec" for event in events)
    assert isinstance(events[-1], RunEnded)
    assert events[-1].ending == "model_error"


def test_every_script_of_the_page_is_played():
    assert len(SCRIPTS) == 3


WORDS = [
    *script_language._SCRIPT_KEYS, *script_language._REPLY_KEYS, *script_language._EXPECT_KEYS,
    *script_language._USAGE_KEYS, *script_language.Fault.__args__,
]  # fmt: skip


@pytest.mark.parametrize("word", WORDS)
def test_the_page_names_every_word_of_the_language(word):
    assert f"`{word}`" in PAGE
