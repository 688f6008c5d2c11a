"""Read a SQLite database that another program wrote, and perhaps writes now, without changing it or its folder.

The file may be hostile: only plain tables are read, no function is called, and all reads together are limited. All
refusals are ``OSError`` with a ``strerror``, as in ``files.py``.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from .files import copy_regular, open_regular, spelled_size

SQLITE_START = b"SQLite format 3\0"
MAX_DATABASE_BYTES = 16 << 30
MAX_TEXT_BYTES = 1 << 30
_MAX_VALUE_BYTES = 256 << 20
_STEPS_AT_ONCE = 1_000_000
_MAX_STEPS = 4_000_000_000
"""SQLite virtual machine steps. The limit stops a query in a hostile file that would never end."""
_BUSY_SECONDS = 10.0
_PAUSES_SECONDS = (0.01, 0.1, 0.5)
"""Pauses after attempts that met a half-written index of the log; a writer completes it within microseconds."""
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_TRANSACTION})


class SqliteFile:
    """An open database. All reads see the same moment.

    ``tables`` are the tables to read; each must exist and be a plain table. ``text_bytes`` is the limit for all texts
    that are read; 1 GiB by default.

    Raises:
        OSError: On entering the context, while reading or at the end: the file cannot be read, is damaged, does not
            contain the tables, or changed without a lock.
    """

    def __init__(self, path: Path, tables: Sequence[str], text_bytes: int | None = None) -> None:
        self._path, self._tables = path, tables
        self._text_bytes = self._left = text_bytes or MAX_TEXT_BYTES
        self._unlocked: tuple[int, ...] = ()  # the state of a file that is read without a lock
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._database = self._open()
            self._check_tables()
        except sqlite3.Error as error:
            self._stack.close()
            raise self._unreadable(str(error)) from error
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        if kind is None and self._unlocked:
            state = self._state()
            if state[0] == self._unlocked[0] and state != self._unlocked:  # a new file in its place changes nothing
                raise self._unreadable("it changed while it was read; try again")

    def rows(self, query: str, *values: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query."""
        try:
            yield from map(self._counted, self._database.execute(query, values))
        except sqlite3.Error as error:
            raise self._unreadable(str(error)) from error

    def table(self, query: str) -> list[dict[str, Any]]:
        """Return the rows of a query by the names of their columns."""
        try:
            cursor = self._database.execute(query)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, self._counted(row), strict=True)) for row in cursor]
        except sqlite3.Error as error:
            raise self._unreadable(str(error)) from error

    def _counted(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        self._left -= sum(len(value) for value in row if isinstance(value, str | bytes))
        if self._left < 0:
            raise self._unreadable(f"it contains more than {spelled_size(self._text_bytes)} of text")
        return row

    def _open(self) -> sqlite3.Connection:
        self._path = self._path.resolve()
        open_regular(self._path).close()  # fails on a FIFO, on which SQLite would block
        log, shared = (self._has(name) for name in ("-wal", "-shm"))
        if self._has("-journal"):
            raise self._unreadable("a program stopped while it wrote; open and close it with that program")
        if log and shared:  # written by a running program, or one that was killed: SQLite's locks apply
            for pause in _PAUSES_SECONDS:
                if (database := self._connect_locked()) is not None:
                    return database
                time.sleep(pause)
        self._unlocked = self._state()
        if not log:
            return self._connect(self._path, "immutable=1")
        # Read a copy, because SQLite would create or repair the index next to the user's file
        folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="stackmem-")))
        for name in ("", "-wal"):
            copy_regular(f"{self._path}{name}", folder / f"copy{name}", MAX_DATABASE_BYTES)
        return self._connect(folder / "copy", "mode=ro")

    def _connect_locked(self) -> sqlite3.Connection | None:
        """Connect by SQLite's locks. Return None if the index of the log is half-written; a reader cannot repair it."""
        database = self._connect(self._path, "mode=ro&readonly_shm=1")
        try:
            database.execute("SELECT name FROM sqlite_master LIMIT 1").fetchall()  # takes the lock and reads the index
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_RECOVERY:
                raise
            database.close()
            return None
        return database

    def _has(self, suffix: str) -> bool:
        """Return whether a file of SQLite's with content exists next to the database.

        Raise OSError if it is a link or not a regular file. SQLite would write to its target or wait for it.
        """
        path = f"{self._path}{suffix}"
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return False
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            raise self._unreadable(f"{path} is a link or not a regular file")
        return status.st_size > 0

    def _state(self) -> tuple[int, ...]:
        status = self._path.stat()
        return status.st_ino, status.st_size, status.st_mtime_ns, self._has("-wal"), self._has("-shm")

    def _connect(self, path: Path, how: str) -> sqlite3.Connection:
        database = sqlite3.connect(
            f"{path.as_uri()}?{how}", uri=True, timeout=_BUSY_SECONDS, isolation_level=None, cached_statements=0
        )
        self._stack.callback(database.close)
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
        database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("PRAGMA cell_size_check = ON")
        database.execute("PRAGMA mmap_size = 0")  # a file that shrinks would end the process
        steps = iter(range(_MAX_STEPS // _STEPS_AT_ONCE))
        database.set_progress_handler(lambda: next(steps, None) is None, _STEPS_AT_ONCE)
        database.set_authorizer(_authorize)
        database.execute("BEGIN")
        return database

    def _check_tables(self) -> None:
        """Refuse views and virtual tables, which run code of the file when they are read."""
        schema = {name: (kind, sql) for name, kind, sql in self.rows("SELECT name, type, sql FROM sqlite_master")}
        for name in self._tables:
            kind, sql = schema.get(name, ("", ""))
            if not kind:
                raise self._unreadable(f"it has no table {name}")
            if kind != "table" or str(sql).split(None, 2)[1:2] == ["VIRTUAL"]:
                raise self._unreadable(f"{name} is a {kind if kind != 'table' else 'virtual table'}, not a table")

    def _unreadable(self, reason: str) -> OSError:
        return OSError(errno.EINVAL, reason, str(self._path))


def _authorize(action: int, *_: str | None) -> int:
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY
