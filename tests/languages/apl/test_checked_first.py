"""A run rejects a program for the same faults as the linter, before it performs any effect."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stackmem.core.program_facts import StepEntered
from stackmem.languages.apl.language import LANGUAGE
from stackmem.languages.language import Launch, read_with
from stackmem.languages.operations import Source

from ..in_memory import Done, run_in_memory
from .test_fuzz import MANY, PROGRAMS, SOURCES, answer

FEW = 30
Document = dict[str, Any]
NAMES = [f"name_{letter}" for letter in "abcd"]
CONTROLS = ("foreach", "while", "switch", "try", "parallel")


class Writer:
    """Generates valid programs, in which each step reads only variables that are certainly set before it."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.count = 0

    def program(self) -> Document:
        known = ["given"]
        phases = {name: self.steps(known, 2 if name == "main" else 1) for name in ("setup", "main", "finalize")}
        return {"inputs": [{"name": "given", "description": "d", "default": "x"}], **phases}

    def steps(self, known: list[str], deep: int) -> list[Document]:
        return [self.step(known, deep) for _ in range(self.draw(st.integers(1, 2)))]

    def step(self, known: list[str], deep: int) -> Document:
        kinds = ("log", "set_vars", "shell", "split", "agent_native", "run_apl", *(CONTROLS if deep else ()))
        kind = self.draw(st.sampled_from(kinds))
        self.count += 1
        return {"name": f"step {self.count}", **self.body(kind, known, deep)}

    def body(self, kind: str, known: list[str], deep: int) -> Document:
        read = f"{{{{ {self.draw(st.sampled_from(known))} }}}}"
        inner = list(known)  # variables set inside are not certain to be set after it
        match kind:
            case "log":
                return {"tool": "log", "message": read, "if": "maybe is not defined"}
            case "set_vars":
                return {"tool": "set_vars", "vars": {self.fresh(known): read}}
            case "shell":
                return {"tool": "shell", "command": f"echo {read[:-3]} | quote }}}}", "register": self.fresh(known)}
            case "split":
                return {"tool": "split", "from": f"<{read}>", "register": self.fresh(known)}
            case "agent_native":
                return {"tool": "agent_native", "prompt": f"Look at {read}", "using": "a hint"}
            case "run_apl":
                return {"tool": "run_apl", "program": "b.apl", "with_inputs": {"a": read}}
            case "switch":
                return {"switch": "given", "cases": {"x": self.steps(inner, deep - 1)}}
            case "try":
                return {"try": self.steps(inner, deep - 1), "catch": self.steps([*known, "error"], deep - 1)}
            case "while":
                return {"while": "given == 'never'", "run": self.steps(inner, deep - 1)}
        loop = "foreach" if kind == "foreach" else "parallel_foreach"
        return {loop: {"in": [1, 2], "loop_var": "item"}, "run": self.steps([*known, "item"], deep - 1)}

    def fresh(self, known: list[str]) -> str:
        name = self.draw(st.sampled_from(NAMES))
        known.append(name)
        return name


FAULTS: dict[str, Document] = {
    "a misspelt tool": {"tool": "shel", "command": "ls"},
    "a missing parameter": {"tool": "write_file", "to_file": "a"},
    "an unknown parameter": {"tool": "log", "message": "x", "level": 3},
    "a variable that nothing sets": {"tool": "log", "message": "{{ nobody }}"},
    "a bare name that nothing sets": {"tool": "split", "from": "nobody"},
    "a variable in using": {"tool": "agent_native", "prompt": "p", "using": "{{ nobody }}"},
    "a variable of the same map that comes later": {"tool": "set_vars", "vars": {"p": "{{ q }}", "q": 1}},
    "a condition over nothing": {"tool": "log", "message": "x", "if": "nobody == 1"},
    "a loop over nothing": {"foreach": {"in": "nobody", "loop_var": "x"}, "run": []},
    "a template that cannot be read": {"tool": "log", "message": "{{ 1 + }}"},
    "a condition that cannot be read": {"tool": "log", "message": "x", "if": "1 ="},
    "using that is neither text nor list": {"tool": "agent_native", "prompt": "p", "using": {"a": 1}},
    "a step that is not defined": {"run_step": "gone"},
    "a sub-program without its input": {"tool": "run_apl", "program": "c.apl"},
    "a sub-program with an unknown input": {"tool": "run_apl", "program": "b.apl", "with_inputs": {"zz": 1}},
    "a sub-program that is broken": {"tool": "run_apl", "program": "d.apl"},
    "a name that is none": {"tool": "set_vars", "vars": {"a-b": 1}},
}
FILES = SOURCES | {
    "c.apl": "inputs: [{name: a, description: d, required: true}]\nmain: []",
    "d.apl": "main: [{name: s, tool: gone}]",
}


@st.composite
def sound_programs(draw: st.DrawFn) -> Document:
    return Writer(draw).program()


def played(document: Document) -> Done:
    launch = Launch("/w/main.apl", json.dumps(document), options={"checked": True})
    return run_in_memory(LANGUAGE.start(launch), answer, FILES)


def refused_first(done: Done) -> bool:
    """Return whether the run halted before any phase, and so before any effect other than loading sources."""
    begun = any(isinstance(note, StepEntered) and note.call == "phase" for note in done.happened)
    return done.halted is not None and not begun


def errors(document: Document) -> list[str]:
    found = read_with(LANGUAGE.lint("/w/main.apl", json.dumps(document)), load)
    return [each.title for each in found if each.severity == "error"]


def load(asked: Any) -> Source:
    text = FILES.get(asked.path)
    return Source(asked.path, text or "", failed="" if text else "No such file")


def agree(document: Document) -> None:
    """Check that the linter rejects what a run rejects, unless only an input is missing."""
    done = played(document)
    needs_inputs = done.halted is not None and done.halted.kind == "Missing Required Input"
    if refused_first(done) and not needs_inputs:
        assert errors(document) != [], done.halted.report


@given(sound_programs())
@settings(max_examples=FEW, deadline=None)
def test_a_sound_program_has_no_errors_and_runs_to_its_end(document):
    assert errors(document) == []
    done = played(document)
    assert done.halted is None, done.halted


@pytest.mark.parametrize("fault", FAULTS)
@given(document=sound_programs(), data=st.data())
@settings(max_examples=FEW // 10, deadline=None)
def test_a_program_with_a_fault_anywhere_is_refused_by_both(fault, document, data):
    phase = data.draw(st.sampled_from(["setup", "main", "finalize"]))
    at = data.draw(st.integers(0, len(document[phase])))
    document[phase].insert(at, {"name": "the faulty one", **FAULTS[fault]})
    assert errors(document) != []
    done = played(document)
    assert refused_first(done)
    assert "the faulty one" in done.halted.report or "Invalid Program" in done.halted.report


@given(PROGRAMS)
@settings(max_examples=FEW, deadline=None)
def test_whatever_a_document_holds_a_run_that_refuses_it_agrees_with_the_linter(document):
    agree(document)


@pytest.mark.campaign
@pytest.mark.timeout(3_600)
@given(PROGRAMS)
@settings(max_examples=MANY, deadline=None)
def test_a_run_that_refuses_one_of_many_documents_agrees_with_the_linter(document):
    agree(document)
