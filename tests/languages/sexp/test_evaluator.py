"""The evaluator in a Python program: its parameters, scopes and errors."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from msgspec import Struct

from stackmem.languages.sexp.errors import SexpEvaluationError, SexpSyntaxError, TaskError, UnboundSymbolError
from stackmem.languages.sexp.evaluator import SexpEvaluator
from stackmem.languages.sexp.values import SexpEnvironment
from tests.compliance.sexp_stage import Memory, Tasks, Tools, result


class World:
    """Evaluators with the stage's collaborators, and the texts they log."""

    def __init__(self, tasks: Any = None) -> None:
        self.tasks = tasks or Tasks()
        self.said: list[str] = []
        self.evaluator = SexpEvaluator(self.tasks, Tools(), Memory(), log=self.said.append)

    def value(self, text: str, **env: Any) -> Any:
        return self.evaluator.evaluate_string(text, SexpEnvironment(env))


def test_the_root_scope_is_the_one_that_was_given() -> None:
    env = SexpEnvironment({"x": 1})
    SexpEvaluator(Tasks(), Tools(), Memory()).evaluate_string("(bind y (+ x 1)) (set! x 5)", env)
    assert env.bindings == {"x": 5, "y": 2}


def test_without_collaborators_the_language_is_whole() -> None:
    evaluator = SexpEvaluator(None, None, None)
    assert evaluator.evaluate_string("(map (lambda (x) (* x x)) (list 1 2 3))") == [1, 4, 9]
    with pytest.raises(UnboundSymbolError):
        evaluator.evaluate_string("(work (a 1))")
    with pytest.raises(SexpEvaluationError, match="Error in finding context"):
        evaluator.evaluate_string('(get_context (query "x"))')
    with pytest.raises(SexpEvaluationError, match="Failed to register template 't'"):
        evaluator.evaluate_string('(defatom t (params) (instructions "x"))')


def test_a_mapping_is_written_as_pairs_that_read_as_they_are() -> None:
    table = {"a": 1, "b c": 2, "nil": 3, "7": 4, "-": 5}
    shown = '((a 1) ("b c" 2) ("nil" 3) ("7" 4) (- 5))'
    assert World().value("(string-append x)", x=table) == shown
    assert World().value(f'(get-field \'{shown} "nil")') == 3


def test_without_a_scope_there_is_an_empty_one() -> None:
    assert SexpEvaluator(Tasks(), Tools(), Memory()).evaluate_string("(+ 1 2)") == 3


def test_an_outer_scope_is_seen_and_changed_where_the_name_is_its_own() -> None:
    outer = SexpEnvironment({"x": None})
    inner = outer.extend({"y": 1})
    assert SexpEvaluator(Tasks(), Tools(), Memory()).evaluate_string(
        "(bind y 2) (list (null? x) (set! x 3))", inner
    ) == [True, 3]
    assert outer.lookup("x") == 3
    assert inner.lookup("y") == 2


def test_a_scope_says_which_name_it_has_not() -> None:
    env = SexpEnvironment()
    env.define("a", 1)
    assert env.extend({}).lookup("a") == 1
    with pytest.raises(UnboundSymbolError, match="'b'"):
        env.lookup("b")
    with pytest.raises(NameError):
        env.extend({}).set_value_in_scope("b", 1)


def test_only_text_is_evaluated() -> None:
    with pytest.raises(TypeError, match="a workflow is a text, not int"):
        World().evaluator.evaluate_string(5)  # type: ignore[arg-type]


def test_a_syntax_error_has_the_source_and_the_place() -> None:
    with pytest.raises(SexpSyntaxError) as caught:
        World().value("(list 1\n  (list 2")
    error = caught.value
    assert error.sexp_string == "(list 1\n  (list 2"
    assert error.error_details == "S-expression syntax error: Unbalanced parentheses or brackets."
    assert (error.line, error.column) == (2, 3)
    assert str(error).endswith("<string>:2:3\n      (list 2\n      ^")


def test_an_evaluation_error_has_expression_place_and_caret() -> None:
    with pytest.raises(SexpEvaluationError) as caught:
        World().value("(list 1\n  (undefined 2))")
    assert str(caught.value) == (
        "Unbound symbol or unrecognized operator: undefined\nExpression: '(undefined 2)'\n<string>:2:3\n"
        "      (undefined 2))\n      ^"
    )


