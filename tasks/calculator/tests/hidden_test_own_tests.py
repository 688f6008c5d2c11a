"""The agent's own tests: they pass with its module, and each broken calculator makes one of them fail."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

WORKSPACE = Path(os.environ["WORKSPACE"])
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


def run_own_tests(folder, module):
    """The exit code of the agent's tests with a module in place of its own."""
    shutil.copytree(WORKSPACE / "tests", folder / "tests", symlinks=True)
    (folder / "src").mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")  # and pytest looks no further up
    (folder / "src" / "calculator.py").write_text(module, encoding="utf-8")
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--noconftest"]
    done = subprocess.run(
        [*command, "-c", str(folder / "pytest.ini"), "--rootdir", str(folder), "../tests/test_calculator.py"],
        cwd=folder / "src",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    print(done.stdout[-1500:], done.stderr[-500:])
    return done.returncode


@pytest.fixture(scope="module")
def exit_codes(tmp_path_factory):
    own = (WORKSPACE / "src" / "calculator.py").read_text(encoding="utf-8")
    modules = {"its own module": own, "the reference": REFERENCE}
    for rule, (right, wrong) in BROKEN.items():
        assert right in REFERENCE, rule
        modules[rule] = REFERENCE.replace(right, wrong)
    with ThreadPoolExecutor(2) as pool:
        codes = pool.map(lambda module: run_own_tests(tmp_path_factory.mktemp("own"), module), modules.values())
        return dict(zip(modules, codes, strict=True))


@pytest.mark.parametrize("module", ["its own module", "the reference"])
def test_the_tests_pass_where_the_calculator_is_right(exit_codes, module):
    assert exit_codes[module] == 0


@pytest.mark.parametrize("rule", BROKEN)
def test_the_tests_notice_a_broken(exit_codes, rule):
    assert exit_codes[rule] == 1  # 1: tests ran, and at least one failed
