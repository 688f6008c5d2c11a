"""Any document either runs or is rejected with one clean report, never with a traceback."""

import json
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stackmem.core.errors import Halted
from stackmem.core.requests import InvokeTool
from stackmem.languages.apl.language import LANGUAGE
from stackmem.languages.apl.templates import TemplateFault, evaluate, fault_of, mentions, render, render_command
from stackmem.languages.language import Launch, read_with
from stackmem.languages.operations import FrameAnswer, RunFrame, Say, Source, ToolAnswer
from tests.languages.in_memory import run_in_memory

pytestmark = pytest.mark.filterwarnings("ignore:invalid escape sequence")
MANY = 10_000
FEW = 60

WORDS = st.sampled_from(
    ["a", "xs", "{{a}}", "{{ xs.0 }}", "{{b or 1}}", "{{", "}}", "{% for x in xs %}", "{% endfor %}", "a is defined",
     "a == 1", "a.exit_code", "a < 2", "'{{range .}}'", "shell", "set_vars", "split", "log", "run_apl", "agent_native",
     "rank_items", "append_to_list", "initialize_list", "main.apl", "b.apl", "FORCE_FULL_LOOP_EXECUTION", "json",
     "list", "", "\x00", "\ud800"]
)  # fmt: skip
PLAIN = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.floats(allow_nan=False), WORDS, st.text(max_size=6))
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=6
)
TOOLS = st.sampled_from(
    ["shell", "set_vars", "split", "log", "run_apl", "agent_native", "rank_items", "append_to_list", "initialize_list",
     "read_file", "write_file", "create_directory", "git_clone", "nope"]
)  # fmt: skip
NAMES = st.sampled_from(["a", "b", "xs"])
PARAMS = st.sampled_from(
    ["command", "message", "from", "list", "items", "path", "to_file", "content_template", "program", "prompt", "by",
     "outputs", "delimiter", "dump_register", "repo_path", "timeout_seconds", "as_type", "env", "using",
     "with_inputs", "allow_failure"]
)  # fmt: skip
TOOL_STEPS = st.builds(
    lambda tool, params, register, condition, variables: (
        {"name": "s", "tool": tool, **params}
        | ({"register": register} if register else {})
        | ({"if": condition} if condition else {})
        | ({"vars": variables} if variables else {})
    ),
    TOOLS, st.dictionaries(PARAMS, VALUES, max_size=3), st.none() | NAMES, st.none() | WORDS,
    st.dictionaries(NAMES, VALUES, max_size=2),
)  # fmt: skip


def controls(inner):
    """Return a strategy for steps that contain other steps."""
    body = st.lists(inner, max_size=2)
    loops = st.sampled_from(["foreach", "parallel_foreach"])
    return st.one_of(
        st.builds(lambda k, i, run: {"name": "f", k: {"in": i, "loop_var": "a"}, "run": run}, loops, VALUES, body),
        st.builds(lambda test, run: {"name": "w", "while": test, "run": run}, WORDS, body),
        st.builds(lambda c, k, run: {"name": "c", "switch": c, "cases": {k: run}}, WORDS, WORDS, body),
        st.builds(lambda run, more: {"name": "t", "try": run, "catch": more}, body, body),
        st.builds(lambda name: {"name": "r", "run_step": name}, NAMES),
    )


STEPS = st.recursive(TOOL_STEPS | VALUES, controls, max_leaves=5)
PROGRAMS = st.dictionaries(
    st.sampled_from(["setup", "main", "finalize", "inputs", "constants", "def_step", "import", "other"]),
    st.lists(STEPS, max_size=4) | VALUES | st.dictionaries(NAMES, st.lists(STEPS, max_size=2) | VALUES, max_size=2),
    max_size=4,
)


def answer(effect):
    match effect:
        case InvokeTool(tool="shell"):
            return ToolAnswer({"stdout": '{"a": [1]}\n', "stderr": "", "exit_code": 0})
        case InvokeTool():
            return ToolAnswer("text")
        case RunFrame():
            return FrameAnswer("[1]", [1])
    raise AssertionError(effect)


SOURCES = {
    "stackmem:apl/APL_STL.yml": "- {name: split, inputs: [{name: from}], outputs: [{name: result}]}\n",
    "b.apl": "inputs: [{name: a, description: d}]\nmain: [{name: s, tool: log, message: '{{a}}'}]",
}


def check(text: str) -> None:
    """Check that a document runs or halts with a report, and that the linter and the outline do not crash."""
    launch = Launch("/w/main.apl", text, {}, "/w", "/w", {"while_limit": 3})
    done = run_in_memory(LANGUAGE.start(launch), answer, SOURCES)
    assert done.halted is None or done.halted.report.startswith("---\n**APL EXECUTION HALTED**")
    assert all(msgspec.json.encode(each, enc_hook=str) for each in [*done.happened, done.value])
    assert all(isinstance(effect.text, str) for effect in done.happened if isinstance(effect, Say))
    tell = LANGUAGE.announcer()
    assert all(isinstance(line, str) for happening in done.happened for line in tell(happening))
    found = read_with(LANGUAGE.lint("/w/main.apl", text), load)
    assert all(each.line > 0 and each.column > 0 and each.message for each in found)
    with suppress(Halted):
        assert isinstance(read_with(LANGUAGE.outline(launch), load), tuple)


def load(asked) -> Source:
    text = SOURCES.get(asked.path)
    return Source(asked.path, text or "", failed="" if text else "No such file")


def shape(document) -> str:
    return json.dumps(document, ensure_ascii=True)


@given(PROGRAMS)
@settings(max_examples=FEW, deadline=None)
def test_documents_of_steps_run_or_are_refused(document):
    check(shape(document))


@given(st.text(alphabet=st.sampled_from("amintool:-{}[]'\"&*!|>#,%@ \n\t\\01."), max_size=60))
@settings(max_examples=FEW, deadline=None)
def test_any_text_runs_or_is_refused(text):
    check("main:\n" + text)
    check(text)


TEXTS = st.text(alphabet=st.sampled_from("{}%#-|:.,'\"()[]abe019 +*/~<>=!forinsetdfue\n\\"), max_size=40)


def check_template(text: str) -> None:
    scope = {"a": 1, "b": [1, {"a": "x"}], "f": "text"}
    for work in (render, evaluate, render_command):
        with suppress(TemplateFault):
            assert json.dumps(work(text, scope), default=str)
    assert isinstance(fault_of(text), str)
    assert all(mention.name for mention in mentions(text) + mentions(text, expression=True))


@given(TEXTS | TEXTS.map(lambda text: f"{{{{{text}}}}}") | TEXTS.map(lambda text: f"'{{{{{text}'"))
@settings(max_examples=FEW * 4, deadline=None)
def test_any_template_gives_a_value_or_one_fault(text):
    check_template(text)


@pytest.mark.campaign
@pytest.mark.timeout(3_600)
@given(PROGRAMS)
@settings(max_examples=MANY, deadline=None)
def test_many_documents_of_steps_run_or_are_refused(document):
    check(shape(document))


@pytest.mark.campaign
@pytest.mark.timeout(3_600)
@given(TEXTS | TEXTS.map(lambda text: f"{{{{{text}}}}}"))
@settings(max_examples=MANY, deadline=None)
def test_many_templates_give_a_value_or_one_fault(text):
    check_template(text)
