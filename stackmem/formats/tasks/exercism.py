"""Import exercises of Exercism, whose ``.meta/config.json`` names the stubs, the tests, and an example solution.

The rules are those of aider's polyglot benchmark: the agent works on the stubs, the tests are present only while they
run, and each language has its own command. JavaScript and Java, two of its six languages, are excluded because their
test runners are downloaded from the network.

Source: the layout of the exercism tracks, and aider's ``benchmark/benchmark.py``, autumn 2026.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.foreign.files import copy_regular, read_regular, read_regular_text

from .folder import PYTHON, ImportedTask, TaskRefused, beneath, dockerfile, make, toml, write, write_judge

_MAX_FILE_BYTES = 16 << 30

SECONDS = 180.0
"""Time limit of the tests; the same as aider's."""


class ExerciseLanguage(Struct, frozen=True):
    """How a language is tested."""

    name: str
    command: str = ""  # prints how each test ended; empty for pytest, which has its own judge
    image: str = PYTHON  # the start of a Dockerfile for it
    needs: str = ""  # a program that some sandboxes lack; empty if none
    test: str = ""  # regular expression for a test in a file, with a group for its printed name, if any
    passed: str = ""  # pattern of the output line of a test that passed, with its name or the number of tests
    failed: str = ""  # pattern of the output line of any failed test
    trap: str = ""  # a test that must fail, with its name
    # Files and folders that affect the build. They are removed unless they belong to the exercise.
    steering: tuple[str, ...] = ()


LANGUAGES: dict[str, ExerciseLanguage] = {
    ".py": ExerciseLanguage("python"),
    ".rs": ExerciseLanguage(
        "rust", "cargo test --offline --no-fail-fast -- --include-ignored", "FROM rust:1-slim", "cargo",
        r"(?m)^[ \t]*#\[test\](?:\s*#\[[^\n]*\])*\s*(?:async\s+)?fn\s+(\w+)",
        "^test (.*::)?{name}( - should panic)? [.]{{3}} ok$", "^test .* [.]{{3}} FAILED$",
        "#[test]\nfn {name}() {{ assert_eq!(1, 2); }}",
        (".cargo", "build.rs", "rust-toolchain", "rust-toolchain.toml"),
    ),
    ".go": ExerciseLanguage(
        "go", "go test -v ./...", "FROM golang:1", "go",
        r"(?m)^func (Test(?!Main\b)\w*)\(", "^--- PASS: {name} ", "^--- FAIL: ",
        'func Test_{name}(t *testing.T) {{ t.Fatal("this must fail") }}',
        ("go.work", "vendor"),
    ),
    ".cpp": ExerciseLanguage(
        "cpp",
        "cmake -S . -B build -DEXERCISM_RUN_ALL_TESTS=1 && cmake --build build",
        "FROM debian:12-slim\nRUN apt-get update && apt-get install -y --no-install-recommends cmake g++ make",
        "cmake",
        r"(?m)^[ \t]*TEST_CASE\(", "^test cases: +{more} [|] +{count} passed [|] +1 failed", "^test cases: ",
        'TEST_CASE("{name}") {{ REQUIRE(1 == 2); }}',
        ("build", "CMakePresets.json", "CMakeUserPresets.json"),
    ),
}  # fmt: skip
_ELSEWHERE = {".js": "JavaScript", ".java": "Java"}
_NOT_EDITED = ("CMakeLists.txt", "Cargo.toml")
_ASKS = """

## What to change

Implement this in {files}, which {are} in the workspace, and nowhere else. Keep the names of functions, classes and
files: tests that you do not see use them. The standard library is all there is.
"""
_BEGINS = """#!/bin/sh
# Copies the original tests next to the solution and runs them.
set -u
tests=${TESTS_DIR:-/tests}
verifier=${VERIFIER_DIR:-/logs/verifier}
mkdir -p "$verifier"
rm -f "$verifier/reward.txt" "$verifier/reward.json"
"""
_PYTEST = """unset PYTEST_ADDOPTS PYTEST_PLUGINS PYTHONSTARTUP
export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 PYTHONDONTWRITEBYTECODE=1
cp -R "$tests/files/." .
python -P "$tests/pytest_judge.py" "$tests/record.json" "$verifier"
"""
_BUILT = """# The tests run apart from the verdict. The log must show that each test passed, and that an extra test,
# the trap, failed. Ending the process early, or making every test pass, is therefore useless.
rm -rf {steering}
cp -R "$tests/files/." .
trap=t$(od -An -N6 -tx1 /dev/urandom | tr -d ' \\n')
sed "s/TRAP/$trap/" "$tests/trap.txt" >>{file}
eval "set -- ${{APART:-}}"
"$@" sh -c {command} >"$verifier/tests.log" 2>&1 </dev/null
reward=1
while IFS= read -r line; do
    grep -Eq -- "$line" "$verifier/tests.log" || {{ echo "not reported: $line"; reward=0; }}
done <"$tests/passed.txt"
[ "$(grep -Ec -- {failed} "$verifier/tests.log")" = 1 ] || reward=0
grep -F -- "$trap" "$verifier/tests.log" | grep -Eq -- {trapped} || reward=0
tail -n 60 "$verifier/tests.log"
echo "the test $trap must fail"
echo "$reward" >"$verifier/reward.txt"
"""


