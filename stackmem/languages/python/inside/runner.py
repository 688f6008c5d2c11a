"""Run a Python program in the sandbox. This file is the process's main program; its argument is a folder.

The folder holds ``order.json`` and ``api.py``. Each effect is written to ``ask-N.json``, and ``answer-N.json`` answers
it. The last request is ``returned`` or ``raised``; then the process ends.
"""

from __future__ import annotations

import builtins
import dataclasses
import io
import json
import linecache
import os
import sys
import time
import traceback
import types
from typing import Any

_MAX_CHARS = 8 * 1024 * 1024
_sleep, _exit, _replace, _open = time.sleep, os._exit, os.replace, open
_dumps, _loads = json.dumps, json.loads


def plain(value: Any) -> Any:
    """Convert a value that JSON does not know."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def to_json(value: Any) -> str:
    return _dumps(value, allow_nan=False, default=plain)


class EffectChannel:
    """Sends requests to stackmem and waits for their answers."""

    def __init__(self, folder: str, order: dict[str, Any], failure: type[Exception]) -> None:
        self._folder, self._order, self._failure = folder, order, failure
        self._number, self._notes, self._printed = 0, list[dict[str, Any]](), list[str]()
        self._open = 0
        self.clock = RunClock()
        self.journal = Journal(order, self.owns)

    def say(self, text: str) -> None:
        self._printed.append(text)

    def enter(self, name: str, intent: str, line: int) -> None:
        self._open += 1
        self._note({"note": "enter", "name": name, "intent": intent[:2_000], "line": line})

    def leave(self, name: str, value: Any, failed: str) -> None:
        self._open -= 1
        try:
            text = value if isinstance(value, str) else to_json(value)
        except (TypeError, ValueError, RecursionError):
            text = f"a {type(value).__name__}"
        self._note({"note": "leave", "name": name, "result": (failed or text)[:10_000], "failed": bool(failed)})

    def _note(self, note: dict[str, Any]) -> None:
        self._flush()
        self._notes.append(note)
        if len(self._notes) >= 500:
            self._exchange("notes", {})

    def _flush(self) -> None:
        text = "".join(self._printed)
        self._printed.clear()
        if text:
            self._notes.append({"note": "say", "text": text[:1_000_000]})

    def request(self, call: str, **arguments: Any) -> Any:
        """Perform an effect and return its answer."""
        if not self._open:
            raise self._failure("not_allowed", f"{call} is an effect; call it inside a function marked @stackmem.step")
        answer = self._exchange(call, arguments)
        if "failed" in answer:
            raise self._failure(answer["failed"], answer.get("detail", ""), answer.get("value"))
        return answer["value"]

    def begin(self) -> None:
        answer = self._exchange("begin", {})
        control(self.clock, answer["seed"], self)

    def end(self, call: str, **arguments: Any) -> None:
        """Send the last request, and end the process once stackmem has read it."""
        self._send(call, arguments)
        self._answer()
        _exit(0)

    def _exchange(self, call: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self._send(call, arguments)
        answer = self._answer()
        self.clock.set(answer["clock"])
        return answer

    def _answer(self) -> dict[str, Any]:
        path, pause = f"{self._folder}/answer-{self._number - 1}.json", 0.0005
        while True:
            try:
                with _open(path, encoding="utf-8") as file:
                    answer: dict[str, Any] = _loads(file.read())
                    return answer
            except (OSError, ValueError):
                _sleep(pause)
                pause = min(0.05, pause * 1.3)

    def _send(self, call: str, arguments: dict[str, Any]) -> None:
        self._flush()
        file, line, function = self._caller()
        location = {"file": file, "line": line, "function": function}
        location |= {"lines": self.journal.take(), "frames": self.journal.stack(sys._getframe(1))}
        try:
            text = to_json({"call": call, "arguments": arguments, **location, "notes": self._notes})
        except (TypeError, ValueError, RecursionError) as error:
            raise self._failure("bad_arguments", f"the arguments of {call} are not JSON values: {error}") from None
        if len(text) > _MAX_CHARS:
            raise self._failure("too_large", f"{call} has {len(text):,} characters, the limit is {_MAX_CHARS:,}")
        self._notes = []
        path = f"{self._folder}/ask-{self._number}.json"
        with _open(f"{path}.tmp", "w", encoding="utf-8") as file_:
            file_.write(text)
        _replace(f"{path}.tmp", path)
        self._number += 1

    def _caller(self) -> tuple[str, int, str]:
        """Return the file, line and function of the innermost frame of the program."""
        frame: Any = sys._getframe(1)
        while frame is not None and not self.owns(frame.f_code.co_filename):
            frame = frame.f_back
        return (
            (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name) if frame else (self._order["file"], 0, "")
        )

    def owns(self, file: str) -> bool:
        """Return whether a file is the program or a module of its workspace."""
        order = self._order
        own = file == order["file"] or (file.startswith(order["home"] + "/") and not file.startswith(self._folder))
        return own and "/site-packages/" not in file

    def report(self, error: BaseException) -> tuple[str, int]:
        """Return an error with its places in the program, innermost first, and its line."""
        rows = [row for row in traceback.extract_tb(error.__traceback__) if self.owns(row.filename)]
        places = [(row.filename, row.lineno or 0, row.name) for row in reversed(rows)]
        if isinstance(error, SyntaxError) and error.filename:
            places.insert(0, (error.filename, error.lineno or 0, "<module>"))
            error = SyntaxError(error.msg)
        lines = [f"{type(error).__name__}: {error}"[:4_000]]
        for file, line, name in places[:20]:
            lines.append(f"  {os.path.basename(file)}:{line} in {name}")
            source = linecache.getline(file, line).strip()
            lines += [f"    {source[:200]}"] if source else []
        return "\n".join(lines), places[0][1] if places else 0


class Journal:
    """The lines that ran since the previous request, for a debugger.

    The code between two requests has no effects, so a debugger can stop at its lines after they ran.
    """

    def __init__(self, order: dict[str, Any], owns: Any) -> None:
        self._order, self._owns = order, owns
        self._lines: list[dict[str, Any]] = []
        self._chars = 0

    def start(self) -> None:
        if self._order["watched"]:
            sys.settrace(self._trace)

    def take(self) -> list[dict[str, Any]]:
        lines, self._lines, self._chars = self._lines, [], 0
        return lines

    def _trace(self, frame: Any, event: str, _: Any) -> Any:
        if not self._owns(frame.f_code.co_filename):
            return None
        if self._chars < _JOURNAL_CHARS:
            kind = {"call": "entered", "line": "line", "return": "left"}.get(event)
            views = self.stack(frame)
            self._chars += 100 + sum(len(str(view)) for view in views)
            self._lines += [{"kind": kind, "frames": views}] if kind else []
        return self._trace

    def stack(self, frame: Any) -> list[dict[str, Any]]:
        """Return the frames of the program, innermost first. The last one is the program itself."""
        frames: list[dict[str, Any]] = []
        base = {"name": "program", "file": self._order["file"], "line": self._order["line"]}
        while frame is not None and len(frames) < 50:
            code = frame.f_code
            if code.co_name == "<module>" and code.co_filename == self._order["file"]:
                base["line"] = max(1, frame.f_lineno or 1)  # 0 while the module is entered
            elif self._owns(code.co_filename):
                view = {"name": code.co_name, "file": code.co_filename, "line": frame.f_lineno}
                frames.append(view | ({"variables": json_values(frame.f_locals)} if self._order["watched"] else {}))
            frame = frame.f_back
        return [*frames, base]


_JOURNAL_CHARS = 4_000_000


def json_values(variables: dict[str, Any]) -> dict[str, Any]:
    """Return variables as JSON values; what is not a short one is shown as text."""
    values = {}
    for name, value in list(variables.items())[:100]:
        if isinstance(value, types.ModuleType | types.FunctionType | type):
            continue
        try:
            text = to_json(value)
            values[name] = _loads(text) if len(text) <= 2_000 else f"{text[:200]}…"
        except BaseException:  # noqa: BLE001 - the program's classes may raise anything
            values[name] = f"<{type(value).__name__}>"
    return values


class RunClock:
    """The run's clock. It moves with each answer, and by a microsecond with each reading."""

    def __init__(self) -> None:
        self._base, self._reads = 0, 0

    def set(self, seconds: float) -> None:
        base = int(seconds * 1e9)
        if base > self._base:
            self._base, self._reads = base, 0

    def nanoseconds(self) -> int:
        self._reads += 1
        return self._base + self._reads * 1_000


