"""A workflow in memory: the effects it requests, and how it uses the answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stackmem.core.errors import UsageError
from stackmem.core.messages import ToolSpec
from stackmem.core.program_facts import StepEntered, StepLeft, ToolAnswered
from stackmem.core.requests import AskUser, InvokeTool, LoadSource
from stackmem.languages.language import Launch, read_with
from stackmem.languages.operations import (
    ChunkAnswer,
    Complete,
    Completion,
    EnterFrame,
    FrameAnswer,
    Group,
    LeaveFrame,
    ListChunks,
    ReadChunk,
    RunFrame,
    Source,
    ToolAnswer,
)
from stackmem.languages.sexp.language import LANGUAGE
from tests.languages.in_memory import Done, run_in_memory

OWN = (
    ToolSpec("look_up", "", '{"properties": {"limit": {}, "word": {}}, "required": ["word"]}'),
    ToolSpec("anything", "", "{}"),
)


def answers(*given: Any) -> Callable[[Any], Any]:
    """Return the answers in order. A function among them is called with the effect."""
    left = list(given)

    def answer(effect: Any) -> Any:
        found = left.pop(0)
        return found(effect) if callable(found) else found

    return answer


def run(text: str, *given: Any, sources: dict[str, str] | None = None, **more: Any) -> Done:
    launch = Launch("/p/main.sexp", text, tools=OWN, **more)
    return run_in_memory(LANGUAGE.start(launch), answers(*given), sources)


def effects(done: Done, kind: Any) -> list[Any]:
    found: list[Any] = []
    for each in done.happened:
        found += each.operations if isinstance(each, Group) and kind is not Group else [each]
    return [each for each in found if isinstance(each, kind)]


AGENT = '(defatom work (params goal extra) (instructions "Do {{goal}}") (description "A summary"))'
JUDGE = '(defatom judge (params text) (instructions "Judge {{text}}") (subtype "evaluator"))'


def test_the_value_of_a_program_is_json() -> None:
    done = run('(list 1 \'a "b" nil true 1.5 x (lambda () 1))', inputs={"x": {"k": [1, None]}})
    assert done.value == [1, "a", "b", [], True, 1.5, {"k": [1, []]}, "#<function lambda>"]
    assert run("nil").value is None
    assert run("(* 99999999999 99999999999)").value == "9999999999800000000001"


def test_a_task_is_a_frame_of_the_agent() -> None:
    done = run(f'{AGENT} (work (goal "it") (extra (list 1 2)))', FrameAnswer("done so"))
    (frame,) = effects(done, RunFrame)
    assert (frame.name, frame.task, frame.inputs, frame.returns) == ("work", "Do it", {"extra": [1, 2]}, "A summary")
    assert done.value["content"] == "done so"
    assert done.value["status"] == "COMPLETE"
    assert done.value["notes"] == {"template_used": "work", "task_id": "work-1"}
    notes = [each for each in done.happened if isinstance(each, StepEntered | StepLeft)]
    assert [type(note).__name__ for note in notes] == ["StepEntered", "StepLeft"]


def test_a_task_without_tools_is_one_completion_in_a_frame_of_its_own() -> None:
    done = run(f'{JUDGE} (judge (text "it"))', Completion("good"))
    kinds = [type(each) for each in done.happened if not isinstance(each, StepEntered | StepLeft)]
    assert kinds == [EnterFrame, Complete, LeaveFrame]
    assert done.value["content"] == "good"
    assert effects(done, Complete)[0].messages[0].parts[0].text == "Judge it"


@pytest.mark.parametrize(("failed", "reason"), [("misfit", "output_format_failure"), ("stalled", "subtask_failure")])
def test_a_frame_that_failed_is_a_failed_result(failed: str, reason: str) -> None:
    done = run(f"{AGENT} (work (goal 1) (extra 2))", FrameAnswer("words", failed=failed, detail="why"))
    assert done.value["status"] == "FAILED"
    assert done.value["content"] == "words"
    assert done.value["notes"]["error"] == {"type": "TASK_FAILURE", "reason": reason, "message": "why"}


@pytest.mark.parametrize(("failed", "reason"), [("misfit", "output_format_failure"), ("window", "llm_error")])
def test_a_completion_that_failed_is_a_failed_result(failed: str, reason: str) -> None:
    done = run(f"{JUDGE} (judge (text 1))", Completion("", failed=failed, detail="why"))
    assert done.value["notes"]["error"]["reason"] == reason
    assert effects(done, LeaveFrame)[0].result == "why"


def test_a_task_may_name_a_model_of_its_own() -> None:
    own = '(defatom t (params) (instructions "x") (model "m/large")) (t)'
    assert effects(run(own, FrameAnswer("")), RunFrame)[0].model == "m/large"
    judge = own.replace("(model", '(subtype "evaluator") (model')
    assert effects(run(judge, Completion("")), Complete)[0].model == "m/large"


def test_the_models_that_tasks_name_are_known_before_a_run_begins() -> None:
    text = '(defatom t (params) (instructions "x") (model "m/large")) (defatom u (params) (instructions "x")) (t) (u)'
    assert LANGUAGE.models is not None
    load = {"lib.sexp": '(defatom v (params) (instructions "x") (model "m/small"))'}
    launch = Launch("/p/main.sexp", text, options={"lib": ("lib.sexp",)})
    named = read_with(LANGUAGE.models(launch), lambda asked: Source(asked.path, load[asked.path]))
    assert named == ("m/small", "m/large")


def test_a_typed_task_has_its_value() -> None:
    typed = '(defatom t (params) (instructions "x") (output_format ((schema "{\\"type\\": \\"object\\"}"))))'
    done = run(f"{typed} (task-content (t))", FrameAnswer('{"a": 1}', {"a": 1}))
    assert effects(done, RunFrame)[0].schema == {"type": "object"}
    assert done.value == {"a": 1}


def test_a_schema_may_stand_in_a_file() -> None:
    typed = '(defatom t (params) (instructions "x") (output_format ((schema "s.json"))))'
    assert run(f"{typed} 5", sources={"s.json": '{"type": "object"}'}).value == 5
    gone = run(f"{typed} 5")
    assert gone.halted
    assert "The file 's.json' cannot be read: No such file" in gone.halted.report


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("(work (extra 1))", "the input 'goal' is missing"),
        ("(work (goal 1) (extra 1) (more 1))", "no parameter 'more'; known: goal, extra"),
        ("(deep (a nil))", "the input 'a.b' is missing"),
        ("(deep (a (list (list 'b nil))))", "the input 'a.b' is missing"),
    ],
)
def test_inputs_that_are_missing_or_unknown_fail_the_task(call: str, message: str) -> None:
    done = run(f'{AGENT} (defatom deep (params a) (instructions "x {{{{a.b}}}}")) {call}')
    assert done.value["notes"]["error"]["reason"] == "input_validation_failure"
    assert done.value["content"] == message


def test_a_field_of_an_input_may_be_named() -> None:
    text = '(defatom t (params a b) (instructions "{{a.k}} {{ b }} {{x.y}}")) (t (a d) (b (list 1 "z" nil)) (x.y 7))'
    done = run(text.replace("(params a b)", "(params a b x.y)"), FrameAnswer(""), inputs={"d": {"k": "deep"}})
    assert effects(done, RunFrame)[0].task == 'deep [1,"z",[]] 7'


def test_files_go_into_the_first_message() -> None:
    call = f'{AGENT} (work (goal nil) (extra 1) (files (list "a.py" "b.py")))'
    done = run(call, ToolAnswer("A"), ToolAnswer("B"), FrameAnswer("ok"))
    assert effects(done, RunFrame)[0].inputs == {"extra": 1, "file a.py": "A", "file b.py": "B"}


def test_a_file_that_is_missing_fails_the_task_before_it_begins() -> None:
    call = f'{AGENT} (work (goal 1) (extra 1) (files (list "a.py")))'
    done = run(call, ToolAnswer(None, "missing", "a.py does not exist"))
    assert done.value["notes"]["error"]["reason"] == "context_retrieval_failure"
    assert not effects(done, RunFrame)


SIMPLE = '(defatom a (params) (instructions "do a")) (defatom b (params) (instructions "do b") {}) '


def inputs_of(text: str, *given: Any, option: str = "") -> dict[str, Any]:
    done = run(SIMPLE.format(option) + text, *given)
    inputs: dict[str, Any] = effects(done, RunFrame)[-1].inputs
    return inputs


def test_earlier_results_are_inherited_where_the_context_says_so() -> None:
    two = (FrameAnswer("A done"), FrameAnswer("B done"))
    assert inputs_of("(a) (b)", *two) == {}
    assert inputs_of("(a) (b (context '((inheritContext full))))", *two) == {"results of earlier tasks": "a:\nA done"}
    given = "(let ((yes true)) (a) (b (context (list (list 'inheritContext 'full) (list 'accumulateData yes)))))"
    assert '"template_used":"a"' in inputs_of(given, *two)["results of earlier tasks"]


def test_a_subset_is_what_shares_files() -> None:
    read = ToolAnswer("x")
    text = '(a (files (list "f"))) (b (files (list "{}")) (context \'((inheritContext subset))))'
    given = (read, FrameAnswer("A done"), read, FrameAnswer("B done"))
    assert "results of earlier tasks" in inputs_of(text.format("f"), *given)
    assert "results of earlier tasks" not in inputs_of(text.format("g"), *given)


def test_fresh_context_attaches_what_is_found() -> None:
    text = "(b (context '((freshContext enabled))))"
    assert (
        inputs_of(text, ToolAnswer(["x.py", "heap:n"]), FrameAnswer(""))["relevant files and chunks"] == "x.py\nheap:n"
    )
    assert inputs_of(text, ToolAnswer([]), FrameAnswer("")) == {}


def test_the_session_is_shown_only_where_history_is_configured() -> None:
    two = (FrameAnswer("A done"), FrameAnswer("B done"))
    shown = {"the session so far": "TASK a\ndo a\nRESULT\nA done"}
    assert inputs_of("(a) (b)", *two, option="(history_config ((use_session_history true)))") == shown
    assert inputs_of("(a) (b (history_config '((history_turns_to_include 1))))", *two) == shown
    assert inputs_of("(a) (b (history_config '((history_turns_to_include 0))))", *two) == {}
    assert inputs_of("(a) (b (history_config '((use_session_history false))))", *two) == {}
    unrecorded = "(a (history_config '((record_in_session_history false)))) (b (history_config '()))"
    assert inputs_of(unrecorded, *two) == {}


def test_parallel_tasks_without_tools_are_asked_at_once() -> None:
    text = f"{JUDGE} (map task-content (parallel (judge (text 1)) (judge (text 2)) (list 3)))"
    done = run(text.replace(" (list 3)", ""), Completion("one"), Completion("two"))
    (group,) = effects(done, Group)
    assert [type(each) for each in group.operations] == [Complete, Complete]
    assert done.value == ["one", "two"]
    assert not effects(done, EnterFrame)


def test_parallel_branches_that_end_sooner_wait_for_the_others() -> None:
    text = f"""{JUDGE}
      (parallel (log-message "hi") (list (task-content (judge (text 1))) (task-content (judge (text 2))))
        (task-content (system_read_files (file_paths (list "a" "b")))) (try (shell) (catch (e) "no")))"""
    done = run(text, Completion("one"), ToolAnswer("A"), ToolAnswer("B"), Completion("two"))
    assert done.value == ["hi", ["one", "two"], {"a": "A", "b": "B"}, "no"]
    assert done.said == ["hi"]


def test_a_command_is_a_result_with_its_exit_code() -> None:
    value = {"stdout": "out", "stderr": "err", "exit_code": 3}
    done = run(
        '(system:execute_shell_command (command "x") (cwd "d") (timeout 5))', ToolAnswer(value, "exit", "exit 3")
    )
    (call,) = effects(done, InvokeTool)
    assert call == InvokeTool("shell", {"command": "x", "working_directory": "d"}, 5)
    assert done.value["status"] == "FAILED"
    assert done.value["content"] == "out"
    assert done.value["notes"]["exit_code"] == 3
    assert done.value["notes"]["stderr"] == "err"
    done = run('(shell (command "x"))', ToolAnswer({**value, "exit_code": 0}))
    assert (done.value["status"], done.value["content"], done.value["notes"]["exit_code"]) == ("COMPLETE", "out", 0)
    done = run('(shell (command "x"))', ToolAnswer(None, "too_large", "stdout is too long"))
    assert (done.value["status"], done.value["content"]) == ("FAILED", "stdout is too long")


@pytest.mark.parametrize(
    ("call", "asked", "given", "content"),
    [
        ('(read_file (path "a"))', InvokeTool("read_file", {"path": "a"}), "text", "text"),
        ('(system_list_directory (directory_path "d"))', InvokeTool("list_files", {"path": "d"}), ["x"], '["x"]'),
        ("(list_files)", InvokeTool("list_files", {}), [], "[]"),
        (
            '(write_file (path "a") (content "c"))',
            InvokeTool("write_file", {"path": "a", "content": "c", "parents": True}),
            None,
            "",
        ),
        ('(make_directory (path "d"))', InvokeTool("make_directory", {"path": "d"}), None, ""),
        ('(look_up (word "w"))', InvokeTool("look_up", {"word": "w"}), {"n": 1}, '{"n":1}'),
        ('(car (map \'look_up (list "w")))', InvokeTool("look_up", {"word": "w"}), "found", "found"),
        ("(car (map 'anything (list '((a 1)))))", InvokeTool("anything", {"a": 1}), "found", "found"),
    ],
)
def test_a_tool_is_called_by_its_name(call: str, asked: InvokeTool, given: Any, content: str) -> None:
    done = run(call, ToolAnswer(given))
    assert effects(done, InvokeTool) == [asked]
    assert done.value["content"] == content


def test_a_tool_that_failed_is_a_failed_result() -> None:
    done = run('(system_read_files (file_paths (list "a")))', ToolAnswer(None, "missing", "a does not exist"))
    assert done.value["notes"]["error"]["message"] == "a does not exist"


def test_a_file_is_not_written_over_unless_that_is_asked_for() -> None:
    call = '(system_write_file (file_path "a") (content "c"){})'
    done = run(call.format(""), ToolAnswer("old"))
    assert done.value["content"] == "a exists; set overwrite to true to replace it"
    done = run(call.format(""), ToolAnswer(None, "missing", "no"), ToolAnswer(None))
    assert [each.tool for each in effects(done, InvokeTool)] == ["read_file", "write_file"]
    done = run(call.format(" (overwrite true)"), ToolAnswer(None))
    assert [each.tool for each in effects(done, InvokeTool)] == ["write_file"]


def test_the_coding_agent_is_a_tool_of_its_own() -> None:
    done = run('(aider:automatic (prompt "mend it") (file_context (list "a.py")))', FrameAnswer("mended"))
    (frame,) = effects(done, RunFrame)
    assert (frame.task, frame.inputs) == ("mend it", {"files": ["a.py"]})
    assert done.value["content"] == "mended"
    failed = run('(aider_automatic (prompt "mend it"))', FrameAnswer("no", failed="stalled", detail="it stopped"))
    assert failed.value["notes"]["error"]["message"] == "it stopped"


@pytest.mark.parametrize(
    ("call", "report"),
    [
        ('(shell (cmd "x"))', "Tool 'shell' takes no 'cmd'; it takes command, working_directory, timeout"),
        ("(shell)", "Tool 'shell' needs 'command'"),
        ('(shell (command "x") (timeout "5"))', "'timeout' of tool 'shell' must be a number of seconds"),
        ('(system_read_files (file_paths "a"))', "'file_paths' of tool 'system_read_files' must be a list of texts"),
        ("(system_get_context (query 5))", "Tool 'system_get_context' takes a text 'query'"),
        (
            "(map 'shell (list 1) (list 2) (list 3) (list 4))",
            "Tool 'shell' takes command, working_directory, timeout; got 4",
        ),
    ],
)
def test_arguments_that_are_not_the_tools_halt_the_program(call: str, report: str) -> None:
    done = run(call)
    assert done.halted
    assert done.halted.kind == "Evaluation Error"
    assert done.halted.report.startswith(report)
    assert "main.sexp:1:" in done.halted.report


def test_context_is_found_among_chunks_and_files() -> None:
    done = run('(get_context (query "the word") (inputs \'((a "more") (b 5))))', ToolAnswer(["a.py"]))
    (call,) = effects(done, InvokeTool)
    assert call == InvokeTool(
        "find_context", {"query": "the word more", "strategy": "content", "chunks": [], "most": 10}
    )
    assert done.value == ["a.py"]
    done = run('(system:get_context (query "w") (matching_strategy "metadata"))', ToolAnswer(["a.py"]))
    assert effects(done, InvokeTool)[0].arguments["strategy"] == "metadata"
    assert done.value["parsedContent"] == ["a.py"]
    failed = run('(get_context (query "w"))', ToolAnswer(None, "error", "the index is gone"))
    assert failed.halted
    assert "the index is gone" in failed.halted.report


@pytest.mark.parametrize(("strategy", "content"), [("content", "text"), ("metadata", "")])
def test_chunks_are_handed_to_the_search(strategy: str, content: str) -> None:
    program = LANGUAGE.start(Launch("/p/m.sexp", f'(get_context (query "q") (matching_strategy "{strategy}"))'))
    assert next(program) == ListChunks()
    asked = program.send((("notes", 4, "about"),))
    if content:
        assert asked == ReadChunk("notes")
        asked = program.send(ChunkAnswer("text"))
    assert isinstance(asked, InvokeTool)
    assert asked.arguments["chunks"] == [{"name": "notes", "description": "about", "content": content}]


def test_a_task_is_called_by_position_where_a_function_is_wanted() -> None:
    done = run(f"{AGENT} (map 'work (list 1 2) (list 3 4))", FrameAnswer("one"), FrameAnswer("two"))
    assert [frame.task for frame in effects(done, RunFrame)] == ["Do 1", "Do 2"]


def test_faults_halt_with_their_kind_and_place() -> None:
    for text, kind, words in (
        ("(list 1\n (foo))", "Evaluation Error", "/p/main.sexp:2:2"),
        ("(list 1", "Syntax Error", "/p/main.sexp:1:1"),
        ("(loop 2000000 1)", "RESOURCE_EXHAUSTION", "RESOURCE_EXHAUSTION: The evaluation takes more than"),
    ):
        halted = run(text).halted
        assert halted
        assert halted.kind == kind
        assert words in halted.report
    assert run("(list 1\n (foo))").halted.path == "2:2"  # type: ignore[union-attr]


def test_budgets_are_set_at_the_head_of_a_file() -> None:
    assert run("(budgets (steps 20000000)) (loop 2000000 1)").value == 1
    deep = "(budgets (depth 50000) (steps 5000000)) (define (f n) (if (< n 1) 0 (+ 1 (f (- n 1))))) (f 40000)"
    assert run(deep).value == 40_000
    for wrong in ("(steps 0)", "(depth 200000)", "(bogus 1)", "(steps 5) (steps 6)", "5", "(steps x)", "(steps true)"):
        halted = run(f"(budgets {wrong})").halted
        assert halted
        assert halted.report.startswith("'budgets' takes (steps N) with N from 1 to 1,000,000,000")


def test_a_long_evaluation_can_be_stopped_on_its_way() -> None:
    for text in ("(loop 2100000 1)", "(loop 700000 (if true (list 1) 2))"):
        done = run(f"(budgets (steps 20000000)) (length (parallel {text} 1))")
        breaths = [note for note in done.happened if isinstance(note, StepEntered) and note.call == "goes on"]
        assert breaths


def test_libraries_are_loaded_before_the_program() -> None:
    sources = {"l.sexp": "(define (double x) (* 2 x))"}
    assert run("(double who)", options={"lib": ["l.sexp"]}, inputs={"who": 4}, sources=sources).value == 8
    with pytest.raises(UsageError, match=r"--lib gone.sexp cannot be read \(No such file\)"):
        run("1", options={"lib": ["gone.sexp"]})


def test_an_input_that_nothing_mentions_is_refused() -> None:
    with pytest.raises(UsageError, match="the program has no input 'whom'; known: who"):
        run("(list who)", inputs={"whom": 1})


def outline(text: str, **inputs: Any) -> Any:
    return read_with(
        LANGUAGE.outline(Launch("/p/m.sexp", text, inputs)), lambda asked: Source(asked.path, failed="No such file")
    )


def test_the_outline_names_expressions_and_inputs() -> None:
    long = '(log-message "' + "a" * 200 + '")'
    assert outline(f"(bind x 1)\n(list x who) {long} x 5", who=1) == (
        "(bind x 1)", "(list x who)", long[:100] + "…", "x", "5",
    )  # fmt: skip
    assert outline("(list who)") == ("(list who)", "needs the input who")
    with pytest.raises(Exception, match="Unbalanced"):
        outline("(list")


def test_a_session_evaluates_line_by_line_and_outlives_faults() -> None:
    lines = ["(bind x 2)", "(+ x 3)", "", "(foo)", "(list", "(loop 2000000 1)", "(list it x)", "(exit)"]
    done = run("(define (f) x)", *lines, options={"repl": True})
    assert [type(each) for each in done.happened if isinstance(each, AskUser)] == [AskUser] * len(lines)
    assert done.said[:2] == ["2", "5"]
    assert [said.splitlines()[0] for said in done.said[2:5]] == [
        "Unbound symbol or unrecognized operator: foo",
        "S-expression syntax error: Unbalanced parentheses or brackets.",
        "The evaluation takes more than 1,000,000 evaluation steps.",
    ]
    assert done.said[5] == "(5 2)"
    assert done.value is None


def test_a_person_reads_what_is_called_and_what_it_gave() -> None:
    announce = LANGUAGE.announcer()
    assert announce(StepEntered("1:2", "work")) == ("1:2 work",)
    assert announce(StepLeft("1:2", "object", 2)) == ("1:2 done",)
    assert announce(FrameAnswer("words")) == ("  words",)
    assert announce((Completion("one"), Completion("", failed="window", detail="too long"))) == (
        "  one",
        "  failed (window): too long",
    )
    assert announce(ToolAnswered(None, "exit", "exit 1")) == ("  failed (exit): exit 1",)
    assert announce(ToolAnswered("fine")) == ()
    assert LoadSource("x").listing is False


def test_a_slot_of_an_optional_parameter_is_empty_where_nothing_is_given() -> None:
    task = '(defatom t (params a (b optional)) (instructions "{{a}}|{{b}}|{{b.c}}") (subtype "evaluator"))'
    for call, wanted in {
        "(t (a 1))": "1||",
        "(t (a 1) (b nil))": "1||",
        "(t (a 1) (b '((c 2))))": '1|[["c",2]]|2',
    }.items():
        done = run(f"{task} {call}", Completion("ok"))
        assert done.value["content"] == "ok"
        assert effects(done, Complete)[0].messages[0].parts[0].text == wanted


def test_a_step_of_a_new_run_names_its_file() -> None:
    text = '(load "lib.sexp") (read_file (path "a"))'
    library = {"lib.sexp": '(read_file (path "b"))'}
    done = run(text, ToolAnswer("b"), ToolAnswer("a"), sources=library, options={"checked": True})
    assert [step.path for step in effects(done, StepEntered)] == ["lib.sexp:1:1", "main.sexp:1:19"]
    old = run(text, ToolAnswer("b"), ToolAnswer("a"), sources=library)
    assert [step.path for step in effects(old, StepLeft)] == ["1:1", "1:19"]


def test_what_a_write_looks_for_first_is_not_announced_as_missing() -> None:
    lines = LANGUAGE.announcer()
    gone = ToolAnswered(None, "missing", "'new.txt' does not exist")
    happened = [StepEntered("m.sexp:1:1", "system:write_file"), gone, StepLeft("m.sexp:1:1", "object", 3)]
    assert [line for each in happened for line in lines(each)] == ["m.sexp:1:1 system:write_file", "m.sexp:1:1 done"]
    assert lines(gone) == ("  failed (missing): 'new.txt' does not exist",)