class _Files(Struct):
    solution: list[str]
    test: list[str]
    example: list[str] = []
    editor: list[str] = []


class _Config(Struct):
    files: _Files
    blurb: str = ""


def from_exercism(path: Path, out: Path, repo: Path | None = None) -> Iterator[ImportedTask | TaskRefused]:
    """Yield a task for each exercise: ``path`` itself, or all exercises below it.

    Raise UsageError if the folder contains no exercise.
    """
    own = path / ".meta" / "config.json"
    configs = [own] if own.is_file() else sorted(path.glob("**/.meta/config.json"))
    folders = [config.parent.parent for config in configs if _is_exercise(config)]
    if not folders:
        raise UsageError(f"no exercise in {path}; one has .meta/config.json with files.solution and files.test")
    for folder in folders:
        yield make(_name(folder), out, partial(_fill, folder))


def _is_exercise(config: Path) -> bool:
    """Return whether the file describes an exercise. A track's concepts also have a config.json, but without files."""
    try:
        value: Any = msgspec.json.decode(read_regular(config))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True  # an invalid file is reported later
    return isinstance(value, dict) and "files" in value


def _config(folder: Path) -> _Config:
    path = folder / ".meta" / "config.json"
    try:
        return msgspec.json.decode(read_regular(path), type=_Config)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not an exercise's configuration: {error}; give the original folder") from error


def _language(config: _Config) -> ExerciseLanguage:
    suffixes = [PurePosixPath(name).suffix for name in config.files.solution]
    for suffix in suffixes:
        if suffix in LANGUAGES:
            return LANGUAGES[suffix]
    for suffix in suffixes:
        if suffix in _ELSEWHERE:
            raise UsageError(
                f"it uses {_ELSEWHERE[suffix]}, whose test runner needs the network; only "
                f"{', '.join(language.name for language in LANGUAGES.values())} can be imported"
            )
    raise UsageError(f"its solution {config.files.solution} is in an unknown language")


def _name(folder: Path) -> str:
    try:
        return f"{_language(_config(folder)).name}-{folder.resolve().name}"
    except UsageError:
        return folder.resolve().name


def _fill(source: Path, target: Path) -> list[str]:
    config = _config(source)
    language = _language(config)
    files = config.files
    edited = [name for name in files.solution if PurePosixPath(name).name not in _NOT_EDITED]
    for name in (*files.solution, *files.test, *files.example, *files.editor):
        beneath(source, name)
    # additional test files, such as Go's cases
    tests = [*files.test, *(name for name in files.editor if "test" in PurePosixPath(name).stem)]
    hidden = {str(PurePosixPath(name)) for name in (*tests, *files.example)}
    _copy_rest(source, target / "environment" / "workspace", hidden)
    for name in tests:
        _copy(source / name, target / "tests" / "files" / name)
    for name in edited:  # if the track ships a stub twice, the exercise's own is used
        _copy(source / name, target / "environment" / "workspace" / name)
    write(target / "environment" / "Dockerfile", dockerfile(language.image))
    write(target / "instruction.md", _instruction(source, edited))
    title = f"{source.resolve().name} ({language.name})"
    write(
        target / "task.toml",
        toml(f"exercism/{_name(source)}", config.blurb or title, SECONDS, ("exercism", language.name)),
    )
    _tests(source, language, tests, {str(PurePosixPath(name)) for name in edited}, target)
    notes = _solution(source, files, edited, target / "solution")
    if language.needs:
        notes.append(f"its tests need {language.needs} in the sandbox: installed under /usr, or granted by a profile")
    return notes


