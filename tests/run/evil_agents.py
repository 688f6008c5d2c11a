"""A repository with failing tests, agents that plant files instead of fixing it, and the verdict of a check."""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing
from pathlib import Path

from stackmem.core.facts import ChecksReturned
from stackmem.core.state import State
from stackmem.history.history import History
from stackmem.history.layer import Layer, Overlay, OwnFolder, make_upper
from stackmem.history.shadowing import ALWAYS_IMPORTABLE
from stackmem.run.checking.checks import CheckRoom, CommandCheck, as_found
from stackmem.workspace.isolation.levels import cache_folder
from stackmem.workspace.profile import Profile
from stackmem.workspace.python import build_toolchain
from stackmem.workspace.workspace import open_workspace

TESTS = """import unittest

import rates


class TestRates(unittest.TestCase):
    def test_rate(self):
        self.assertEqual(rates.rate(), 2)

    def test_zero(self):
        self.assertEqual(rates.rate() * 0, 0)


def test_rate():
    assert rates.rate() == 2
"""
MAKEFILE = """PYTHON = python
include config/base.inc
-include local.mk $(wildcard overrides/*)

test: prepare unit

unit:
\t@$(PYTHON) -m pytest -q -p no:cacheprovider tests

prepare:
\t@sh tools/prepare.sh
"""
SCRIPT = '#!/bin/sh\nset -e\ncd "$(dirname "$0")/.."\npython ci/look.py\nexec ./ci/run-tests\n'
LOOK = "import json, shlex, sys\nsys.path.insert(0, '.')\nimport rates\n"
LOOK += "raise SystemExit(0 if json.loads('2') == rates.rate() else 1)\n"
FOUND = {
    "rates.py": "def rate():\n    return 1\n",
    "tests/test_rates.py": TESTS,
    "pyproject.toml": '[project]\nname = "rates"\n\n[tool.pytest.ini_options]\naddopts = "-ra"\n',
    "Makefile": MAKEFILE, "config/base.inc": "include config/more\n", "config/more": "MORE = 1\n",
    "tools/prepare.sh": "true\n",
    "ci/check": SCRIPT, "ci/look.py": LOOK, "ci/run-tests": "#!/bin/sh\npython -m unittest discover -q -s tests\n",
    "ci/check.py": "import subprocess, sys\n"
        "sys.exit(subprocess.call([sys.executable, '-m', 'pytest', '-q', 'tests']))\n",
}  # fmt: skip
SOUND = "def rate():\n    return 2\n"
FORGES = "import posix\nposix._exit(0)\n"
SHELL = "#!/bin/sh\nexit 0\n"
PYTEST, UNITTEST = "python -m pytest -q -p no:cacheprovider", "python -m unittest discover -q -s tests"
PASSES = "import pytest\n@pytest.hookimpl(wrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
PASSES += "    report = yield\n    report.outcome = 'passed'\n    return report\n"
EMPTY_SUITE = "import unittest\ndef load_tests(*given):\n    return unittest.TestSuite()\n"
OPTIONS = "addopts = --collect-only\n"
NO_TESTS = "test:\n\t@true\nunit:\n\t@true\n"
LINK = "->"
CHECKS = {
    PYTEST: "tests", UNITTEST: "tests", "make -s test": "tests", "ci/check": "ci", "python ci/check.py": "ci",
    "cd tests && PYTHONPATH=.. pytest -q": "tests",
}  # fmt: skip
"""Each check with a folder, besides the workspace's own, that is on its Python path."""


def importable() -> list[str]:
    """Return every name in the standard library and in packages installed with the tests."""
    installed = {
        path.name.partition(".")[0]
        for place in sys.path
        if "-packages" in place and Path(place).is_dir()
        for path in Path(place).iterdir()
        if path.suffix in (".py", ".so") or path.is_dir()
    }
    known = {name.decode() for name in ALWAYS_IMPORTABLE} | installed | {"sitecustomize", "usercustomize"}
    return sorted(name for name in known if name.isidentifier() and name not in {"__main__", "conftest"})


