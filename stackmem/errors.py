"""Every exception of stackmem.

::

    StackmemError            exit
    ├── UsageError              2   what was asked for cannot be: a name, a file, a key, a folder
    ├── ModelError              4   the model cannot go on: no provider, a script that ran dry
    ├── WorkspaceError          5   the sandbox cannot be had, or failed; the run stays resumable
    ├── RulesDiffer             6   a whole trace, from which today's rules derive something else
    ├── TraceError              7   a trace is broken, locked, or cannot be written
    └── ProgramError            1   a program halted

A model's mistake is none of these: it is a fact in the trace (``CallRejected``).
A message is one sentence that ends with the way out.
"""

import errno


class StackmemError(Exception):
    """Any failure that stackmem names; ``exit_code`` is what the command line ends with."""

    exit_code = 1


class UsageError(StackmemError):
    exit_code = 2


class ModelError(StackmemError):
    exit_code = 4


class WorkspaceError(StackmemError):
    exit_code = 5


class RulesDiffer(StackmemError):  # noqa: N818 - a finding of replay, named as the docs name it
    exit_code = 6


class TraceError(StackmemError):
    exit_code = 7


class ProgramError(StackmemError):
    exit_code = 1


def way_out(error: OSError) -> str:
    """What a person can do where a call of the system failed: the end of a sentence."""
    match error.errno:
        case errno.EMFILE | errno.ENFILE:
            return "allow more open files, as by: ulimit -n 1024"
        case errno.EFBIG:
            return "allow larger files, as by: ulimit -f unlimited"
        case errno.ENOENT if isinstance(error.filename, str) and "/" not in error.filename:
            return "name the folder that holds this program in PATH"
        case _:
            return "make room or rights there"


class Halted(ProgramError):  # noqa: N818 - a report, not a crash; the word of every language's documents
    """A program stops with a fault.

    Attributes:
        kind: The error's type as the language names it, such as ``Command Failed``.
        report: What is printed, whole.
        path: The step's place in the program.
    """

    def __init__(self, kind: str, report: str, path: str = "") -> None:
        super().__init__(report)
        self.kind, self.report, self.path = kind, report, path