def _tests(source: Path, language: ExerciseLanguage, tests: list[str], edited: set[str], target: Path) -> None:
    """Write the test script and the patterns of its expected output."""
    tests_folder = target / "tests"
    if not language.command:
        write_judge(tests_folder, {"TESTS": [name for each in tests for name in _names(source / each, each)]})
        write(tests_folder / "test.sh", _BEGINS + _PYTEST, run=True)
        return
    work = target / "environment" / "workspace"
    for path in (path.relative_to(work) for path in sorted(work.rglob("*")) if path.is_file()):
        if str(path) not in edited:  # files that build the tests or that they depend on
            _copy(work / path, tests_folder / "files" / path)
    code = [each for each in tests if PurePosixPath(each).suffix in LANGUAGES]
    test_names = [name for each in code for name in re.findall(language.test, read_regular_text(source / each))]
    if not test_names:
        raise UsageError(f"its files {tests} do not contain a test")
    lines = dict.fromkeys(
        language.passed.format(name=test_name, count=len(test_names), more=len(test_names) + 1)
        for test_name in test_names
    )
    write(tests_folder / "passed.txt", "\n".join(lines) + "\n")
    write(tests_folder / "trap.txt", "\n" + language.trap.format(name="TRAP") + "\n")
    script = _BUILT.format(
        steering=" ".join(language.steering), file=shlex.quote(f"./{code[0]}"), command=shlex.quote(language.command),
        failed=shlex.quote(language.failed.format()), trapped=shlex.quote("FAIL|^t[0-9a-f]+$"),
    )  # fmt: skip
    write(tests_folder / "test.sh", _BEGINS + script, run=True)


def _names(path: Path, file: str) -> Iterator[str]:
    """Yield the pytest ids of the tests defined in a file."""
    try:
        module = ast.parse(read_regular(path))
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"its test {file} is not valid Python ({error})") from error
    for statement in module.body:
        if isinstance(statement, ast.FunctionDef) and statement.name.startswith("test"):
            yield f"{file}::{statement.name}"
        elif isinstance(statement, ast.ClassDef) and (statement.name.startswith("Test") or statement.bases):
            for inner in statement.body:
                if isinstance(inner, ast.FunctionDef) and inner.name.startswith("test"):
                    yield f"{file}::{statement.name}::{inner.name}"


def _copy_rest(source: Path, work: Path, hidden: set[str]) -> None:
    """Copy everything except the exercise's metadata, its tests and its example."""
    work.mkdir(parents=True)
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source)
        if name.parts[0].startswith(".") or str(name) in hidden or path.is_symlink() or not path.is_file():
            continue
        _copy(path, work / name)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    copy_regular(source, target, _MAX_FILE_BYTES)
    target.chmod(0o755 if source.stat().st_mode & 0o111 else 0o644)


def _instruction(source: Path, edited: list[str]) -> str:
    parts = [source / ".docs" / f"{name}.md" for name in ("introduction", "instructions", "instructions.append")]
    texts = [
        read_regular_text(beneath(source, str(part.relative_to(source)))).strip() for part in parts if part.is_file()
    ]
    if not texts:
        raise UsageError(f"{source} has no .docs/instructions.md; the folder is incomplete")
    files = " and ".join(f"`{name}`" for name in edited)
    return "\n\n".join(texts) + _ASKS.format(files=files, are="is" if len(edited) == 1 else "are")


def _solution(source: Path, files: _Files, edited: list[str], solution: Path) -> list[str]:
    """Write the example solution under the names of the stubs, matched by suffix in listed order."""
    unmatched = list(files.example)
    pairs = []
    for name in edited:
        match = next(
            (
                example_name
                for example_name in unmatched
                if PurePosixPath(example_name).suffix == PurePosixPath(name).suffix
            ),
            None,
        )
        if match is None:
            return [f"it lacks an example of {name}, so the tests cannot be checked with a solution"]
        unmatched.remove(match)
        pairs.append((match, name))
    lines = ["#!/bin/sh", "set -eu", 'here=$(cd "$(dirname "$0")" && pwd)', 'cp -R "$here/files/." .']
    for example, name in pairs:
        _copy(source / example, solution / "files" / name)
    write(solution / "solve.sh", "\n".join(lines) + "\n", run=True)
    return []
