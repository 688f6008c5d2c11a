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