def test_an_error_tells_what_lies_below() -> None:
    with pytest.raises(SexpEvaluationError, match="Details: Unbound symbol: Name 'y' is not defined"):
        World().value("(let ((x y)) x)")


def test_a_long_line_is_shown_around_the_place() -> None:
    with pytest.raises(SexpEvaluationError) as caught:
        World().value("(list " + '"' + "a" * 500 + '" (undefined))')
    shown = str(caught.value).splitlines()
    assert max(map(len, shown)) <= 230
    assert shown[-2][shown[-1].index("^")] == "("


def test_no_python_shows_in_a_message() -> None:
    for text in (
        "(+ 1 (lambda () 1))",
        "(1 2)",
        "((lambda (x) x))",
        "(car 5)",
        "(greet 5)",
        "(director-evaluator-loop 5)",
    ):
        with pytest.raises(SexpEvaluationError) as caught:
            World().value(text)
        assert not any(word in str(caught.value) for word in ("<class", "object at", "Symbol(", "[Name", "Form("))


def test_what_is_logged_is_told() -> None:
    world = World()
    world.value('(log-message "a" 1) (log-message (list 2))')
    assert world.said == ["a 1", "(2)"]


def test_a_task_defined_once_is_there_in_the_next_evaluation() -> None:
    world = World()
    world.value('(defatom t (params a) (instructions "x {{a}}") (subtype "director") (model "m") (depends b c))')
    assert world.value("(task-content (t (a 5)))") == "t got a=5"
    template = world.tasks.find_template("t")
    assert template["subtype"] == "director"
    assert template["type"] == "atomic"
    assert template["model"] == "m"
    assert template["depends"] == ["b", "c"]
    assert template["params"] == {"a": {"type": "any"}}
    assert template["description"] == "Dynamically defined task: t"


def test_a_request_says_everything() -> None:
    world = World()
    world.value("(greet (name 1) (files (list \"a.py\")) (context '((inheritContext subset))) (history_config '()))")
    (request,) = world.tasks.requests
    assert (request.task_id, request.name, request.type, request.inputs) == ("greet-1", "greet", "atomic", {"name": 1})
    assert request.file_paths == ["a.py"]
    assert request.context_management.inheritContext == "subset"
    assert request.history_config.use_session_history is True
    assert request.position == "1:1"


SCHEMA = '(output_format ((type "json") (schema "{\\"type\\": \\"object\\", \\"required\\": [\\"n\\"]}")))'


@pytest.mark.parametrize(
    ("answer", "status", "value"),
    [
        (result('{"n": 3}'), "COMPLETE", {"n": 3}),
        ({**result("words"), "parsedContent": {"n": 4}}, "COMPLETE", {"n": 4}),
        (result('{"m": 3}'), "FAILED", []),
        (result("words"), "FAILED", []),
        (result("words", "FAILED"), "FAILED", []),
        ("words", "FAILED", []),
    ],
)
def test_typed_outputs_are_enforced(answer: Any, status: str, value: Any) -> None:
    class Answering(Tasks):
        def execute_atomic_template(self, request: Any) -> Any:
            return answer

    world = World(Answering())
    found = world.value(f'(defatom t (params) (instructions "x") {SCHEMA}) (t)')
    assert found["status"] == status
    assert found.get("parsedContent", []) == value


class Answered(Struct):
    content: str
    status: str
    parsedContent: Any = None  # noqa: N815
    notes: dict[str, Any] = {}


def test_a_result_may_be_an_object() -> None:
    class Answering(Tasks):
        def execute_atomic_template(self, request: Any) -> Any:
            return Answered('{"n": 1}', "COMPLETE", None, {"exit_code": None})

    world = World(Answering())
    assert isinstance(world.value("(typed)"), Answered)
    assert world.value("(list (task-ok? (typed)) (task-content (typed)) (task-exit-code (typed)))") == [
        True,
        '{"n": 1}',
        [],
    ]


@dataclasses.dataclass
class Thing:
    size: int
    none: Any = None
    _hidden: int = 1

    def method(self) -> int:
        return 1

    @property
    def computed(self) -> int:
        raise ValueError("no")


class Plain:
    model_fields = {"declared": None, "bad": None}  # noqa: RUF012 - as in pydantic

    def __init__(self) -> None:
        self.own = (1, None)

    @property
    def declared(self) -> int:
        return 7

    @property
    def bad(self) -> int:
        raise ValueError("broken")


