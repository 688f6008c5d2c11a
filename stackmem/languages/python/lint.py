"""Finds what a resumed program could not repeat, and calls of ``stackmem`` that do not exist."""

from __future__ import annotations

import ast
import difflib
from typing import Literal

from stackmem.languages.language import Finding, in_order

from .messages import ARGUMENTS
from .reader import ProgramFault, PythonProgram, meaning

Severity = Literal["error", "warning", "note"]

EFFECTS = tuple(name for name in ARGUMENTS if name not in ("notes", "begin", "returned", "raised"))
API = ("step", "say", "now", "EffectFailed", "NotAllowed", "Finished", *EFFECTS)

_ERRORS = {
    "open": "stackmem.read_file or write_file", "io.open": "stackmem.read_file", "os.open": "stackmem.read_file",
    "subprocess": "stackmem.shell", "os.system": "stackmem.shell", "os.popen": "stackmem.shell",
    "os.fork": "stackmem.shell", "os.spawn": "stackmem.shell", "os.exec": "stackmem.shell",
    "os.listdir": "stackmem.list_files", "os.scandir": "stackmem.list_files", "os.walk": "stackmem.list_files",
    "glob": "stackmem.list_files", "shutil": "stackmem.shell", "tempfile": "stackmem.write_file",
    "os.remove": "stackmem.shell", "os.unlink": "stackmem.shell", "os.rename": "stackmem.shell",
    "os.mkdir": "stackmem.write_file", "os.makedirs": "stackmem.write_file", "os.rmdir": "stackmem.shell",
    "socket": "stackmem.shell", "urllib.request": "stackmem.shell", "http.client": "stackmem.shell",
    "requests": "stackmem.shell", "httpx": "stackmem.shell",
    "threading.Thread": "stackmem.ask_all", "threading.Timer": "stackmem.wait", "_thread": "stackmem.ask_all",
    "multiprocessing": "stackmem.ask_all", "concurrent.futures": "stackmem.ask_all", "asyncio": "stackmem.ask_all",
    "signal.signal": "a limit of the run", "signal.alarm": "a limit of the run", "sqlite3.connect": "stackmem.shell",
}  # fmt: skip
_NOTES = {
    "time.time": "stackmem.now()", "time.monotonic": "stackmem.now()", "time.perf_counter": "stackmem.now()",
    "datetime.datetime.now": "stackmem.now()", "datetime.datetime.today": "stackmem.now()",
    "datetime.datetime.utcnow": "stackmem.now()", "datetime.date.today": "stackmem.now()",
}  # fmt: skip
_WARNINGS = {
    "id": "an address differs in a resumed run", "os.getpid": "a process number differs in a resumed run",
    "ctypes": "what it does is not controlled", "input": "write stackmem.ask_user",
    "time.sleep": "write stackmem.wait",
}  # fmt: skip
_PATH_METHODS = ("read_text", "read_bytes", "write_text", "write_bytes", "iterdir", "rglob", "unlink", "touch")


def finding(path: str, severity: Severity, fault: ProgramFault) -> Finding:
    return Finding(path, fault.line, fault.column, severity, f"python/{fault.code}", str(fault))


def findings_of(path: str, program: PythonProgram) -> tuple[Finding, ...]:
    """Return the findings on a program, in the order of its lines."""
    visitor = _Visitor(path, program)
    visitor.visit(program.tree)
    return in_order(visitor.findings)


class _Visitor(ast.NodeVisitor):
    def __init__(self, path: str, program: PythonProgram) -> None:
        self._path, self._program = path, program
        self.findings: list[Finding] = []
        self._depth = 0  # of functions around the node
        self._imported: dict[str, str] = {}
        self._own = {each.name for each in ast.walk(program.tree) if isinstance(each, ast.FunctionDef | ast.ClassDef)}
        for node in ast.walk(program.tree):
            if isinstance(node, ast.Import):
                for each in node.names:
                    self._imported[each.asname or each.name.partition(".")[0]] = (
                        each.name if each.asname else each.name.partition(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                self._imported |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}

    def _add(self, severity: Severity, code: str, message: str, node: ast.expr | ast.stmt) -> None:
        fault = ProgramFault(code, message, node.lineno, node.col_offset + 1)
        self.findings.append(finding(self._path, severity, fault))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for each in (*node.decorator_list, *node.args.defaults, *(d for d in node.args.kw_defaults if d)):
            self.visit(each)
        self._depth += 1
        for statement in node.body:
            self.visit(statement)
        self._depth -= 1
        if node in self._program.steps and _yields(node):
            self._add("error", "generator-step", f"{node.name} is a generator; a step is a plain function", node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._add("error", "async-step", f"{node.name} is a coroutine; a step is a plain function", node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for each in node.names if node.module == "stackmem" else ():
            self._check_api(each.name, node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if name := meaning(node, self._program.names):
            self._check_api(name, node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = meaning(node.func, self._program.names)
        if name in EFFECTS and not self._depth:
            self._add(
                "error",
                "effect-outside-step",
                f"stackmem.{name} is called when the file loads; call it in a step",
                node,
            )
        elif not name:
            self._check_call(node)
        self.generic_visit(node)

    def _check_api(self, name: str, node: ast.expr | ast.stmt) -> None:
        if name not in API:
            near = difflib.get_close_matches(name, API, 1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(API))}"
            self._add("error", "unknown-name", f"stackmem has no {name!r}; {hint}", node)

    def _check_call(self, node: ast.Call) -> None:
        name = self._spelled(node.func)
        if (replacement := _match(name, _ERRORS)) is not None:
            message = f"{name} cannot be repeated when the run is resumed; use {replacement}"
            self._add("error", "not-repeatable", message, node)
        elif (reason := _match(name, _WARNINGS)) is not None:
            self._add("warning", "not-recorded", f"{name}: {reason}", node)
        elif (clock := _match(name, _NOTES)) is not None:
            self._add(
                "note",
                "controlled-clock",
                f"{name} reads the run's clock, which moves with each effect, like {clock}",
                node,
            )
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _PATH_METHODS:
            message = f"{node.func.attr} of a path is refused; use stackmem.read_file, write_file or list_files"
            self._add("warning", "not-repeatable", message, node)

    def _spelled(self, node: ast.expr) -> str:
        """Return the full name of a function, such as ``os.path.join``; empty if it is not a plain name."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        if node.id in self._imported:
            return ".".join([self._imported[node.id], *reversed(parts)])
        return "" if parts or node.id in self._own else node.id


def _match(name: str, table: dict[str, str]) -> str | None:
    while name:
        if name in table:
            return table[name]
        name = name.rpartition(".")[0]
    return None


def _yields(node: ast.FunctionDef) -> bool:
    waiting: list[ast.AST] = list(node.body)
    while waiting:
        each = waiting.pop()
        if isinstance(each, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(each)
    return False