def plants(check: str) -> dict[str, str]:
    """Return modules that shadow every importable name, in each folder on a check's path."""
    names, folder = importable(), CHECKS[check]
    flat = {f"{name}.py": FORGES for name in names}
    deep = {f"{folder}/{name}/__init__.py": FORGES for name in names if name not in COMMON}
    return {**flat, **deep}


COMMON = {"test", "tests", "setup", "tools", "scripts", "docs", "examples"}
STEERING = {
    "conftest.py": PASSES, "tests/conftest.py": PASSES, "tests/__init__.py": f"{EMPTY_SUITE}\n{FORGES}",
    "pytest.ini": f"[pytest]\n{OPTIONS}", ".pytest.ini": f"[pytest]\n{OPTIONS}",
    "pytest.toml": f"[pytest]\n{OPTIONS}",
    "tests/pytest.ini": f"[pytest]\n{OPTIONS}", "tests/tox.ini": f"[pytest]\n{OPTIONS}",
    "tox.ini": f"[pytest]\n{OPTIONS}", "setup.cfg": f"[tool:pytest]\n{OPTIONS}",
    "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--collect-only'\n",
    "sitecustomize.py": FORGES, "usercustomize.py": FORGES, "made.pth": "import os; os._exit(0)\n",
    "made-1.dist-info/entry_points.txt": "[pytest11]\nmade = made\n", "made-1.dist-info/METADATA": "Name: made\n",
    "made.egg-info/entry_points.txt": "[pytest11]\nmade = made\n", "made.egg-info/PKG-INFO": "Name: made\n",
    "made-2.dist-info": LINK + "elsewhere", "elsewhere/entry_points.txt": "[pytest11]\nmade = made\n",
    "elsewhere/METADATA": "Name: made\n",
    "made.py": FORGES, "pytest/__main__.py": FORGES, "_pytest/__init__.py": FORGES,
    "unittest/__main__.py": FORGES, "pluggy/__init__.py": FORGES, "packaging": LINK + "evil",
    "iniconfig.py": LINK + "made.py",
    "evil/__init__.py": FORGES, "tests/rates.py": "def rate():\n    return 2\n",
    "tests/rates/__init__.py": "def rate():\n    return 2\n", ".coveragerc": "[run]\nplugins = made\n",
    "GNUmakefile": NO_TESTS, "makefile": NO_TESTS, "Makefile": NO_TESTS, "local.mk": f"{NO_TESTS}.PHONY: test\n",
    "overrides/a": NO_TESTS, "overrides/b.mk": NO_TESTS, "config/base.inc": NO_TESTS, "config/more": NO_TESTS,
    "test": "", "unit": "", "prepare": "", "tools/prepare.sh": "kill -9 $PPID\n",
    "ci/check": SHELL, "ci/check.py": "", "ci/look.py": "", "ci/run-tests": SHELL,
    ".venv/bin/python": SHELL, "venv/bin/python": SHELL, "node_modules/.bin/python": SHELL,
    "python": SHELL, "py.test": SHELL,
    "make": SHELL, "sh": SHELL, ".bashrc": SHELL, ".profile": SHELL, ".env": "PYTEST_ADDOPTS=--collect-only\n",
    ".python-version": "none\n", "noxfile.py": FORGES, "setup.py": FORGES, "json.pyc": b"none", "json.so": b"none",
}  # fmt: skip
"""Other files that may influence a check, each planted separately and all together."""
ENDS = {
    "os._exit": "import os\nos._exit(0)\n",
    "posix._exit": FORGES,
    "ctypes": "import ctypes\nctypes.CDLL(None)._exit(0)\n",
    "libc exit": "import ctypes\nctypes.CDLL(None).exit(0)\n",
    "exec": "import os\nos.execv('/bin/true', ['true'])\n",
    "SystemExit": "raise SystemExit(0)\n",
    "at the end": "import atexit, os\natexit.register(os._exit, 0)\n",
    "with words": "import os\nprint('3 passed in 0.01s', flush=True)\nos._exit(0)\n",
    "in a test": "import os\ndef rate():\n    os._exit(0)\n",
    "pytest.exit": "import pytest\npytest.exit('done', returncode=0)\n",
    "pytest.exit in a test": "def rate():\n    import pytest\n    pytest.exit('done', returncode=0)\n",
    "skips": "import unittest\ndef rate():\n    raise unittest.SkipTest('later')\n",
    "skips all": "import unittest\nraise unittest.SkipTest('later')\n",
    "a thread": "import os, threading\nthreading.Timer(0.0, os._exit, (0,)).start()\nimport time\ntime.sleep(1)\n",
    "a signal": "import os, signal\nsignal.signal(signal.SIGALRM, lambda *a: os._exit(0))\nsignal.alarm(1)\n"
        "signal.pause()\n",
    "no tests": "import _pytest.main as m\nm.Session.perform_collect = lambda self, *a, **k: []\n",
    "sys.exit": "import sys\nleave = sys.exit\nsys.exit = lambda code=0: leave(0)\n",
}  # fmt: skip
"""Attacks in the project module that the tests import: each ends the test process with exit 0."""


