"""Finds files added by the run that Python would import instead of another module with the same name.

Rule 1: A folder counts if Python or a test runner may put it on the import path: the workspace, ``src`` and ``lib``,
    folders of programs that the check runs, and test folders that are not packages.
Rule 2: A module that existed initially in such a folder belongs to the project, even after the run changes it. A test
    folder can also shadow the project's own modules.
Rule 3: Installed packages must be unchanged; packages that the run installed in addition may stay.
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
"""Names that some packages install by mistake, and that every project uses."""
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
    """Determines which paths shadow a module."""

    # importable names in the check's environment; with a final ``/`` for namespace packages
    names: AbstractSet[bytes]
    folders: AbstractSet[bytes]  # folders that are always on the import path
    existed: Callable[[bytes], bool]  # whether a path existed initially
    exists: Callable[[bytes], bool]  # whether the copy has a path
    is_link: Callable[[bytes], bool]  # whether a path of the copy is a link
    entries: Callable[[bytes], AbstractSet[bytes]]  # names in a folder of the copy

    def matches(self, path: bytes) -> bool:
        """Return whether an added, changed or removed path affects what is imported."""
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
        path = b"%s/%s" % (folder, name) if folder else name
        if not (is_last or name + b"/" in self.names or any(map(_INIT.match, self.entries(path)))):
            return False  # a folder without __init__ has the lowest precedence
        return not any(map(self.existed, (path, path + b".py")))

    def _is_project(self, name: bytes) -> bool:
        """Return whether the project initially had a module of that name."""
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
"""Prints what a Python can import outside the workspace; run with ``python -I``."""


def names_of(output: bytes) -> frozenset[bytes]:
    """Return the names that the probe printed, plus those that are always importable."""
    return ALWAYS_IMPORTABLE | {name for name in output.split(b"\n") if re.fullmatch(rb"[^\W\d]\w*/?", name)}
