"""The simulated ground under one life of a run: its disk, clock and provider, with faults chosen by a seed.

The program and the file system are real; the door between them is simulated. Any call of the file port (the functions
of ``os`` that change or sync something) may be the last one of a life: the process dies before, after or during it, and
nothing reaches the disk from then on. A call may also fail, or a signal may arrive during it.

After a power cut, each sector that was not synced has its old or its new content, in any order. A renamed file is the
old one, the new one, or missing.
"""

import errno
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, Self

from msgspec.structs import replace

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.requests import AskModel
from stackmem.models.registry import MODELS, ModelRequest, Scripted
from stackmem.run.ports import Clock

SECTOR_BYTES = 512
MODEL = "fate/bounded-reader"
FAILURES = ("overloaded", "rate_limited", "connection", "timeout", "incomplete", "server_error")
FAULTS = (
    "killed before",
    "killed after",
    "killed within",
    "power",
    "ctrl-c",
    "refused",
    "refused from then on",
    "short",
)
REFUSALS = (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EDQUOT)
DOORS = ("open", "write", "pwrite", "ftruncate", "fdatasync", "fsync", "replace", "rename", "unlink", "link")
CALLS_OF_A_LIFE = 45


class Died(BaseException):
    """The process died."""


class Weather:
    """A provider and a clock for one life; for the last life, and outside any life, both behave well."""

    def __init__(self, chance: Random | None = None) -> None:
        self.chance = chance
        self.now = 0.0
        self.jump = 0.0 if chance is None else chance.choice((0.0, -3e8, 3e8, -5.0))
        self.ill = 0.0 if chance is None else chance.choice((0.02, 0.3, 0.9))

    def elapsed(self) -> float:
        return self.now

    def wall(self) -> float:
        """Return the wall time, which the machine's owner or time server occasionally sets."""
        if self.chance is not None and self.chance.random() < 0.05:
            self.jump += self.chance.choice((-86_400.0, -1.0, 3_600.0))
        return 1.75e9 + self.now + self.jump

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def reply(self, model: Scripted, request: AskModel) -> ModelReplied | ModelFailed:
        """Return the model's reply, immediately, late, or never."""
        if self.chance is not None:
            self.now += self.chance.choice((0.1, 5.0, 900.0, 40_000.0))
            if self.chance.random() < self.ill:
                kind = "authentication" if self.chance.random() < 0.05 else self.chance.choice(FAILURES)
                return ModelFailed(kind, "the weather", self.chance.choice((None, 0.0, 3_000.0)))
        return model.reply(request)


class Fated:
    """The simulated reader behind a provider with changing weather."""

    def __init__(self, wanted: ModelRequest) -> None:
        self._model = MODELS["sim/"](wanted)
        self.name, self.window_tokens, self.price = MODEL, self._model.window_tokens, None

    def reply(self, request: AskModel) -> ModelReplied | ModelFailed:
        replies = sum(message.role == "assistant" for message in request.view.messages)
        return sky[-1].reply(self._model, replace(request, facts=replies))  # ids do not depend on failures


sky = [Weather()]
"""The last entry is the current weather."""


class Disk:
    """The door to the disk while the context is entered: one of its calls fails, and synced data is tracked.

    Attributes:
        dead: Whether the process died; no further call passes.
        calls: Number of calls made.
        forced: Synced bytes of the trace.
    """

    def __init__(self, run: Path, fault: str, at: int, chance: Random) -> None:
        self.dead = False
        self.calls = 0
        self._trace, self._fault, self._at, self._chance = run / "trace.jsonl", fault, at, chance
        self._refusal = chance.choice(REFUSALS)
        self._ours: dict[int, tuple[int, int]] = {}
        self.forced = self._trace.read_bytes()
        self._renamed: dict[Path, bytes | None] = {}

    def __enter__(self) -> Self:
        self._real: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in DOORS}
        for name in DOORS:
            setattr(os, name, self._door(name, self._real[name]))
        return self

    def __exit__(self, *_: object) -> None:
        for name, function in self._real.items():
            setattr(os, name, function)
        for file, inode in self._ours.items():  # as the kernel closes a dead process's descriptors
            with suppress(OSError):
                found = os.fstat(file)
                if self.dead and (found.st_dev, found.st_ino) == inode:
                    os.close(file)

    def _door(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def door(*args: Any, **named: Any) -> Any:
            if self.dead:
                raise Died
            self.calls += 1
            if self.calls == self._at or (self.calls > self._at and self._fault == "refused from then on"):
                return self._go_wrong(name, real, args, named)
            return self._pass(name, real, args, named)

        return door

    def _pass(self, name: str, real: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if name in ("replace", "rename"):
            target = Path(args[1])
            self._renamed.setdefault(target, target.read_bytes() if target.exists() else None)
        result = real(*args, **named)
        if name == "open":
            found = os.fstat(result)
            self._ours[result] = found.st_dev, found.st_ino
        elif name in ("fdatasync", "fsync") and self._is_trace(args[0]):
            self.forced = self._trace.read_bytes()
        return result

    def _go_wrong(self, name: str, real: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        match self._fault:
            case "killed within" | "short" if name in ("write", "pwrite"):
                part = self._chance.randrange(len(args[1]))
                written = real(args[0], args[1][:part], *args[2:])
                if self._fault == "short":
                    return written
            case "killed after":
                self._pass(name, real, args, named)
            case "ctrl-c":
                signal.raise_signal(signal.SIGINT)  # the call is interrupted, the handler runs, the call is retried
                return self._pass(name, real, args, named)
            case "refused" | "refused from then on" if not (name == "open" and args[1] & os.O_ACCMODE == os.O_RDONLY):
                raise OSError(self._refusal, os.strerror(self._refusal))
            case "refused" | "refused from then on" | "short":
                return self._pass(name, real, args, named)
            case _:
                pass
        self.dead = True
        raise Died

    def _is_trace(self, file: int) -> bool:
        one, other = os.fstat(file), self._trace.stat()
        return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)

    def cut_power(self) -> None:
        """Reduce the disk to what survives a power cut."""
        now = self._trace.read_bytes()
        self._trace.write_bytes(mixed(self.forced, now, self._chance))
        for place, before in self._renamed.items():
            left = self._chance.choice((before, b"", place.read_bytes() if place.exists() else None))
            if left is None:
                place.unlink(missing_ok=True)
            else:
                place.write_bytes(left)


def mixed(old: bytes, new: bytes, chance: Random) -> bytes:
    """Return a file in which every sector, and the length, may be old or new; unwritten parts are zeros."""
    longest = max(len(old), len(new))
    length = chance.choice((len(old), len(new), chance.randrange(min(len(old), len(new)), longest + 1)))
    orderly = chance.random() < 0.5  # like most file systems: a longer file is complete
    kept = bytearray()
    for start in range(0, longest, SECTOR_BYTES):
        end = start + SECTOR_BYTES
        one = new if orderly or chance.random() < 0.6 else old
        kept += one[start:end].ljust(min(end, longest) - start, b"\0")
    return bytes(kept[:length])


@contextmanager
def weather(chance: Random | None) -> Iterator[Clock]:
    """Provide a clock, and a provider for ``Fated``, while the context is entered."""
    sky.append(Weather(chance))
    MODELS["fate/"] = Fated
    try:
        yield Clock(sky[-1].elapsed, sky[-1].wall, sky[-1].sleep)
    finally:
        del MODELS["fate/"]
        sky.pop()