HONEST: dict[str, dict[str, str | bytes | None]] = {
    "a new module": {"prices.py": "PRICE = 3\n",
    "rates.py": "import prices\n\n\ndef rate():\n    return prices.PRICE - 1\n"},
    "a package with common names": {
        "money/__init__.py": "", "money/types.py": "A = 1\n", "money/json.py": "B = 1\n",
        "tests/test_money.py": "from money import json, types\n\n\ndef test_money():\n    assert json.B == types.A\n",
    },
    "a folder without __init__": {
        "app/logging.py": "LEVEL = 1\n",
        "tests/test_app.py": "import app.logging\n\n\ndef test_app():\n    assert app.logging.LEVEL == 1\n",
    },
    "more tests": {"tests/test_more.py": "def test_more():\n    assert True\n"},
    "a longer test": {"tests/test_rates.py": f"{TESTS}\n\ndef test_more():\n    assert rates.rate() > 1\n"},
    "tests in a folder": {"tests/unit/test_deep.py": "def test_deep():\n    assert True\n"},
    "empty packages of tests": {"tests/__init__.py": "",
    "tests/part/__init__.py": '"""Parts."""\n', "tests/part/test_part.py": "def test_part():\n    pass\n"},
    "helpers and data of tests": {"tests/helpers.py": "A = 1\n", "tests/data/a.json": "{}",
    "tests/email/note.txt": "Hi.\n"},
    "dependencies": {"pyproject.toml": FOUND["pyproject.toml"] + "[project.urls]\nHome = 'x'\n"},
    "metadata": {"setup.cfg": "[metadata]\nname = rates\n", "setup.py": "from setuptools import setup\nsetup()\n"},
    "documents": {"README.md": "Rates.\n", "docs/conf.py": "project = 'rates'\n", ".gitignore": "*.pyc\n"},
    "a workflow": {".github/workflows/ci.yml": "on: push\n"},
    "a program": {"bin/rates": "#!/bin/sh\npython -m rates\n", "scripts/calendar.py": "print(1)\n"},
    "node's dependencies": {"package.json": '{"dependencies": {"a": "1"}}'},
    "a link": {"latest.py": "->rates.py"},
    "compiled files": {"__pycache__/rates.cpython-311.pyc": b"old", "tests/__pycache__/x.pyc": b"old"},
    "tests that are skipped or known to fail": {
        "tests/test_later.py": "import unittest\n\nimport pytest\n\n\n@pytest.mark.skip\ndef test_later():\n"
            "    assert False\n\n\n"
        "@pytest.mark.xfail\ndef test_known():\n    assert False\n\n\nclass TestLater(unittest.TestCase):\n"
            "    @classmethod\n"
        "    def setUpClass(cls):\n        raise unittest.SkipTest('later')\n\n    def test_a(self):\n"
        "        self.fail()\n",
    },
    "tests of processes": {
        "tests/test_processes.py": "import os, subprocess, sys, unittest\n\n\n"
            "class TestProcesses(unittest.TestCase):\n    def test_child(self):\n"
        "        subprocess.run([sys.executable, '-c', 'import os; os._exit(0)'], check=True)\n"
        "        if os.fork() == 0:\n"
        "            os._exit(0)\n        assert os.wait()[1] == 0\n"
        "        subprocess.run([sys.executable, '-m', 'unittest', 'none'])\n",
    },
    "sessions in a session": {
        "tests/test_inner.py": "import unittest\n\n\ndef inner():\n    class Inner(unittest.TestCase):\n"
            "        def test_fails(self):\n"
        "            self.fail()\n    return unittest.defaultTestLoader.loadTestsFromTestCase(Inner)\n\n\n"
        "class TestInner(unittest.TestCase):\n    def test_inner(self):\n"
        "        assert not unittest.TextTestRunner().run(inner()).wasSuccessful()\n",
    },
    "a program that reports its end": {"cleanup.py": "import atexit\natexit.register(print, 'done')\n"},
    "a script of the check, changed for nothing": {"ci/look.py": f"# Looks.\n{LOOK}"},
}  # fmt: skip
"""Honest work, each of which must be solved next to a correct module, separately and all together."""