def control(clock: RunClock, seed: str, channel: EffectChannel) -> None:
    """Replace the clock, random numbers and the console of this process."""
    import random
    import uuid

    stream, reseed = random.Random(seed), random.Random.seed  # noqa: S311 - repeatable on purpose

    def seconds() -> float:
        return clock.nanoseconds() / 1e9

    def urandom(size: int, _: int = 0) -> bytes:
        return stream.randbytes(size)

    def seeded(self: random.Random, a: Any = None, version: int = 2) -> None:
        reseed(self, stream.getrandbits(64) if a is None else a, version)

    random.Random.seed = seeded  # type: ignore[method-assign]
    random._urandom = os.urandom = urandom  # type: ignore[attr-defined]
    if hasattr(os, "getrandom"):
        os.getrandom = lambda size, flags=0: urandom(size, flags)
    random.seed = random._inst.seed
    random.seed()
    uuid._generate_time_safe = uuid._UuidCreate = None  # type: ignore[attr-defined]
    uuid._node = 0x010000000000  # type: ignore[attr-defined]
    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
        setattr(time, name, seconds)
        setattr(time, f"{name}_ns", clock.nanoseconds)
    time.clock_gettime, time.clock_gettime_ns = lambda _: seconds(), lambda _: clock.nanoseconds()
    for name in ("gmtime", "localtime", "ctime"):
        _with_now(name, seconds)
    strftime, asctime = time.strftime, time.asctime

    def formatted(form: str, moment: Any = None) -> str:
        return strftime(form, time.localtime() if moment is None else moment)

    time.strftime = formatted
    time.asctime = lambda moment=None: asctime(time.localtime() if moment is None else moment)
    time.sleep = lambda amount: channel.request("wait", seconds=float(amount))
    _control_dates(seconds)
    builtins.input = lambda prompt="": channel.request("ask_user", question=str(prompt) or "?", options=[])


