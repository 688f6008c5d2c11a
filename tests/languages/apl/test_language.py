"""The parts of the language interface other than running: outlines, announcements and lint reports."""

import pytest

from stackmem.core.errors import Halted
from stackmem.core.facts import FramePushed, ModelReplied, ProgramFrame
from stackmem.core.messages import Text, Usage
from stackmem.core.program_facts import ToolAnswered
from stackmem.core.requests import InvokeTool
from stackmem.languages.apl.language import LANGUAGE
from stackmem.languages.apl.lint import lint_report
from stackmem.languages.language import Finding, Launch, read_with
from stackmem.languages.operations import FrameAnswer, Group, RunFrame
from tests.compliance.apl_stage import Case, World


def outline(text: str, **inputs: object) -> tuple[str, ...]:
    world = World(Case("outlined"))
    found: tuple[str, ...] = read_with(LANGUAGE.outline(Launch("/w/main.apl", text, dict(inputs))), world.load)
    return found


def test_an_outline_refuses_an_unknown_tool_before_anything_runs():
    with pytest.raises(Halted, match="Unknown Tool"):
        outline("main: [{name: a, tool: nope}]")


def test_an_outline_refuses_a_missing_input_as_a_run_does():
    with pytest.raises(Halted) as halted:
        outline("inputs: [{name: x, description: d, required: true}]\nmain: []")
    assert "*   **Phase**: `Initialization`\n*   **Step**: `Input Validation`" in halted.value.report


def pushed(kind: str = "work") -> FramePushed:
    return FramePushed(
        frame="frame-1", name="a", intent="a", return_spec="", constraint="", context="", program=ProgramFrame(kind)
    )


def replied(*texts: str) -> ModelReplied:
    return ModelReplied(tuple(map(Text, texts)), "call", Usage())


def test_the_first_text_of_an_agents_frame_is_its_plan():
    tell = LANGUAGE.announcer()
    assert tell(RunFrame("a", "Do it.")) == ("  Goal: Do it.", "  Parameters: {}")
    assert [tell(each) for each in (pushed(), replied("I look first."), replied("I go on."))] == [
        (), ("Plan: I look first.",), (),
    ]  # fmt: skip


def test_an_agent_that_only_calls_has_no_plan():
    tell = LANGUAGE.announcer()
    assert [tell(each) for each in (pushed(), replied(), replied("Later."))] == [(), (), ()]


def test_what_runs_side_by_side_is_announced_in_the_order_asked():
    tell = LANGUAGE.announcer()
    asked = Group((InvokeTool("read_file", {"path": "a"}), InvokeTool("read_file", {"path": "b"})))
    assert tell(asked) == ('  [1] Parameters: {"path": "a"}', '  [2] Parameters: {"path": "b"}')
    assert tell(ToolAnswered("late", branch=1)) == ("  [2] Result: late",)
    assert tell((FrameAnswer("one"), FrameAnswer("two"))) == ("  Result: one", "  Result: two")
    assert tell(ToolAnswered("alone")) == ("  Result: alone",)


def finding(line: int, severity: str, title: str, suggestion: str = "") -> Finding:
    return Finding("a.apl", line, 1, severity, "apl/x", "Say so.", title, suggestion)


def test_a_report_names_the_file_errors_first_and_counts():
    found = (finding(3, "warning", "Later"), finding(9, "error", "Worse", "Mend it."), finding(12, "warning", "Last"))
    assert lint_report("/w/a.apl", found) == (
        "APL VALIDATION REPORT\n\nFile: /w/a.apl\n\n"
        "*   [ERROR] Line 9: Worse\n    *   Message: Say so.\n    *   Suggestion: Mend it.\n"
        "*   [WARNING] Line 3: Later\n    *   Message: Say so.\n"
        "*   [WARNING] Line 12: Last\n    *   Message: Say so.\n\n"
        "Validation Failed: 1 error, 2 warnings."
    )


def test_a_report_of_warnings_alone_did_not_fail():
    assert lint_report("a", (finding(1, "warning", "W"),)).endswith("Validation Finished: 1 warning.")


def test_success_says_nothing():
    assert lint_report("a", ()) == ""