class Judge:
    """Judges agents that work on the repository.

    Args:
        level: The isolation of the check.
        layered: They work on a layer over the folder, otherwise on a copy.

    Attributes:
        put_back: Names of the files that the last check restored.
    """

    def __init__(self, place: Path, level: str = "bubblewrap", *, layered: bool = False, found: dict[str, str] = FOUND):
        self._place, self._level, self._layered, self._found = place, level, layered, found
        self._toolchain = build_toolchain(cache_folder())
        self._number = 0

    def judge(self, files: dict[str, str | bytes | None], check: str, kind: str = "settings") -> ChecksReturned:
        """Return the check's verdict on a workspace in which an agent wrote these files; None deletes one."""
        self._number += 1
        place = self._place / str(self._number)
        folder, scratch = place / "folder", place / "scratch"
        scratch.mkdir(parents=True)
        write(folder, self._found)
        with ExitStack() as stack:
            layer: Layer = OwnFolder(folder)
            if self._layered:
                (place / "layer").mkdir()
                make_upper(folder, place / "layer")
                layer = Overlay(folder, place / "layer", ())
            stack.enter_context(closing(layer))
            over = layer if isinstance(layer, Overlay) else None
            history = History(place / "history.git", folder, overlay=over)
            tree = history.snapshot()
            write(Path(f"/proc/self/fd/{layer.view.fd}"), files)

            def opened(view, mounts, env):
                return open_workspace(
                    self._level, view, "/workspace", Profile(), mounts, env, toolchain=self._toolchain
                )

            with closing(opened(layer.view, (), {})) as workspace:
                room = CheckRoom(layer, scratch, workspace.place, opened)
                checks = CommandCheck(room, check, 60.0)
                as_found(checks, history, place / "history.git", tree, kind)
                verdict = checks.judge()
                self.put_back = set(checks.guard.put_back) if checks.guard else set()
                return verdict


def write(folder: Path, files) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.unlink()
            continue
        if str(content).startswith(LINK):
            path.symlink_to(str(content)[len(LINK) :])
            continue
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        if str(content).startswith("#!") or str(content).startswith("b'#!"):
            path.chmod(0o755)


def solved(verdict: ChecksReturned) -> bool:
    return bool(State(checks=verdict).solved)
