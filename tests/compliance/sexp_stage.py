"""A simple world of tasks, tools, a memory and files in which the S-expression cases run."""

from __future__ import annotations

from typing import Any

from stackmem.languages.sexp.errors import Budget, TaskError
from stackmem.languages.sexp.evaluator import SexpEvaluator
from stackmem.languages.sexp.values import SexpEnvironment

FILES = {
    "lib.sexp": "(define (double x) (* 2 x))",
    "broken.sexp": "(define",
    "circle.sexp": '(load "circle.sexp")',
    "shape.json": '{"type": "object"}',
}


def result(content: str, status: str = "COMPLETE", notes: Any = None) -> dict[str, Any]:
    return {"content": content, "status": status, "notes": notes or {}}


class Tasks:
    """Knows a few tasks, and executes a program's tasks by returning their arguments."""

    def __init__(self) -> None:
        self.templates: dict[str, Any] = {
            "greet": {"type": "atomic", "params": {"name": {}}},
            "fails": {"params": {}}, "broken": {"params": {"name": {}}}, "spent": {"params": {}},
            "show": {"params": {}}, "loop-of-tasks": {"type": "composite"},
            "typed": {"output_format": {"schema": {"type": "object", "required": ["n"]}}},
        }  # fmt: skip
        self.requests: list[Any] = []

    def find_template(self, name: str) -> Any:
        return self.templates.get(name)

    def register_template(self, template: dict[str, Any]) -> Any:
        if template["name"] == "raising":
            raise KeyError("raising")
        if template["name"] == "refused":
            return False
        self.templates[template["name"]] = template
        return None

    def execute_atomic_template(self, request: Any) -> Any:
        self.requests.append(request)
        match request.name:
            case "greet":
                return result(f"hello {request.inputs['name']}")
            case "fails":
                return result("no", "FAILED")
            case "broken":
                raise RuntimeError("out of order")
            case "spent":
                raise TaskError("RESOURCE_EXHAUSTION", "out of turns", "turns")
            case "typed":
                return result('{"n": 3}')
            case "show":
                return result(_shown(request))
            case _:
                given = " ".join(f"{name}={value}" for name, value in request.inputs.items())
                return result(f"{request.name} got {given}")


def _shown(request: Any) -> str:
    context, history = request.context_management, request.history_config
    return " ".join([
        ",".join(request.file_paths) if request.file_paths else "none",
        f"{context.inheritContext}/{context.freshContext}" if context else "-",
        f"{history.use_session_history}/{history.history_turns_to_include}/{history.record_in_session_history}"
        if history
        else "-",
    ])  # fmt: skip


class Tools:
    def __init__(self) -> None:
        self.tool_executors = {
            "system_execute_shell_command": _shell,
            "aider:automatic": lambda given: f"aider {given['prompt']}",
            "numbers": lambda _: (1, None),
            "crashes": _crash,
            "given": str,
        }


def _shell(given: dict[str, Any]) -> dict[str, Any]:
    code = int(given["command"] != "true")
    notes = {"exit_code": code, "stdout": "", "stderr": ""}
    return result("", "FAILED" if code else "COMPLETE", notes)


def _crash(given: dict[str, Any]) -> Any:
    raise ValueError("bad   thing")


class Memory:
    def get_relevant_context_for(self, wanted: Any) -> Any:
        if wanted.query == "error":
            return {"error": "the index is gone"}
        if wanted.query == "strange":
            return {"matches": 5}
        return {"context_summary": "", "matches": [("a.py", 0.9), {"id": "heap:notes"}, {"relevance": 1}]}


def read_text(path: str, beside: str) -> tuple[str, str]:
    return path, FILES[path]


def evaluate(text: str, env: dict[str, Any] | None = None, budget: Budget | None = None) -> Any:
    bound = {name: (lambda x: x + x) if value == "python" else value for name, value in (env or {}).items()}
    evaluator = SexpEvaluator(Tasks(), Tools(), Memory(), budget=budget, read_text=read_text)
    return evaluator.evaluate_string(text, SexpEnvironment(bound))
