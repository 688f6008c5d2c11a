"""``stackmem debug``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from stackmem.cli.options import argument, flag, run_folder
from stackmem.cli.screen.text import say
from stackmem.doors.debugger.dap import DebugSession
from stackmem.doors.debugger.dap_launch import debug_launched
from stackmem.doors.debugger.debugged import RecordedMoments
from stackmem.doors.debugger.terminal import TerminalDebugger


def command(
    run: str | None = argument("RUN", "A recorded run of a program to debug at the terminal.", None),
    runs_dir: str | None = flag("runs_dir"),
) -> None:
    """Debug a recorded run, forwards and backwards; without RUN, serve an editor with the Debug Adapter Protocol."""
    if run is not None:
        moments = RecordedMoments(run_folder(run, runs_dir))
        if moments.changed_since():
            say(f"{moments.program} has changed since; line numbers refer to the recorded program")
        TerminalDebugger(moments.program.parent).walk(moments)
        return
    # Use a private stream: Python aborts if a thread still reads sys.stdin when the interpreter exits.
    session = DebugSession(os.fdopen(os.dup(sys.stdin.fileno()), "rb"), sys.stdout.buffer)
    code = session.serve(lambda arguments, own: debug_launched(arguments, own, os.environ, Path.cwd()))
    sys.stdout = sys.stderr  # from here on only protocol messages may reach stdout
    sys.exit(code)
