"""Runs Python of programs, each time in a separate sandbox process that blocks while it calls the program back.

The process asks by writing ``ask-N.json`` to its folder, then waits for ``answer-N.json``. If the process is gone,
because the run was resumed or another function had to run, it is restarted and reads its earlier answers from there.

Rule 1: Only one process exists at a time. A waiting process is stopped before another one starts.
Rule 2: Only the process's own running time counts toward its limit, not the time that it waits for answers. A function
    of a playbook has one limit, a Python program one for each stretch between two requests.
Rule 3: What a process does depends on its order and its answers only. A restarted process of a Python program must
    therefore make the recorded requests again; the first one that differs is reported as ``diverged``.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec import UNSET, UnsetType

from stackmem.core.errors import WorkspaceError
from stackmem.core.network import NetworkRequest
from stackmem.core.program_facts import ToolAnswered, ToolFailure
from stackmem.core.strict_json import strict_value
from stackmem.core.text import whole_value
from stackmem.workspace.command import CommandEnd
from stackmem.workspace.refusals import ToolRefused
from stackmem.workspace.secrets import scrub_value
from stackmem.workspace.workspace import Workspace

from ..frame.bounds import FILE_BYTES, SECONDS

_LOOK_SECONDS, _MIN_LOOK_SECONDS = 0.01, 0.001
_END_SECONDS = 2.0
_CLEAR_SECONDS = 30.0
_LAST = ("returned", "raised", "malformed", "diverged")
"""Requests after which a process ends."""


class Live:
    """A running process."""

    def __init__(self, order: dict[str, Any], workspace: Workspace) -> None:
        self._folder, self._workspace = order["folder"], workspace
        self._started_as = _identity(order)
        self._program = order.get("session") is not None
        self._ended: CommandEnd | None = None
        self._error: Exception | None = None
        self._used_seconds = 0.0
        self._answers: list[Any] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self, order: dict[str, Any]) -> None:
        self._clear()
        self._write("run.py", order["program"])
        self._write("order.json", order["order"])
        if self._program:
            self._write("api.py", order["session"]["api"])
        self._thread.start()

    def _clear(self) -> None:
        """Remove the files of a process that was killed together with its run."""
        try:
            self._workspace.files.names(self._folder)
        except ToolRefused:
            return
        self._workspace.run_apart(f"rm -rf {self._folder}", _CLEAR_SECONDS, FILE_BYTES)

    def continues(self, order: dict[str, Any]) -> bool:
        """Return whether a process with this order and these answers would be in the state of this one."""
        answers = order["answers"][: len(self._answers)]
        waiting = len(order["answers"]) > len(self._answers) and self._thread.is_alive()
        return waiting and self._started_as == _identity(order) and answers == self._answers

    def _run(self) -> None:
        folder = self._folder
        python = "PYTHONHASHSEED=0 python3 -s -u" if self._program else "python3 -u"
        # At the levels landlock and none nothing else ends the process if this one is killed. So it watches its parent.
        command = (
            f"{python} {folder}/run.py {folder} & child=$!\n"
            "parent() { kill -0 $PPID 2>/dev/null || [ -d /proc/$PPID ]; }; parent && sees=1\n"
            f"(while [ ! -e {folder}/stop ]; do [ $sees ] && ! parent && break; sleep 0.1; done; kill -9 $child) "
            ">/dev/null 2>&1 & watch=$!\n"
            f"wait $child; code=$?; kill $watch 2>/dev/null; rm -rf {folder}\n"
            "rmdir .stackmem/python .stackmem 2>/dev/null; exit $code"
        )
        try:
            self._ended = self._workspace.run_apart(command, SECONDS, FILE_BYTES)
        except (WorkspaceError, ToolRefused, OSError) as error:
            self._error = error

    def _write(self, name: str, text: str) -> None:
        self._workspace.files.make_directory(self._folder)
        wrote = self._workspace.files.write(f"{self._folder}/{name}", text)
        if wrote.failed:
            raise ToolRefused(wrote.text)

    def next(self, order: dict[str, Any], seconds: float, scrub: Callable[[str], str]) -> dict[str, Any]:
        """Return the process's next message after its answers: a ``call``, or ``stdout``, ``stderr`` and ``exit_code``.

        A restarted program's earlier requests are compared with the recorded ones as they arrive. Raise TimeoutError if
        the call has used up its time, and WorkspaceError if the sandbox failed.
        """
        answers, recorded = order["answers"], order["session"]["asked"] if self._program else []
        compared = len(self._answers)
        for number in range(len(self._answers), len(answers)):
            self._write(f"answer-{number}.json", json.dumps(answers[number]))
        if self._program:
            self._used_seconds = 0.0
            seconds *= max(1, len(answers) - len(self._answers))
        self._answers = list(answers)
        began, pause = time.monotonic(), _MIN_LOOK_SECONDS
        while self._thread.is_alive():
            while compared < len(recorded) and (message := self.request(compared)) is not None:
                now = scrub_value(message, scrub)
                if _compared(now) != _compared(recorded[compared]):
                    return {"call": "diverged", "number": compared, "recorded": recorded[compared], "now": now}
                compared += 1
            if compared >= len(recorded) and (message := self.request(len(answers))) is not None:
                self._used_seconds += time.monotonic() - began
                return dict(scrub_value(message, scrub))
            if self._used_seconds + time.monotonic() - began > seconds:
                raise TimeoutError
            time.sleep(pause)
            pause = min(_LOOK_SECONDS, pause * 1.5)
        if self._error is not None:
            raise self._error
        return dict(scrub_value(_output_of(self._ended), scrub))

    def request(self, number: int) -> dict[str, Any] | None:
        """Return a request of the process, or None if it has not been made. A request that is not JSON is malformed."""
        try:
            raw = self._workspace.files.read_whole(f"{self._folder}/ask-{number}.json", FILE_BYTES)
        except (ToolRefused, OSError):
            return None
        try:
            if len(raw) > FILE_BYTES:
                raise ValueError(f"it has over {FILE_BYTES:,} bytes")
            message = whole_value(strict_value(raw.decode()))
            if not isinstance(message, dict) or not isinstance(message.get("call"), str):
                raise ValueError("it is not an object with a call")
        except (ValueError, RecursionError) as error:
            return {"call": "malformed", "failed": f"the process sent a malformed request: {error}", "output": ""}
        return message

    @property
    def requests(self) -> tuple[NetworkRequest, ...] | UnsetType:
        """Network requests of the process, once it has ended."""
        return UNSET if self._ended is None else self._ended.requests or UNSET

    def finish(self) -> None:
        """Let a process end that has made its last request, and kill it if it does not."""
        with suppress(ToolRefused, OSError):
            self._write(f"answer-{len(self._answers)}.json", "{}")
        self._thread.join(_END_SECONDS)
        self.stop()

    def stop(self) -> None:
        """Kill the process and everything that it started."""
        with suppress(ToolRefused, OSError):
            if self._thread.is_alive():
                self._write("stop", "")
        self._thread.join()


def _identity(order: dict[str, Any]) -> tuple[Any, ...]:
    return order["program"], order["order"]


def _compared(message: dict[str, Any]) -> tuple[Any, ...]:
    """Return the parts of a request that must be the same when the program runs again."""
    names = ("call", "file", "line", "notes", *(["arguments"] if message.get("call") != "begin" else []))
    return tuple(message.get(name) for name in names)


def _output_of(ended: CommandEnd | None) -> dict[str, Any]:
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
        self, order: dict[str, Any], seconds: float, workspace: Workspace, scrub: Callable[[str], str]
    ) -> ToolAnswered:
        """Start or continue a call; see ``Live.next``.

        Raise ToolRefused if the call's files cannot be written, and WorkspaceError if the sandbox failed.
        """
        folder = order["folder"]
        live = self._live.pop(folder, None)
        if live is not None and not live.continues(order):
            live.stop()
            live = None
        try:
            if live is None:
                self.stop()
                live = Live(order, workspace)
                live.start(order)
            message = live.next(order, seconds, scrub)
        except TimeoutError:
            if live is not None:
                live.stop()
            detail = f"timed out after {seconds:g} s; everything it started was killed"
            return ToolAnswered(None, "timeout", detail, requests=live.requests if live is not None else UNSET)
        except BaseException:
            if live is not None:
                live.stop()
            raise
        if message.get("call") == "begin":  # what the program cannot repeat by itself becomes part of the recording
            message["arguments"] = {"clock": time.time(), "seed": os.urandom(16).hex()}
        if "call" in message and message["call"] not in _LAST:
            if order.get("session") is not None and not workspace.runs_several:
                live.stop()  # it would block the effect's own commands, so it is started again afterwards
            else:
                self._live[folder] = live
            return ToolAnswered(message)
        if "call" in message:
            live.finish()
            return ToolAnswered(message, requests=live.requests)
        failed: ToolFailure = "killed" if message["reason"] else "exit" if message["exit_code"] else ""
        detail = f"exit {message['exit_code']}" if failed == "exit" else message["reason"]
        return ToolAnswered(message, failed, detail, requests=live.requests)

    def stop(self) -> None:
        """Kill all waiting processes."""
        while self._live:
            self._live.popitem()[1].stop()
