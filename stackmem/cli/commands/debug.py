"""``stackmem debug``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from stackmem.serve.dap import DebugSession, run_debugged


def command() -> None:
    """Debug playbooks from an editor: the Debug Adapter Protocol on stdin and stdout."""
    session = DebugSession(sys.stdin.buffer, sys.stdout.buffer)
    code = session.serve(lambda arguments, own: run_debugged(arguments, own, os.environ, Path.cwd()))
    sys.stdout = sys.stderr  # nothing but messages may stand on stdout
    sys.exit(code)
