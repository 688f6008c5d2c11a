"""Measure the structure of the package: imports, duplicate names, and the files that one step passes through.

    python scripts/structure.py            the figures for docs/experiments.md
    python scripts/structure.py --list     with the modules, classes and files behind each figure
    python scripts/structure.py --map      docs/map.md on standard output: every module with its first line

The path of a step is profiled, not derived from the source. A program with one call runs in a temporary folder, and
every function of the package that is called between the interpreter's request and its answer counts with its file.
Files of the program's language and the internals of adapters (files, commands, providers) are excluded.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "stackmem"
SMALL_LINES = 60
ADAPTERS = ("workspace", "history", "models", "providers", "run/tasks")
PROGRAM = '(log-message "begun")\n(read_file (path "note.txt"))\n(log-message "done")\n'


class Outline(NamedTuple):
    """The relevant parts of a module's syntax tree. Keeping 600 whole trees would slow the garbage collector down.

    Attributes:
        doc: Its docstring; empty without one.
        functions: Each function, at any depth, and its number of lines.
        imports: Every import, anywhere in the module.
    """

    doc: str
    classes: tuple[str, ...]
    functions: tuple[tuple[str, int], ...]
    imports: tuple[ast.Import | ast.ImportFrom, ...]


@cache
def outline(path: Path) -> Outline:
    return outline_of(path.read_text(encoding="utf-8"))


def outline_of(source: str) -> Outline:
    module = ast.parse(source)
    found = list(statements(module))
    return Outline(
        ast.get_docstring(module) or "",
        tuple(node.name for node in found if isinstance(node, ast.ClassDef)),
        tuple(
            (node.name, (node.end_lineno or node.lineno) - node.lineno + 1)
            for node in found
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ),
        tuple(node for node in found if isinstance(node, ast.Import | ast.ImportFrom)),
    )


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield every statement below a node, at any depth. Skipping expressions saves nine tenths of all nodes."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(node, field, ()):
            if isinstance(each, ast.stmt):
                yield each
            yield from statements(each)


def modules() -> dict[str, Path]:
    """Return every module of the package by its dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports() -> dict[str, set[str]]:
    """Map each module to the modules of the package that it imports, anywhere in its code."""
    known = modules()
    return {name: set(_imported(name, path, known)) for name, path in known.items()}


def _imported(name: str, path: Path, known: dict[str, Path]) -> Iterator[str]:
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in outline(path).imports:
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names if alias.name in known)
            case ast.ImportFrom(module=module, names=names, level=level):
                above = package[: len(package) - level + 1] if level else []
                base = ".".join([*above, *([module] if module else [])])
                for alias in names:
                    inner = f"{base}.{alias.name}"
                    yield from (each for each in (inner if inner in known else base,) if each in known)


@cache
def importers() -> dict[str, set[str]]:
    """Map each module to the modules that import it."""
    found: dict[str, set[str]] = {name: set() for name in modules()}
    for name, used in imports().items():
        for each in used - {name}:
            found[each].add(name)
    return found


def room_of(module: str) -> str:
    """Return the top-level folder or module that a module belongs to; empty for the package itself and its entry."""
    room = module.split(".")[1] if "." in module else ""
    return "" if room == "__main__" else room


def arrows() -> set[tuple[str, str]]:
    """Return ``(room, other)`` for each room that imports another."""
    found = {(room_of(name), room_of(each)) for name, used in imports().items() for each in used}
    return {(room, other) for room, other in found if room and other and room != other}


def kernel_rooms() -> set[str]:
    """Return the rooms that are not neighbors."""
    from scripts.houses import NEIGHBORS

    return {room_of(name) for name in modules()} - {"", *NEIGHBORS}


def kernel_arrows() -> set[tuple[str, str]]:
    """Return the arrows between the kernel's rooms."""
    return {arrow for arrow in arrows() if kernel_rooms().issuperset(arrow)}


def kernel_layers() -> list[set[str]]:
    """Return the kernel's rooms by layer, the top first."""
    ranks, rooms = _layers(), kernel_rooms()
    return [{room for room in rooms if ranks[room] == rank} for rank in sorted({ranks[room] for room in rooms})][::-1]


