"""Measure what four learned procedures save: the tokens of the first time, and of the same work as a program.

    python benchmarks/learned.py [--only release] [--keep FOLDER]

Each procedure is done in a git repository with real commands: a release, a report of failing tests, license headers,
and the search for the commit that broke a test. An agent does it, writes it down with ``save_program``, and the program
is rehearsed and kept. Then the repository changes, and a later run does the work again with ``run_program``, for other
inputs. The same check judges both times. At last ``stackmem run`` runs the program without an agent. A script stands in
for the model, so the number of steps is the script's; the commands, their output, the rehearsal and the prompts, whose
tokens are estimated, are real.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import stackmem
from benchmarks._folder import own_folder
from stackmem.core.facts import ModelReplied, ToolReturned
from stackmem.languages.running.learned import keep_program
from stackmem.trace.open_run import Run

PROGRAMS = Path(__file__).with_name("suites") / "learned"
TESTS = """import unittest

from kit import money


class MoneyTest(unittest.TestCase):
    def test_total(self):
        self.assertEqual(money.total([1, 2, 3]), 6)

    def test_share(self):
        self.assertEqual(money.share(10, 4), 2.5)

    def test_rounds(self):
        self.assertEqual(money.cents(1.005), 100)
"""
MONEY = '''"""Sums of money."""


def total(amounts):
    """Return the sum of amounts."""
    return sum(amounts)


def share(amount, people):
    """Return what each one pays."""
    return amount / people


def cents(amount):
    """Return an amount in cents."""
    return round(amount * 100)
'''


class Procedure(NamedTuple):
    """One procedure.

    Attributes:
        task: What the user asks for. Braces are filled with the inputs.
        looks: Commands with which the agent gets to know the repository.
        does: The commands of the procedure, which the program repeats.
        check: The command that decides whether the work is done.
        program: The name of the program that the agent writes down, in ``suites/learned``.
        first, second: Inputs of the first time and of the second.
        changes: Changes the repository before the second time.
    """

    task: str
    looks: tuple[str, ...]
    does: tuple[str, ...]
    check: str
    program: str
    first: dict[str, str]
    second: dict[str, str]
    changes: Callable[[Path], None]


def git(folder: Path, *arguments: str) -> None:
    by = ("-c", "user.name=Kit", "-c", "user.email=kit@example.org")
    subprocess.run(["git", *by, *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder: Path, subject: str, files: dict[str, str]) -> None:
    """Write files and commit them."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", subject)


