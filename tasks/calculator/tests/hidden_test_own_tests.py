"""The agent's own tests: they pass with its module, and each broken calculator makes one of them fail."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

WORKSPACE = Path(os.environ["WORKSPACE"])
APART = shlex.split(os.environ.get("APART", ""))  # holds the code under test apart from this folder and the verdict
REFERENCE = Path(__file__).with_name("reference_calculator.txt").read_text(encoding="utf-8")

# Name of the broken rule: what to replace in the reference, and by what.
BROKEN = {
    "precedence": (
        'while self.peek() in ("+", "-"):\n            tree = (self.take(), tree, self.product())',
        'while self.peek() in ("+", "-", "*", "/"):\n            tree = (self.take(), tree, self.factor())',
    ),
    "left to right": ("tree = (self.take(), tree, self.product())", "tree = (self.take(), tree, self.sum())"),
    "unary minus": ('negative ^= self.take() == "-"', "self.take()"),
    "parentheses": ("tree = self.sum()\n            if", "tree = self.product()\n            if"),
    "whitespace": (r'r"[ \t\r\n]*(?:', 'r"(?:'),
    "malformed input": (
        "    return _value(_Parser(_tokens(expression)).parse())",
        "    try:\n        return _value(_Parser(_tokens(expression)).parse())\n"
        "    except ValueError:\n        return 0.0",
    ),
    "division by zero": ("result /= other", 'result = result / other if other else float("inf")'),
}


def prepared(folder, module):
    """A folder with the agent's tests and a module in place of its own."""
    shutil.copytree(WORKSPACE / "tests", folder / "tests", symlinks=True)
    (folder / "src").mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")  # and pytest looks no further up
    (folder / "src" / "calculator.py").write_text(module, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def exit_codes(tmp_path_factory):
    own = (WORKSPACE / "src" / "calculator.py").read_text(encoding="utf-8")
    modules = {"its own module": own, "the reference": REFERENCE}
    for rule, (right, wrong) in BROKEN.items():
        assert right in REFERENCE, rule
        modules[rule] = REFERENCE.replace(right, wrong)
    folders = {name: str(prepared(tmp_path_factory.mktemp("own"), module)) for name, module in modules.items()}
    runner = Path(__file__).with_name("run_own_tests.py")
    done = subprocess.run(
        [*APART, sys.executable, "-P", "-B", str(runner), *folders.values()],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    codes = json.loads(done.stdout or "{}")
    return {name: codes.get(folder) for name, folder in folders.items()}


@pytest.mark.parametrize("module", ["its own module", "the reference"])
def test_the_tests_pass_where_the_calculator_is_right(exit_codes, module):
    assert exit_codes[module] == 0


@pytest.mark.parametrize("rule", BROKEN)
def test_the_tests_notice_a_broken(exit_codes, rule):
    assert exit_codes[rule] == 1  # 1: tests ran, and at least one failed