def upward_imports() -> list[str]:
    """Return the imports of rooms in a higher layer."""
    ranks = _layers()
    found = [(name, each) for name, used in sorted(imports().items()) for each in sorted(used)]
    return [
        f"{name} -> {each}"
        for name, each in found
        if ranks.get(room_of(each), 0) > ranks.get(room_of(name), len(ranks))
    ]


def lines(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def single_importers() -> list[str]:
    """Return the modules with exactly one importer."""
    known = modules()
    return [name for name, users in importers().items() if len(users) == 1 and known[name].name != "__init__.py"]


def small_single_importers() -> list[str]:
    """Return those shorter than ``SMALL_LINES``: a reader would look for their code in the importer."""
    known = modules()
    return [name for name in single_importers() if lines(known[name]) < SMALL_LINES]


def doubled_classes() -> dict[str, list[str]]:
    """Map class names that are defined several times to their modules."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, path in modules().items():
        for defined in outline(path).classes:
            found[defined].append(name)
    return {name: places for name, places in sorted(found.items()) if len(places) > 1}


def unmapped_modules() -> list[str]:
    """Return the modules with code whose path is not mentioned in any document."""
    text = "".join(path.read_text("utf-8") for path in sorted((ROOT / "docs").rglob("*.md")))
    return [
        name
        for name, path in modules().items()
        if path.read_text("utf-8").strip() and _place(path) not in text and str(path.relative_to(ROOT)) not in text
    ]


def _place(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def module_map() -> str:
    """Return ``docs/map.md``: every module with code and its first line, by folder."""
    text = [
        "# Every module with its first line",
        "",
        "Generated by `python scripts/structure.py --map`. The [architecture](architecture.md) describes the rooms.",
    ]
    folder = None
    for path in sorted(modules().values(), key=lambda each: (each.parent, each.name)):
        if not path.read_text("utf-8").strip():
            continue
        if path.parent != folder:
            folder = path.parent
            title = str(folder.relative_to(ROOT))
            text += ["", f"## `{title}/`", "", "| module | content |", "|---|---|"]
        says = outline(path).doc.partition("\n\n")[0]
        says = " ".join(says.split()).replace("|", "\\|")
        text.append(f"| `{_place(path)}` | {says} |")
    return "\n".join(text) + "\n"


class Way:
    """The files called during one step, and the calls into a higher layer."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.upward: list[str] = []


class Profiler:
    """Splits the calls of the package into ways. Each call of ``cut`` ends one way and starts the next."""

    def __init__(self, inside: str) -> None:
        """Exclude the calls of ``inside``, the package of the program's language."""
        self._inside = inside
        self._rank = _layers()
        self.way = Way()
        self.ways: list[tuple[object, Way]] = []

    def cut(self, mark: object) -> None:
        self.ways.append((mark, self.way))
        self.way = Way()

    def __call__(self, frame: Any, event: str, argument: object) -> None:
        if event != "call":
            return
        place = _of_package(frame)
        if place is None:
            return
        caller = frame.f_back
        while caller is not None and _of_package(caller) is None:
            caller = caller.f_back
        came_from = _of_package(caller) if caller is not None else None
        if place.startswith(self._inside) or place.startswith(ADAPTERS):
            return
        if came_from is not None and came_from.startswith(ADAPTERS):
            return
        self.way.files.add(place)
        if came_from is None or came_from.startswith(self._inside) or came_from == place:
            return
        if self._layer(place) > self._layer(came_from):
            self.way.upward.append(f"{came_from} -> {place}: {frame.f_code.co_qualname}")

    def _layer(self, place: str) -> int:
        return self._rank.get(place.split("/", maxsplit=1)[0].removesuffix(".py"), 0)


def _layers() -> dict[str, int]:
    """Map each room to its layer; the highest number is the top."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"][0]
    rows = [[room.strip("()") for room in row.split(" | ")] for row in contract["layers"]]
    return {room: len(rows) - height for height, row in enumerate(rows) for room in row}


def _of_package(frame: Any) -> str | None:
    name = frame.f_code.co_filename
    return name[len(str(PACKAGE)) + 1 :] if name.startswith(f"{PACKAGE}{os.sep}") else None


def _run(folder: Path) -> Path:
    """Run the program and return its run folder below ``folder``."""
    from stackmem.cli.main import main

    (folder / "home").mkdir()
    (folder / "project").mkdir()
    (folder / "project" / "note.txt").write_text("a note\n")
    (folder / "project" / "main.sexp").write_text(PROGRAM)
    command = ["run", str(folder / "project" / "main.sexp"), "--isolation", "none", "--json"]
    places = ["--runs-dir", str(folder / "runs"), "--sandbox-dir", str(folder / "sandbox")]
    sys.argv = ["stackmem", *command, *places]
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.suppress(SystemExit),
    ):
        main()
    return next((folder / "runs").iterdir())


def _generator_of(frame: Any, inside: str) -> bool:
    place = _of_package(frame)
    return place is not None and place.startswith(inside) and bool(frame.f_code.co_flags & 0x20)


def step_way(folder: Path) -> Way:
    """Return the way of the program's tool call, from the interpreter's request to the recorded fact and back."""
    profiler = Profiler("languages/sexp")
    depth = 0

    def profile(frame: Any, event: str, argument: object) -> None:
        nonlocal depth
        if event in ("call", "return") and _generator_of(frame, "languages/sexp"):
            if event == "call" and depth == 0:
                profiler.cut(None)
            depth += 1 if event == "call" else -1
            if event == "return" and depth == 0:
                profiler.cut(type(argument).__name__)
            return
        profiler(frame, event, argument)

    sys.setprofile(profile)
    try:
        _run(folder)
    finally:
        sys.setprofile(None)
    marks = [mark for mark, _ in profiler.ways]
    return profiler.ways[marks.index("InvokeTool") + 1][1]


def record_way(run_dir: Path) -> Way:
    """Return the way of that call's fact through the verified replay, including reading the next record."""
    from stackmem.core.program_facts import ToolAnswered
    from stackmem.trace.open_run import Run
    from stackmem.trace.program import sources_of
    from stackmem.trace.verify import verify

    profiler = Profiler("languages/sexp")

    def marked(records: Iterable[Any]) -> Iterator[Any]:
        for record in records:
            profiler.cut(record.event)
            yield record
        profiler.cut(None)

    run = Run(run_dir)
    records = marked(run.records())
    sys.setprofile(profiler)
    try:
        verify(records, sources_of(run_dir))
    finally:
        sys.setprofile(None)
    marks = [type(mark) for mark, _ in profiler.ways]
    return profiler.ways[marks.index(ToolAnswered) + 1][1]


def _shown(title: str, found: Iterable[str], *, listed: bool) -> None:
    rows = list(found)
    print(f"{title}: {len(rows)}")
    for row in rows if listed else ():
        print(f"    {row}")


def main(arguments: list[str]) -> int:
    if arguments == ["--map"]:
        print(module_map(), end="")
        return 0
    listed = arguments == ["--list"]
    every = [path for path in modules().values() if path.read_text("utf-8").strip()]
    print(f"lines: {sum(map(lines, modules().values())):,} in {len(every)} modules with code")
    from scripts.houses import KERNEL, house_of

    kernel = sum(lines(path) for name, path in modules().items() if house_of(name) == KERNEL)
    rooms = {room_of(name) for name in modules()} - {""}
    print(f"lines of the kernel: {kernel:,}")
    print(f"rooms: {len(rooms)}, layers: {len(set(_layers().values()))}, arrows between rooms: {len(arrows())}")
    inside = f"{len(kernel_rooms())}, layers: {len(kernel_layers())}, arrows between them: {len(kernel_arrows())}"
    print(f"rooms of the kernel: {inside}")
    _shown("upward imports", upward_imports(), listed=listed)
    _shown("modules with one importer", single_importers(), listed=False)
    _shown(f"of them under {SMALL_LINES} lines", small_single_importers(), listed=listed)
    doubled = doubled_classes()
    _shown("duplicate class names", (f"{name}: {', '.join(at)}" for name, at in doubled.items()), listed=listed)
    _shown("modules not mentioned in any document", unmapped_modules(), listed=listed)
    ways: list[tuple[str, Callable[[], Way]]] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        os.environ.update(HOME=str(folder / "home"), XDG_CONFIG_HOME=str(folder / "home"))
        ways.append(("a program's step", lambda: step_way(folder)))
        ways.append(("a replayed record", lambda: record_way(next((folder / "runs").iterdir()))))
        for title, walk in ways:
            way = walk()
            _shown(f"files used by {title}", sorted(way.files), listed=listed)
            _shown("calls into a higher layer during it", way.upward, listed=listed)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
