"""Every exception of stackmem.

::

    StackmemError            exit
    ├── UsageError              2   the request is not possible: a name, a file, a key, a folder
    ├── ModelError              4   the model cannot continue: no provider, a script without further replies
    ├── WorkspaceError          5   the sandbox is not available, or failed; the run can be resumed
    ├── RulesDiffer             6   the trace is intact, but today's rules derive something else from it
    ├── TraceError              7   a trace is broken, locked, or cannot be written
    └── ProgramError            1   a program halted

A model's mistake is not an exception: it is a fact in the trace (``CallRejected``).
A message is one sentence that says what is wrong and then what to do.
"""

import errno


class StackmemError(Exception):
    """Any failure that stackmem reports. ``exit_code`` is the exit code of the command line."""

    exit_code = 1


class UsageError(StackmemError):
    exit_code = 2


class ModelError(StackmemError):
    exit_code = 4


class WorkspaceError(StackmemError):
    exit_code = 5


class RulesDiffer(StackmemError):  # noqa: N818 - a finding of replay, named as in the docs
    exit_code = 6


class TraceError(StackmemError):
    exit_code = 7


class ProgramError(StackmemError):
    exit_code = 1


def way_out(error: OSError) -> str:
    """Return what the user can do about a failed system call, as the end of a sentence."""
    match error.errno:
        case errno.EMFILE | errno.ENFILE:
            return "allow more open files, for example with: ulimit -n 1024"
        case errno.EFBIG:
            return "allow larger files, for example with: ulimit -f unlimited"
        case errno.ENOENT if isinstance(error.filename, str) and "/" not in error.filename:
            return "add the folder of this program to PATH"
        case _:
            return "free disk space or change the permissions there"


class Halted(ProgramError):  # noqa: N818 - a report, not a crash; the term in every language's documentation
    """A program stops with a fault.

    Attributes:
        kind: The error's type as the language names it, such as ``Command Failed``.
        report: The complete printed report.
        path: The step's position in the program.
    """

    def __init__(self, kind: str, report: str, path: str = "") -> None:
        super().__init__(report)
        self.kind, self.report, self.path = kind, report, path
