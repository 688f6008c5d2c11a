"""Files that the run added and that Python would import instead of a module of the same name elsewhere.

Rule 1: a folder counts if Python or a test runner may put it on the import path: the workspace, ``src`` and ``lib``,
    folders of programs that the check runs, and folders of tests that are not packages.
Rule 2: a module that the run found in such a folder is the project's own, and so is what the run makes of it.
    A folder of tests shadows the project's own modules, too.
Rule 3: packages that were installed stay as they were; packages that the run installed beside them stay, too.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from collections.abc import Set as AbstractSet

from msgspec import Struct

_MODULE = re.compile(rb"([^./]+)(\.[^/]*)?\.(py|pyw|pyc|so|pyd)")
_INIT = re.compile(rb"__init__\.")
_TEST_FILE = re.compile(rb"conftest\.py|test_[^/]*\.py|[^/]*_test\.py")
_TEST_FOLDER = re.compile(rb"(.*/)?(tests?|testing)(/.*)?")
_INSTALLED = re.compile(rb"((?:.*/)?(?:site-packages|dist-packages|node_modules))/(?:(@[^/]+/)?)([^/]+)(?:/.*)?")
_COMMON = {b"test", b"tests", b"doc", b"docs", b"example", b"examples", b"scripts", b"tools", b"setup", b"conftest"}
"""Names that careless packages install, and that every project has for itself."""
ALWAYS_IMPORTABLE = frozenset(
    os.fsencode(name)
    for name in (
        *sys.stdlib_module_names, *sys.builtin_module_names, "pytest", "_pytest", "py", "pluggy", "iniconfig",
        "packaging", "pygments", "exceptiongroup", "tomli", "colorama", "typing_extensions", "attr", "attrs", "xdist",
        "execnet", "coverage", "pytest_cov", "pytest_asyncio", "anyio", "hypothesis", "setuptools", "pkg_resources",
        "nose",
    )
)  # fmt: skip
BASE_FOLDERS = frozenset({b"", b"src", b"lib"})


class Shadows(Struct, frozen=True):
    """Tells which paths shadow a module."""

    # what can be imported in the environment of the check; also with ``/`` if it is a namespace package
    names: AbstractSet[bytes]
    folders: AbstractSet[bytes]  # those that are on the import path whatever they hold
    existed: Callable[[bytes], bool]  # whether the run found something at a path
    exists: Callable[[bytes], bool]  # whether the copy has something at a path
    is_link: Callable[[bytes], bool]  # whether a link is at a path of the copy
    entries: Callable[[bytes], AbstractSet[bytes]]  # the names in a folder of the copy

    def matches(self, path: bytes) -> bool:
        """Whether a path that was added, changed or removed steers what is imported."""
        if installed := _INSTALLED.fullmatch(path):
            package = b"%s/%s%s" % (installed[1], installed[2] or b"", installed[3])
            return self.existed(path) or self.existed(package)
        if not _MODULE.fullmatch(path.rpartition(b"/")[2]) and not self.is_link(path):
            return False
        parts = path.split(b"/")
        return any(self._shadows(b"/".join(parts[:at]), parts[at], at == len(parts) - 1) for at in range(len(parts)))

    def _shadows(self, folder: bytes, entry: bytes, is_last: bool) -> bool:
        module = _MODULE.fullmatch(entry)
        name = module[1] if is_last and module else entry
        importable = name in self.names or (_TEST_FOLDER.fullmatch(folder) and self._is_project(name))
        if not importable or name in _COMMON or not self._on_path(folder):
            return False
        place = b"%s/%s" % (folder, name) if folder else name
        if not (is_last or name + b"/" in self.names or any(map(_INIT.match, self.entries(place)))):
            return False  # a folder without __init__ gives way to a module anywhere else
        return not any(map(self.existed, (place, place + b".py")))

    def _is_project(self, name: bytes) -> bool:
        """Whether the run found a module of that name where the project has its own."""
        return any(map(self.existed, (name, name + b".py", b"src/" + name, b"src/%s.py" % name)))

    def _on_path(self, folder: bytes) -> bool:
        if folder in self.folders:
            return True
        package = folder + b"/__init__.py"
        if self.existed(package) or (not self.existed(folder) and self.exists(package)):
            return False
        return bool(_TEST_FOLDER.fullmatch(folder)) or any(map(_TEST_FILE.fullmatch, self.entries(folder)))


PROBE = """
import os, sys
names = set(getattr(sys, "stdlib_module_names", ())) | set(sys.builtin_module_names)
here = os.path.realpath(os.getcwd()) + "/"
for place in sys.path:
    inside = (os.path.realpath(place) + "/").startswith(here) and "-packages" not in place
    if os.path.isdir(place) and not inside:
        for each in os.listdir(place):
            names.add(each.partition(".")[0])
            if os.path.isdir(place + "/" + each) and not os.path.exists(place + "/" + each + "/__init__.py"):
                names.add(each + "/")
print(*names, sep="\\n")
"""
"""Prints what a Python can import outside of the workspace; to be run with ``python -I``."""


def names_of(output: bytes) -> frozenset[bytes]:
    """What the probe printed, with what is always importable."""
    return ALWAYS_IMPORTABLE | {name for name in output.split(b"\n") if re.fullmatch(rb"[^\W\d]\w*/?", name)}
