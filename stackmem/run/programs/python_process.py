"""Runs Python functions of programs, each in a separate sandbox process that blocks while it calls the program back.

The process asks by writing ``ask-N.json`` to its folder, then waits for ``answer-N.json``. If the process is gone,
because the run was resumed or another function had to run, it is restarted and reads its earlier answers from there.

Rule 1: Only one process exists at a time. A waiting process is stopped before another one starts.
Rule 2: Only the function's own running time counts toward its limit, not the time that it waits for answers.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec import UNSET, UnsetType

from stackmem.core.network import NetworkRequest
from stackmem.core.program_facts import ToolAnswered, ToolFailure
from stackmem.errors import WorkspaceError
from stackmem.workspace.command import CommandEnd
from stackmem.workspace.refusals import ToolRefused
from stackmem.workspace.secrets import scrub_value
from stackmem.workspace.workspace import Workspace

LONGEST_SECONDS = 3_600.0
_LOOK_SECONDS = 0.01
_MAX_BYTES = 10 * 1024 * 1024


class Live:
    """A running process."""

    def __init__(self, folder: str, workspace: Workspace) -> None:
        self._folder, self._workspace = folder, workspace
        self._ended: CommandEnd | None = None
        self._error: Exception | None = None
        self._spent = 0.0
        self._answered = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self, program: str, order: str) -> None:
        self._write("run.py", program)
        self._write("order.json", order)
        self._thread.start()

    def _run(self) -> None:
        place = self._folder
        command = (
            f"python3 -u {place}/run.py {place} & child=$!\n"
            f"(while [ ! -e {place}/stop ]; do sleep 0.1; done; kill -9 $child) >/dev/null 2>&1 & watch=$!\n"
            f"wait $child; code=$?; kill $watch 2>/dev/null; rm -rf {place}\n"
            "rmdir .stackmem/python .stackmem 2>/dev/null; exit $code"
        )
        try:
            self._ended = self._workspace.run_apart(command, LONGEST_SECONDS, _MAX_BYTES)
        except (WorkspaceError, ToolRefused, OSError) as error:
            self._error = error

    def _write(self, name: str, text: str) -> None:
        self._workspace.files.make_directory(self._folder)
        wrote = self._workspace.files.write(f"{self._folder}/{name}", text)
        if wrote.failed:
            raise ToolRefused(wrote.text)

    def next(self, answers: list[Any], seconds: float) -> dict[str, Any]:
        """Return the process's next message after these answers: a ``call``, or ``stdout``, ``stderr`` and
        ``exit_code``.
        """
        for number in range(self._answered, len(answers)):
            self._write(f"answer-{number}.json", json.dumps(answers[number]))
        self._answered = len(answers)
        began = time.monotonic()
        while self._thread.is_alive():
            with suppress(ToolRefused, ValueError, OSError):
                raw = self._workspace.files.read_whole(f"{self._folder}/ask-{len(answers)}.json", _MAX_BYTES)
                self._spent += time.monotonic() - began
                return dict(json.loads(raw))
            if self._spent + time.monotonic() - began > seconds:
                self.stop()
                raise TimeoutError
            time.sleep(_LOOK_SECONDS)
        if self._error is not None:
            raise self._error
        return _said(self._ended)

    @property
    def requests(self) -> tuple[NetworkRequest, ...] | UnsetType:
        """Network requests of the process, once it has ended."""
        return UNSET if self._ended is None else self._ended.requests or UNSET

    def stop(self) -> None:
        """Kill the process and everything that it started."""
        with suppress(ToolRefused, OSError):
            if self._thread.is_alive():
                self._write("stop", "")
        self._thread.join()


def _said(ended: CommandEnd | None) -> dict[str, Any]:
    streams = (ended.capture, ended.errors) if ended is not None else (None, None)
    out, err = (b"" if each is None else each.parts()[0] for each in streams)
    reason = "" if ended is None else ended.reason
    code = None if ended is None else ended.exit_code
    texts = {"stdout": out.decode("utf-8", "backslashreplace"), "stderr": err.decode("utf-8", "backslashreplace")}
    return {**texts, "exit_code": code, "reason": reason}


class PythonCalls:
    """The processes of one run, by the folder with the call's files."""

    def __init__(self) -> None:
        self._live: dict[str, Live] = {}

    def use(
        self, given: dict[str, Any], seconds: float, workspace: Workspace, scrub: Callable[[str], str]
    ) -> ToolAnswered:
        """Start or continue a call; see ``Live.next``."""
        folder, answers = given["folder"], given["answers"]
        live = self._live.pop(folder, None)
        try:
            if live is None:
                self.stop()
                live = Live(folder, workspace)
                live.start(given["program"], given["order"])
            message = scrub_value(live.next(answers, seconds), scrub)
        except TimeoutError:
            detail = f"timed out after {seconds:g} s; everything it started was killed"
            return ToolAnswered(None, "timeout", detail, requests=live.requests if live is not None else UNSET)
        except BaseException:
            if live is not None:
                live.stop()
            raise
        if "call" in message:
            self._live[folder] = live
            return ToolAnswered(message)
        failed: ToolFailure = "killed" if message["reason"] else "exit" if message["exit_code"] else ""
        detail = f"exit {message['exit_code']}" if failed == "exit" else message["reason"]
        return ToolAnswered(message, failed, detail, requests=live.requests)

    def stop(self) -> None:
        """Kill all waiting processes."""
        while self._live:
            self._live.popitem()[1].stop()
