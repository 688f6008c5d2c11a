"""Reports the test sessions of a check's Python processes, so that exit code 0 alone does not count as success.

Python imports this file at startup, before the workspace is on its path. It writes JSON lines to the file named by
``STACKMEM_CHECK_REPORT``: ``[process, "start", runner, arguments]``; ``[process, "begin"]`` and ``[process, "end",
collected, ran, passed, failed]`` for each test session; and ``[process, "exit"]`` for a process that called
``os._exit(0)``. It must run on every Python from 3.8 on, and must never break the check.
"""

from __future__ import annotations

import os
import sys
from typing import Any

REPORT = "STACKMEM_CHECK_REPORT"
_RUNNERS = ("pytest", "py.test", "unittest")
_ONLY_SHOWS = {"--version", "-V", "-VV", "--help", "-h", "--fixtures", "--markers"}
_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib takes longer to import than this runs


def runner_of(words: list[str]) -> tuple[str, list[str]]:
    """Return the test runner that a Python command line starts and its arguments; empty for other programs."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        word, at = words[at], at + 1
        if word.startswith("--"):
            at += word == "--check-hash-based-pycs"
            continue
        for position, letter in enumerate(word[1:], 2):
            if letter in "mc":
                subject = word[position:] or "".join(words[at : at + 1])
                rest = words[at + (not word[position:]) :]
                return _runner(subject if letter == "m" else _in_code(subject), rest)
            if letter in "WX":
                at += not word[position:]
                break
    return _runner(os.path.basename("".join(words[at : at + 1])), words[at + 1 :])  # noqa: PTH119


def _in_code(code: str) -> str:
    return "pytest" if "pytest" in code and "console_main" in code else ""


def _runner(name: str, arguments: list[str]) -> tuple[str, list[str]]:
    return (name if name in _RUNNERS and not _ONLY_SHOWS.intersection(arguments) else ""), arguments


def _without_witness(path: str) -> dict[str, str]:
    others = [location for location in path.split(os.pathsep) if os.path.abspath(location) != _HERE]  # noqa: PTH100
    return {REPORT: "", "PYTHONPATH": os.pathsep.join(others)}


class Witness:
    """Writes the report lines of one process."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._pid = os.getpid()
        self._name = f"{self._pid}-{os.urandom(6).hex()}"
        self._open, self._write, self._close = os.open, os.write, os.close
        self._getpid = os.getpid
        self._busy = False

    def say(self, *values: object) -> None:
        """Write one line. Does nothing in a forked child process."""
        if self._getpid() != self._pid:
            return
        words = [f'"{each}"' if isinstance(each, str) else str(each) for each in (self._name, *values)]
        try:
            file = self._open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                self._write(file, f"[{', '.join(words)}]\n".encode())
            finally:
                self._close(file)
        except OSError:
            return

    def begin(self) -> bool:
        """Begin a session. Return False inside another session, because only the outer one counts."""
        if self._busy or self._getpid() != self._pid:
            return False
        self._busy = True
        # so that processes started by the tests are not counted
        for name, value in _without_witness(os.environ.get("PYTHONPATH", "")).items():
            os.environ.pop(name, None)
            if value:
                os.environ[name] = value
        self.say("begin")
        return True

    def end(self, collected: int, ran: int, passed: int, failed: int) -> None:
        self._busy = False
        self.say("end", collected, ran, passed, failed)

    def watch_exit(self) -> None:
        """Report ``os._exit(0)``, which would skip the rest of the program unnoticed."""
        import posix

        leave = posix._exit  # noqa: SLF001

        def _exit(status: int) -> None:
            if status == 0:
                self.say("exit")
            leave(status)

        os._exit = posix._exit = _exit  # type: ignore[assignment]  # noqa: SLF001


class Sessions:
    """A pytest plugin that counts tests. PYTEST_DONT_REWRITE"""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._begun = False
        self._collected = 0
        self._ran: set[str] = set()
        self._failed: set[str] = set()
        self._passed: set[str] = set()

    def pytest_sessionstart(self, session: Any) -> None:
        if not hasattr(session.config, "workerinput"):
            self._begun = self._witness.begin()

    def pytest_collection_finish(self, session: Any) -> None:
        self._collected = len(session.items)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._failed.add(report.nodeid)
        elif report.when == "call" and report.passed:
            self._passed.add(report.nodeid)
        if report.when == "teardown":
            self._ran.add(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self, session: Any) -> None:
        if self._begun:
            self._begun = False
            passed = len(self._passed - self._failed)
            self._witness.end(self._collected, len(self._ran), passed, len(self._failed))


def watch_pytest(witness: Witness, module: Any) -> None:
    """Register the counting plugin in each pytest session, after the plugins from the environment."""
    manager = module.PytestPluginManager
    consider = manager.consider_env

    def consider_env(self: Any) -> None:
        consider(self)
        if not self.has_plugin("stackmem-witness"):
            self.register(Sessions(witness), "stackmem-witness")

    manager.consider_env = consider_env


def watch_unittest(witness: Witness, module: Any) -> None:
    """Count the tests of each unittest run."""
    run = module.TextTestRunner.run

    def counted(self: Any, test: Any) -> Any:
        collected, outermost = test.countTestCases(), witness.begin()
        result = run(self, test)
        if outermost:
            failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
            ran, skipped = result.testsRun, len(result.skipped)
            stopped = result.shouldStop and not failed
            witness.end(collected if stopped else ran, ran, max(ran - skipped - failed, 0), failed)
        return result

    module.TextTestRunner.run = counted


class AfterImport:
    """Import hook that leaves the import unchanged but calls a function after certain modules are loaded."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._wanted = {"_pytest.config": watch_pytest, "unittest.runner": watch_unittest}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        watch = self._wanted.pop(name, None)
        if watch is None:
            return None
        import importlib.util

        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            load(module)
            watch(self._witness, module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _next_sitecustomize() -> None:
    """Import the ``sitecustomize`` that this file hides, if there is one."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    others = [location for location in sys.path if os.path.abspath(location) != _HERE]  # noqa: PTH100
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


def main(path: str) -> None:
    witness = Witness(path)
    words = getattr(sys, "orig_argv", None)
    if words is None:
        with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123
            words = [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    runner, arguments = runner_of(words)
    witness.say("start", runner, "\0".join(arguments).encode("utf-8", "surrogateescape").hex() if runner else "")
    witness.watch_exit()
    sys.meta_path.insert(0, AfterImport(witness))


if REPORT in os.environ:
    try:
        main(os.environ[REPORT])
    except Exception as error:  # noqa: BLE001 - the check must run as it would without this file
        sys.stderr.write(f"the tests are not counted: {error}\n")
    _next_sitecustomize()
