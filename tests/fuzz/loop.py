"""A small coverage-guided loop that searches for inputs a reader handles badly.

It keeps an input that reaches a new line and derives further inputs from it. A fault is any exception except the
reader's documented refusals, or more processor time than any input should need.
"""

import hashlib
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any

from msgspec import Struct

import stackmem
from tests.fuzz.mutations import mutated

PACKAGE = str(Path(stackmem.__file__).parent)
MAX_SECONDS = 20.0
"""Limit of processor time for one input of at most ``MAX_BYTES``."""
MAX_BYTES = 32_768
_MAX_KEPT = 400
_MAX_TRIES = 150


class Target(Struct, frozen=True):
    """A reader of bytes from untrusted sources.

    Attributes:
        read: Called with the bytes and an empty folder.
        seeds: Inputs that it accepts.
        watched: Path prefixes, below the package, of the files whose lines count.
        refusals: Exceptions that it may raise.
        words: Building blocks of inputs, in addition to the content of the seeds.
    """

    name: str
    read: Callable[[bytes, Path], object]
    seeds: Callable[[], list[bytes]]
    watched: tuple[str, ...]
    refusals: tuple[type[Exception], ...]
    words: tuple[bytes, ...] = ()


class TooLong(BaseException):
    """An input took more processor time than allowed."""


class Fault(Struct, frozen=True):
    """The fault that an input caused; ``where`` is the last line of our code that led to it."""

    kind: str
    where: str
    data: bytes
    trace: str

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.where


class Lines:
    """The lines of some files that were reached; a fully covered function is no longer watched."""

    def __init__(self, watched: tuple[str, ...]) -> None:
        self.reached: set[tuple[str, int]] = set()
        self._prefixes = tuple(f"{PACKAGE}/{prefix}" for prefix in watched)
        gone = [prefix for prefix, place in zip(watched, self._prefixes, strict=True) if not _files((place,))]
        if gone:
            raise ValueError(
                f"no module of the package starts with {', '.join(gone)}; watch the module that replaced it"
            )
        self._left: dict[CodeType, set[int]] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._called)
        threading.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)
            threading.settrace(None)  # type: ignore[arg-type]

    def _called(self, frame: FrameType, event: str, value: Any) -> Any:
        code = frame.f_code
        left = self._left.get(code)
        if left is None:
            ours = code.co_filename.startswith(self._prefixes)
            left = self._left[code] = {line for *_, line in code.co_lines() if line} if ours else set()
        return self._line if left else None

    def _line(self, frame: FrameType, event: str, value: Any) -> Any:
        code, line = frame.f_code, frame.f_lineno
        if line in self._left[code]:
            self._left[code].discard(line)
            self.reached.add((code.co_filename, line))
        return self._line

    def there_are(self) -> int:
        """Return the number of lines of the watched files that can be reached."""
        return sum(len(_lines_of(path)) for path in _files(self._prefixes))


class Fuzzer:
    """Searches for faults in one target.

    Args:
        guided: Whether to watch lines and to keep only the inputs that reach new ones. Watched code takes several times
            as long, so a search of a few inputs keeps all of them and watches only until a first line is reached.

    Attributes:
        kept: Inputs that were the first to reach some line.
        faults: The first input for each kind of fault, minimized.
    """

    def __init__(
        self,
        target: Target,
        place: Path,
        corpus: list[bytes] = [],  # noqa: B006 - only read
        *,
        guided: bool = True,
    ) -> None:
        self.target, self._place, self._guided = target, place, guided
        self.lines = Lines(target.watched)
        self.kept: list[bytes] = []
        self.faults: dict[tuple[str, str], Fault] = {}
        self.tried = 0
        self.seeds = target.seeds()
        self._import_libraries()
        for data in (*self.seeds, *corpus):
            self.try_one(data)
        self.by_seeds = len(self.lines.reached)

    def _import_libraries(self) -> None:
        """Read a seed without watching lines, because imports take twice as long if they are watched."""
        self._place.mkdir(parents=True, exist_ok=True)
        with suppress(Exception):  # the watched call reports it
            self.target.read(self.seeds[0], self._place)

    def go_on(self, chance: Random, *, inputs: int = sys.maxsize, seconds: float = float("inf")) -> None:
        """Try this many further inputs, or run for this much processor time."""
        began = time.process_time()
        while inputs and time.process_time() - began < seconds:
            inputs -= 1
            # New finds lead further more often than the oldest ones.
            place = max(chance.randrange(len(self.kept)), chance.randrange(len(self.kept)))
            self.try_one(mutated(self.kept[place], chance, self.kept, self.target.words)[:MAX_BYTES])

    def try_one(self, data: bytes) -> None:
        self.tried += 1
        before = len(self.lines.reached)
        fault = self._read(data)
        if fault is not None and fault.key not in self.faults:
            self.faults[fault.key] = self._smaller(fault)
        if len(self.lines.reached) > before or not self.kept or not self._guided:
            self.kept.append(data)
            del self.kept[len(self.seeds) : -_MAX_KEPT]

    def _read(self, data: bytes) -> Fault | None:
        shutil.rmtree(self._place, ignore_errors=True)
        self._place.mkdir(parents=True)
        try:
            with self.lines.watching() if self._guided or not self.lines.reached else nullcontext(), _bounded():
                self.target.read(data, self._place)
        except self.target.refusals:
            return None
        except (Exception, TooLong) as error:  # noqa: BLE001 - whatever else it is, it is a fault
            frames = traceback.extract_tb(error.__traceback__)
            ours = [frame for frame in frames if frame.filename.startswith(PACKAGE)]
            last = ours[-1] if ours else frames[-1]
            where = f"{os.path.relpath(last.filename, Path(PACKAGE).parent)}:{last.lineno}"
            return Fault(type(error).__name__, where, data, "".join(traceback.format_exception(error)))
        return None

    def _smaller(self, fault: Fault) -> Fault:
        """Minimize an input with the same fault by leaving out ever smaller pieces."""
        size, tries = max(1, len(fault.data) // 2), 0
        while size and tries < (_MAX_TRIES if fault.kind != "TooLong" else 0):
            for start in range(0, len(fault.data), size):
                tries += 1
                found = self._read(fault.data[:start] + fault.data[start + size :])
                if found is not None and found.key == fault.key:
                    fault = found
                    break
            else:
                size //= 2
        return fault


@contextmanager
def _bounded() -> Iterator[None]:
    def over(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _files(prefixes: tuple[str, ...]) -> list[Path]:
    return [path for path in _modules() if str(path).startswith(prefixes)]


@cache
def _modules() -> tuple[Path, ...]:
    return tuple(sorted(Path(PACKAGE).rglob("*.py")))


@cache
def _lines_of(path: Path) -> set[int]:
    waiting, lines = [compile(path.read_bytes(), str(path), "exec", dont_inherit=True)], set()
    module = waiting[0]
    while waiting:
        code = waiting.pop()
        if code is not module:  # code that runs at import has already run
            lines |= {line for *_, line in code.co_lines() if line}
        waiting += [one for one in code.co_consts if isinstance(one, CodeType) and not _is_class(one)]
        waiting += [
            inner
            for one in code.co_consts
            if isinstance(one, CodeType) and _is_class(one)
            for inner in one.co_consts
            if isinstance(inner, CodeType)
        ]
    return lines


def _is_class(code: CodeType) -> bool:
    return "__module__" in code.co_names and "__qualname__" in code.co_names


def name_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:10]