def _with_now(name: str, seconds: Any) -> None:
    """Replace a function that takes a time, or the current one without an argument."""
    convert = getattr(time, name)

    def converted(moment: float | None = None) -> Any:
        return convert(seconds() if moment is None else moment)

    setattr(time, name, converted)


def _control_dates(seconds: Any) -> None:
    """Replace ``datetime.datetime`` and ``datetime.date`` by subclasses that read the run's clock."""
    import datetime

    moment, day = datetime.datetime, datetime.date

    class Kind(type):
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, moment if cls.__name__ == "datetime" else day)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, moment if cls.__name__ == "datetime" else day)

    def fromtimestamp(cls: Any, tz: Any = None) -> Any:
        return cls.fromtimestamp(seconds(), tz)

    def utcnow(cls: Any) -> Any:
        return cls.fromtimestamp(seconds(), datetime.UTC).replace(tzinfo=None)

    def today(cls: Any) -> Any:
        return cls.fromtimestamp(seconds())

    shared = {"__module__": "datetime", "today": classmethod(today)}
    datetime.date = Kind("date", (day,), dict(shared))  # type: ignore[assignment,misc]
    more = {"now": classmethod(fromtimestamp), "utcnow": classmethod(utcnow)}
    datetime.datetime = Kind("datetime", (moment,), {**shared, **more})  # type: ignore[assignment,misc]


_FORBIDDEN = {
    "subprocess.": "use stackmem.shell", "os.system": "use stackmem.shell", "os.exec": "use stackmem.shell",
    "os.posix_spawn": "use stackmem.shell", "os.spawn": "use stackmem.shell", "os.fork": "use stackmem.shell",
    "pty.spawn": "use stackmem.shell", "socket.": "use stackmem.shell or stackmem.call_tool",
    "os.remove": "use stackmem.shell", "os.rename": "use stackmem.shell", "os.mkdir": "use stackmem.shell",
    "os.rmdir": "use stackmem.shell", "os.link": "use stackmem.shell", "os.symlink": "use stackmem.shell",
    "os.truncate": "use stackmem.write_file", "os.chmod": "use stackmem.shell", "os.utime": "use stackmem.shell",
    "sqlite3.connect": "use stackmem.shell", "signal.": "leave signals alone",
}  # fmt: skip
_LISTING = ("os.listdir", "os.scandir", "os.walk", "glob.glob", "glob.glob/2")
_CODE = (".py", ".pyc", ".pyi", ".so", ".pth", ".zip", ".json.zip")