def create_repository(folder: Path) -> None:
    """Create a package with a history in which the eighth of twelve commits breaks a test."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.name", "Kit")
    git(folder, "config", "user.email", "kit@example.org")
    empty = {"kit/__init__.py": "", "tests/__init__.py": ""}
    texts = {"pyproject.toml": '[project]\nname = "kit"\nversion = "1.0.0"\n', "CHANGELOG.md": "# Changelog\n"}
    commit(folder, "Begin", {**empty, **texts, "kit/money.py": MONEY, "tests/test_money.py": TESTS})
    git(folder, "tag", "v1.0.0")
    for number in range(2, 13):
        part = f'"""Part {number}."""\n\n\ndef part_{number}(value):\n    return {number} * value\n'
        money = MONEY.replace("amount / people", "amount // people") if number >= 8 else MONEY
        subject = "Divide faster" if number == 8 else f"Add part {number}"
        commit(folder, subject, {f"kit/part_{number}.py": part, "kit/money.py": money})


def change_for_release(folder: Path) -> None:
    git(folder, "tag", "v1.1.0")
    commit(folder, "Add a guide", {"GUIDE.md": "# Guide\n"})
    commit(folder, "Add euros", {"kit/euro.py": "def euro(cents):\n    return cents / 100\n"})


def break_a_test(folder: Path) -> None:
    commit(folder, "Sum in floats", {"kit/money.py": MONEY.replace("sum(amounts)", "sum(amounts) + 0.1")})


def add_a_file(folder: Path) -> None:
    commit(folder, "Add dollars", {"kit/dollar.py": "def dollar(cents):\n    return cents / 100\n"})


def break_a_test_late(folder: Path) -> None:
    git(folder, "tag", "good")
    for number in range(13, 19):
        text = MONEY.replace("round(amount * 100)", "int(amount * 100) + 1") if number >= 16 else MONEY
        subject = "Count cents up" if number == 16 else f"Note {number}"
        commit(folder, subject, {"kit/money.py": text, f"notes/{number}.md": f"note {number}\n"})


PROCEDURES: dict[str, Procedure] = {
    "release": Procedure(
        "Make release {version}: set it in pyproject.toml, add the commits since the last tag to CHANGELOG.md, commit "
        "the release and tag it v{version}.",
        ("git log --oneline | head -20", "git tag", "cat pyproject.toml", "cat CHANGELOG.md"),
        (
            "sed -i 's/^version = .*/version = \"{version}\"/' pyproject.toml",
            "(printf '# Changelog\\n\\n## %s\\n\\n' {version}; git log --format='- %s' "
            "$(git describe --tags --abbrev=0)..HEAD; tail -n +2 CHANGELOG.md) > .new && mv .new CHANGELOG.md",
            "git commit -qam 'Release '{version} && git tag v{version} && git log --oneline -1",
        ),
        "grep -q '^version = \"{version}\"' pyproject.toml && grep -q '^## {version}' CHANGELOG.md",
        "release.apl", {"version": "1.1.0"}, {"version": "1.2.0"}, change_for_release,
    ),
    "failures": Procedure(
        "Run the tests and write the failing ones to FAILURES.md, one per line.",
        ("ls -R . | head -40", "cat tests/test_money.py", "python3 -m unittest 2>&1 | tail -25"),
        (
            "python3 -m unittest > .out 2>&1; tail -3 .out",
            "grep -E '^(FAIL|ERROR):' .out | sed 's/^/- /' > FAILURES.md; rm .out; cat FAILURES.md",
        ),
        "grep -q '^- FAIL: test_' FAILURES.md",
        "failures.sexp", {}, {}, break_a_test,
    ),
    "headers": Procedure(
        "Every Python file must begin with the line '# SPDX-License-Identifier: Apache-2.0'. Add it where it is "
        "missing.",
        ("git ls-files '*.py'", "head -3 kit/money.py kit/part_2.py", "cat kit/__init__.py tests/__init__.py | wc -c"),
        (
            "grep -rL SPDX-License-Identifier --include='*.py' . | sort",
            "for file in $(grep -rL SPDX-License-Identifier --include='*.py' .); do {{ echo "
            "'# SPDX-License-Identifier: Apache-2.0'; cat $file; }} > .new; mv .new $file; done; "
            "git diff --stat | tail -1",
            "head -2 kit/money.py; grep -rL SPDX-License-Identifier --include='*.py' . | wc -l",
        ),
        "test -z \"$(grep -rL SPDX-License-Identifier --include='*.py' .)\"",
        "headers.sexp", {}, {}, add_a_file,
    ),
    "culprit": Procedure(
        "The test {test} passed at {good}. Find the commit that broke it, and write its id and subject to CULPRIT.md.",
        (
            "git log --oneline | head -30",
            "python3 -m unittest {test} 2>&1 | tail -8",
            "git diff --stat {good} HEAD | tail -4",
        ),
        (
            "git bisect start HEAD {good} | tail -1",
            "git bisect run python3 -m unittest {test} 2>&1 | grep 'first bad'",
            "git show -s --format='%h %s' refs/bisect/bad > CULPRIT.md; git bisect reset -q; cat CULPRIT.md",
        ),
        "grep -Eq 'Divide faster|Count cents up' CULPRIT.md",
        "culprit.apl",
        {"good": "v1.0.0", "test": "tests.test_money.MoneyTest.test_share"},
        {"good": "good", "test": "tests.test_money.MoneyTest.test_rounds"},
        break_a_test_late,
    ),
}  # fmt: skip


class Spent(NamedTuple):
    """The replies of a run, and their tokens: those of the prompts and of the replies together."""

    replies: int
    tokens: int


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"call": tool, "args": arguments}


def first_replies(each: Procedure) -> list[dict[str, Any]]:
    """Return what an agent does that knows nothing of the repository, and then writes the procedure down."""
    text = (PROGRAMS / each.program).read_text("utf-8")
    commands = [command.format(**each.first) for command in (*each.looks, *each.does, each.check + " && echo done")]
    return [
        *(call("run_command", command=command) for command in commands),
        call("save_program", name=each.program, content=text, inputs=each.first),
        call("pop_frame", result="Done and checked. The procedure is proposed as a program."),
    ]


def later_replies(each: Procedure) -> list[dict[str, Any]]:
    name = each.program.partition(".")[0]
    return [
        call("heap_read", name=f"program/{name}"),
        call("run_program", path=name, inputs=each.second),
        call("pop_frame", result="Done by the program."),
    ]


def solve(
    root: Path, folder: Path, each: Procedure, inputs: dict[str, str], replies: list[dict[str, Any]], **more: str
) -> Run:
    """Do the work once and return its run.

    Raises:
        RuntimeError: The check failed.
    """
    script = root / f"{folder.name}-{len(replies)}.json"
    script.write_text(json.dumps({"replies": replies}), encoding="utf-8")
    flags = {
        "model": f"script:{script}", "runs_dir": str(root / "runs"), "sandbox_dir": str(root / "sandboxes"),
        "strategy": "stackheap", "fsync": "none", "check": each.check.format(**inputs), **more,
    }  # fmt: skip
    result = stackmem.solve(str(folder), each.task.format(**inputs), **flags)
    if result.outcome != "solved":
        raise RuntimeError(f"{folder.name}: {result.outcome}; the run is {result.run_dir}")
    return Run(Path(result.run_dir))


def events(run: Run, kind: type[Any]) -> Iterator[Any]:
    return (record.event for record in run.records() if isinstance(record.event, kind))


def spent(run: Run) -> Spent:
    usages = [event.usage for event in events(run, ModelReplied)]
    return Spent(len(usages), sum(usage.prompt + usage.output for usage in usages))


COLUMNS = (
    "procedure", "language", "replies", "tokens", "tokens to write it down", "operations rehearsed", "replies later",
    "tokens later", "share", "tokens of `stackmem run`",
)  # fmt: skip


def run_directly(root: Path, folder: Path, each: Procedure) -> int:
    """Run the program without an agent, and return its tokens."""
    inputs = [f"--input={name}={value}" for name, value in each.second.items()]
    places = ["--runs-dir", root / "direct" / folder.name, "--sandbox-dir", root / "sandboxes"]
    program = folder / ".stackmem/programs" / each.program
    command = [sys.executable, "-m", "stackmem", "run", program, "--workspace", folder, *inputs, *places]
    subprocess.run(command, check=True, capture_output=True, cwd=Path(__file__).parents[1])
    (run,) = (root / "direct" / folder.name).iterdir()
    return spent(Run(run)).tokens


def measure(root: Path, name: str) -> str:
    """Return a procedure's row of the table."""
    each, folder = PROCEDURES[name], root / name
    create_repository(folder)
    learned = solve(root, folder, each, each.first, first_replies(each), learn="on")
    rehearsal = list(events(learned, ToolReturned))[-1].text.splitlines()[-1]
    if "the program ended with" not in rehearsal:
        raise RuntimeError(f"{name}: {rehearsal}")
    keep_program(Path(learned.folder), each.program, folder, os.environ, replace=False)
    each.changes(folder)
    later = solve(root, folder, each, each.second, later_replies(each))
    one, other = spent(learned), spent(later)
    saving = list(events(learned, ModelReplied))[-2].usage
    before = one.tokens - saving.prompt - saving.output
    operations = rehearsal.removeprefix("rehearsal: ").partition(" ")[0]
    directly = run_directly(root, folder, each)
    return (
        f"| {name} | {each.program.partition('.')[2]} | {one.replies - 1} | {before:,} | {one.tokens - before:,} | "
        f"{operations} | {other.replies} | {other.tokens:,} | {other.tokens / before:.0%} | {directly} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PROCEDURES, action="append", help="the procedures to measure; default all")
    parser.add_argument("--keep", type=Path, help="the folder for the repositories and runs; default a temporary one")
    given = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|")
    with own_folder() if given.keep is None else nullcontext(given.keep.resolve()) as root:
        for name in given.only or PROCEDURES:
            print(measure(root, name), flush=True)


if __name__ == "__main__":
    main()