@pytest.mark.parametrize(
    ("name", "value"),
    [("size", 3), ("none", []), ("_hidden", []), ("method", []), ("computed", []), ("__class__", []), ("gone", [])],
)
def test_only_fields_of_objects_are_read(name: str, value: Any) -> None:
    assert World().value("(get-field x name)", x=Thing(3), name=name) == value


def test_declared_fields_and_attributes_of_instances_are_read() -> None:
    assert World().value("(list (get-field x 'declared) (get-field x 'own))", x=Plain()) == [7, [1, []]]
    with pytest.raises(SexpEvaluationError, match="'get-field' cannot read the field 'bad'") as caught:
        World().value("(get-field x 'bad)", x=Plain())
    assert caught.value.error_details == "ValueError: broken"


def test_strange_objects_are_values_and_equal_to_themselves() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise ValueError("no")

        __hash__ = None  # type: ignore[assignment]

    odd = Odd()
    assert World().value("(list (equal? x x) (equal? x y))", x=odd, y=Odd()) == [True, False]
    assert World().value("(string-append x)", x=odd) == "#<Odd>"
    assert World().value("(string-append x)", x=float("inf")) == "#<number inf>"
    assert World().value("(+ 1 n)", n=2.5) == 3.5
    with pytest.raises(SexpEvaluationError, match="got a value"):
        World().value("(+ 1 x)", x=odd)
    with pytest.raises(SexpEvaluationError, match="got a mapping"):
        World().value("(+ 1 x)", x={"a": 1})


class ForeignTaskError(Exception):
    """An error class that another task system calls TaskError."""


ForeignTaskError.__name__ = "TaskError"


def test_a_collaborators_own_task_error_comes_through_as_it_is() -> None:
    def stop(*_: Any) -> Any:
        raise ForeignTaskError("spent")

    class Stopping(Tasks):
        execute_atomic_template = stop
        register_template = stop

    with pytest.raises(ForeignTaskError):
        World(Stopping()).value("(try (greet (name 1)) (catch (e) 1))")
    with pytest.raises(ForeignTaskError):
        World(Stopping()).value('(defatom t (params) (instructions "x"))')
    with pytest.raises(ForeignTaskError):
        World().value("(f)", f=stop)


def test_errors_of_the_language_raised_by_a_function_come_through() -> None:
    def fail() -> Any:
        raise SexpEvaluationError("my own")

    def stop() -> Any:
        raise TaskError("TASK_FAILURE", "stopped")

    assert World().value("(try (f) (catch (e) (get-field e 'message)))", f=fail) == "my own"
    with pytest.raises(TaskError, match="stopped"):
        World().value("(try (f) (catch (e) 1))", f=stop)

    def quiet() -> Any:
        raise ValueError

    with pytest.raises(SexpEvaluationError, match="Error in a Python function: ValueError\n"):
        World().value("(f)", f=quiet)


def test_a_mapping_given_by_python_is_the_arguments_of_a_tool() -> None:
    found = World().value("(map 'aider_automatic (list given))", given={"prompt": "p"})
    assert found[0]["content"] == "aider p"


def test_without_a_reader_of_files_nothing_is_loaded() -> None:
    with pytest.raises(SexpEvaluationError, match="No files can be read here"):
        World().value('(load "lib.sexp")')


def test_a_task_that_comes_while_the_program_runs_is_found() -> None:
    world = World()

    def register() -> None:
        world.tasks.register_template({"name": "late", "params": {"a": {}}})

    text = "(define (go) (try (task-content (late (a 1))) (catch (e) 'not-yet))) (list (go) (register) (go))"
    assert world.value(text, register=register) == ["not-yet", [], "late got a=1"]


def test_a_long_value_is_cut_in_a_message() -> None:
    with pytest.raises(SexpEvaluationError, match=r'got a text: "a{79}…\n'):
        World().value("(car x)", x="a" * 500)


def test_a_look_up_that_fails_is_told() -> None:
    class Failing(Tasks):
        def find_template(self, name: str) -> Any:
            raise OSError("no disk")

    with pytest.raises(SexpEvaluationError, match="Error in looking up the task 'foo': OSError: no disk"):
        World(Failing()).value("(foo)")


def test_keyboard_interrupts_pass_through_everything() -> None:
    def interrupt() -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        World().value("(try (log-message (f)) (catch (e) 1))", f=interrupt)