def guard(folder: str, home: str, refusal: type[Exception]) -> None:
    """Refuse what a resumed run could not repeat. The hook cannot be removed."""
    allowed = (folder + "/", "/dev/null")
    installed = tuple({os.path.realpath(each) + "/" for each in (sys.prefix, sys.base_prefix, *_libraries())})

    def refuse(subject: str, replacement: str) -> None:
        raise refusal(
            f"{subject} is not allowed in a program, because a resumed run could not repeat it; {replacement}"
        )

    def is_inside(path: Any) -> bool:
        """Return whether a path is in the workspace, apart from installed packages."""
        if not isinstance(path, str | bytes):
            return not isinstance(path, int)
        name = os.path.abspath(os.fsdecode(path)) + "/"
        return name.startswith(home + "/") and not name.startswith(installed)

    def check_open(path: Any, flags: Any) -> None:
        if not isinstance(path, str | bytes) or (isinstance(flags, int) and flags < 0):
            return
        name = os.path.abspath(os.fsdecode(path))
        if name.startswith(allowed):
            return
        if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
            refuse(f"writing {os.path.basename(name)}", "use stackmem.write_file")
        if (is_inside(name) and not name.endswith(_CODE)) or name.startswith(("/proc/", "/dev/")):
            refuse(f"open of {os.path.basename(name)}", "use stackmem.read_file")

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            check_open(arguments[0], arguments[2])
        elif event in _LISTING:
            if is_inside(arguments[0]) and not _importing():
                refuse(event, "use stackmem.list_files")
        elif replacement := _forbidden(event, arguments, folder):
            refuse(event, replacement)

    sys.addaudithook(hook)
    _no_threads(lambda *_, **__: refuse("a thread", "use stackmem.ask_all, or do one thing after another"))


def _forbidden(event: str, arguments: tuple[Any, ...], folder: str) -> str:
    """Return what to use instead of something that is refused; empty if it is allowed."""
    if arguments == (":memory:",) or event == "sqlite3.connect/handle":
        return ""
    if event == "os.rename" and str(arguments[0]).startswith(folder + "/"):
        return ""
    return next((replacement for name, replacement in _FORBIDDEN.items() if event.startswith(name)), "")


def _no_threads(refuse: Any) -> None:
    """Replace the functions that start threads; some versions of Python raise no audit event for them."""
    import _thread
    import threading

    for module in (_thread, threading):
        for name in ("start_new_thread", "start_new", "start_joinable_thread"):
            for each in (name, f"_{name}"):
                if hasattr(module, each):
                    setattr(module, each, refuse)


def _libraries() -> list[str]:
    return [each for each in sys.path if "site-packages" in each or "dist-packages" in each]


def _importing() -> bool:
    frame: Any = sys._getframe(2)
    for _ in range(4):
        if frame is None:
            return False
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


class PrintedOutput(io.TextIOBase):
    """Collects the output of the program, which its next request contains."""

    def __init__(self, channel: EffectChannel) -> None:
        self._channel = channel

    def write(self, text: str) -> int:
        self._channel.say(str(text))
        return len(text)

    def writable(self) -> bool:
        return True


def main(folder: str) -> None:
    with _open(f"{folder}/order.json", encoding="utf-8") as file:
        order: dict[str, Any] = _loads(file.read())
    with _open(f"{folder}/api.py", encoding="utf-8") as file:
        source = file.read()
    api: Any = types.ModuleType("stackmem")
    api.__file__ = f"{folder}/api.py"
    sys.modules["stackmem"] = api
    exec(compile(source, api.__file__, "exec"), api.__dict__)  # noqa: S102 - this is the runner
    channel = EffectChannel(os.path.abspath(folder), order, api.EffectFailed)
    api._channel = channel
    sys.dont_write_bytecode = True
    sys.path[0] = order["folder"]
    sys.argv = [order["file"]]
    sys.stdout = sys.stderr = PrintedOutput(channel)
    sys.stdin = io.StringIO()
    try:
        _run(channel, order)
    except BaseException:  # noqa: BLE001 - an error of this runner, or of its channel
        os.write(2, traceback.format_exc().encode(errors="backslashreplace"))
        _exit(1)


def _run(channel: EffectChannel, order: dict[str, Any]) -> None:
    name = os.path.basename(order["file"]).partition(".")[0]
    try:
        channel.begin()
        text = order["text"]
        linecache.cache[order["file"]] = (len(text), None, text.splitlines(True), order["file"])
        module: Any = types.ModuleType(name if name.isidentifier() and name not in sys.modules else "program")
        module.__file__ = order["file"]
        sys.modules[module.__name__] = module
        api: Any = sys.modules["stackmem"]
        guard(os.path.abspath(channel._folder), order["home"], api.NotAllowed)
        code = compile(text, order["file"], "exec")
        channel.journal.start()
        exec(code, module.__dict__)  # noqa: S102 - this is the runner
        value = module.__dict__[order["entry"]](**order["inputs"])
        try:
            result = _loads(to_json(value))
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"{order['entry']} returned a value that is not a JSON value: {error}") from None
    except BaseException as error:  # noqa: BLE001 - whatever ends the program is reported
        sys.settrace(None)
        report, line = channel.report(error)
        channel.end("raised", report=report, line=line)
    channel.end("returned", value=result)


if __name__ == "__main__":
    main(sys.argv[1])
