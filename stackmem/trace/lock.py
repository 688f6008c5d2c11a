"""One writer per run: a lock file next to the trace, which names the writing process.

Rule 1: The kernel's lock on the file decides, so a dead process releases it immediately, however it died.
Rule 2: If the file system has no such locks, the process named in the file decides: the same id, started at the same
    time since the same boot.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from stackmem.core.errors import TraceError
from stackmem.core.strict_json import decode_json
from stackmem.foreign.files import descriptor_of_regular

StrPath = str | os.PathLike[str]
RUNNING, INTERRUPTED = "running", "interrupted"  # outcomes of a run whose trace has no end
_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}  # the file system has no locks
_TRIES = 100  # each attempt can lose the file to a holder that removes it
_PATIENCE_SECONDS = 5.0
_LOOK_SECONDS = 0.5


class Holder(Struct, frozen=True):
    """A process that writes a run."""

    pid: int
    started: int = 0  # clock ticks from boot to the start of the process; 0 if unknown
    boot: str = ""  # id of that boot; empty if unknown


class Lock:
    """The right to write one trace, from construction until ``close`` or the end of the process."""

    def __init__(self, trace: Path, kind: str = "run") -> None:
        """Acquire the lock for ``trace``, whose folder must exist.

        ``kind`` is the name for the folder in messages. Raise TraceError if another process has the lock, or the lock
        file cannot be created.
        """
        self._path, self._kind = Path(lock_of(trace)), kind
        self._file = -1
        try:
            self._file = self._acquire(trace)
        except OSError as error:
            raise TraceError(
                f"the lock {self._path} cannot be created: {error.strerror}; free disk space or change the permissions"
            ) from error

    def _acquire(self, trace: Path) -> int:
        for _ in range(_TRIES):
            # No link is followed: a run folder from someone else could point the lock at a file of the user.
            file = descriptor_of_regular(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
            try:
                _lock(file, f"{self._kind} {trace.parent.name}")
                # otherwise the previous holder removed this file when it closed, and others will lock a new one
                if os.fstat(file).st_nlink:
                    os.ftruncate(file, 0)
                    os.pwrite(file, msgspec.json.encode(_self()) + b"\n", 0)
                    return file
            except BaseException:
                os.close(file)
                raise
            os.close(file)
        raise TraceError(f"the lock {self._path} was in use at every attempt; try again")

    def close(self) -> None:
        """Release the lock. Further calls have no effect."""
        if self._file >= 0:
            with suppress(OSError):
                # Removed before it is released: afterwards another process may already have locked this file.
                self._path.unlink()
            os.close(self._file)
            self._file = -1


def lock_of(trace: StrPath) -> str:
    """Return the path of a trace's lock file, as text because a list of many runs needs many of them."""
    return f"{os.fspath(trace).rpartition('.')[0]}.lock"


def is_held(trace: StrPath) -> bool:
    """Return whether a living process has the lock for ``trace`` at this moment, without acquiring it."""
    try:
        file = descriptor_of_regular(lock_of(trace), os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        # A shared lock, so that two readers do not take each other for a holder. A writer who comes at this moment
        # tries again.
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        holder = _read_holder(file)
        return _is_alive(holder) if error.errno in _NO_LOCKS else isinstance(error, BlockingIOError)
    finally:
        os.close(file)
    return False


def current_outcome(trace: StrPath, outcome: str) -> str:
    """Return the outcome that users read: ``interrupted`` instead of ``running`` if no process writes the trace."""
    return INTERRUPTED if outcome == RUNNING and not is_held(trace) else outcome


def _lock(file: int, label: str) -> None:
    """Acquire the kernel lock. Raise TraceError if another process has it."""
    started_at = time.monotonic()
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder, waited = _read_holder(file), time.monotonic() - started_at
            # A process that is killed while it starts another one leaves the lock to that one until it calls exec. And
            # is_held has the lock for a moment.
            patience = _PATIENCE_SECONDS if holder is not None else _LOOK_SECONDS
            if _is_alive(holder) or waited > patience:
                raise _refusal(holder, label) from error
            # Short against the patience, long enough to cost nothing while another process starts.
            time.sleep(0.02)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            holder = _read_holder(file)
            if _is_alive(holder):
                raise _refusal(holder, label) from error
            return
        else:
            return


def _is_alive(holder: Holder | None) -> bool:
    return holder is not None and _lives(holder)


def _refusal(holder: Holder | None, label: str) -> TraceError:
    owner = f"process {holder.pid}" if holder is not None else "another process"
    return TraceError(f"{owner} is writing the {label}; wait until it ends, or stop it")


def _read_holder(file: int) -> Holder | None:
    """Return the holder named in a lock file. None if it is not written yet or unreadable."""
    try:
        return decode_json(os.pread(file, 4096, 0), Holder)
    except (OSError, msgspec.DecodeError):
        return None


def _lives(holder: Holder) -> bool:
    # Numbers of processes are reused: only with the start and the boot does one name a process.
    return holder.boot == _boot() and holder.started == _started(holder.pid) != -1


def _self() -> Holder:
    return Holder(os.getpid(), max(0, _started(os.getpid())), _boot())


def _started(pid: int) -> int:
    """Return the start of a process in ticks, or -1 if it does not exist or is a zombie."""
    try:
        # The program's name is in parentheses and may contain any character.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return -1 if fields[0] in {b"Z", b"X"} else int(fields[19])
    except (OSError, IndexError, ValueError):
        return -1


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""
