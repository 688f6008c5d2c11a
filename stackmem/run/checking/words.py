"""The programs of the workspace that a check runs, as far as its own words and the scripts behind them say so.

Rule 1: a file counts if the words run it: as a command, as the script of an interpreter, or as tests of a test runner.
    What a command only reads or compiles is the work that is judged.
Rule 2: a script that runs others is read as the run found it. Of what such a script or a makefile runs, only files that
    look like a part of the check count, by their names: the program that is checked is run by them, too.
"""

from __future__ import annotations

import ast
import os
import posixpath
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from .makefiles import MAKEFILES

_SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "ash", "source", "."}
_INTERPRETERS = {
    "node",
    "ruby",
    "perl",
    "php",
    "deno",
    "bun",
    "tsx",
    "ts-node",
    "lua",
    "Rscript",
    "awk",
    "gawk",
    "pwsh",
}
_WRAPPERS = {
    "env", "exec", "time", "nice", "nohup", "sudo", "command", "builtin", "stdbuf", "xvfb-run", "setsid", "eval", "!",
    "then", "do", "else", "elif", "if", "while", "until", "{", "(", "timeout", "uv", "poetry", "pipenv", "hatch", "pdm",
    "rye", "npx", "coverage", "run", "xargs", "strace", "busybox",
}  # fmt: skip
_BUILDERS = {
    "make": MAKEFILES, "gmake": MAKEFILES,
    "npm": r"package\.json", "yarn": r"package\.json", "pnpm": r"package\.json", "just": r"\.?justfile|[^/]+\.just",
    "rake": r"rakefile(\.rb)?|[^/]+\.rake", "nox": r"noxfile\.py", "task": r"taskfile\.ya?ml",
    "tox": r"tox\.(ini|toml)",
    "ant": r"build\.xml", "invoke": r"tasks\.py", "inv": r"tasks\.py", "doit": r"dodo\.py", "scons": r"sconstruct",
}  # fmt: skip
_RUNNERS = {"pytest": "pytest", "py.test": "pytest", "unittest": "unittest"}
_JUDGES = re.compile(
    r"(.*[-_./])?(ci|checks?|tests?|testing|verify|lint|validate|judge|grade|scripts?|tools?|build|bin|hack)([-_./].*)?"
)
_JUDGING_FOLDER = re.compile(r"(.*/)?(ci|checks?|tests?|testing|verify|judge|grade)(/.*)?")
_PYTHON = re.compile(r"python(\d(\.\d+)?)?|pypy3?")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*\+?=.*", re.DOTALL)
_OWN_PYTHON = re.compile(
    r"\bPYTHONPATH\b|\benv\s+(-i\b|--ignore-environment\b|-(?=\s))|\bpython[\d.]*\s+(-\w+\s+)*-\w*[IES]"
)
_ONLY_COLLECTS = {"--collect-only", "--co", "--setup-only", "--setup-plan"}
_OPTIONAL = r"(?:\[\[?|test)\s+-[efrs]\s+[\"']?"
"""Asks for a file, in a script of a shell, before its name."""
_MOST_SCRIPTS = 200

Reader = Callable[[bytes], bytes | None]
"""Returns the content of a file as the run found it, None if there was no such file."""


@dataclass
class CheckWords:
    """What the words of a check name."""

    programs: set[bytes] = field(default_factory=set)  # files that it runs, by their paths in the workspace
    # files and folders of tests that it names, and that look like nothing else
    tests: set[bytes] = field(default_factory=set)
    # files that a script reads if they are there, and that the run did not find
    optional: set[bytes] = field(default_factory=set)
    folders: set[bytes] = field(default_factory=set)  # folders from which Python may import
    builders: set[str] = field(default_factory=set)  # patterns of names of the files that steer programs such as make
    # commands that print what make would run, each with the folder it runs in
    dry_runs: list[tuple[str, str]] = field(default_factory=list)
    runners: set[str] = field(default_factory=set)  # test runners of Python whose tests decide
    # the arguments of runs whose failures or missing tests are meant, as ``arguments_line`` has them
    undecisive: set[str] = field(default_factory=set)
    own_python: bool = False  # the words set the import path of Python, or have it ignore its environment


class WordReader:
    """Reads the words of one check."""

    def __init__(self, read: Reader, place: str, begins: str = "") -> None:
        self.words = CheckWords()
        self._read = read
        self._place = place
        self._begins = begins
        self._scripts: set[bytes] = set()
        self._decisive: set[str] = set()
        self._ignored = self._made = False  # of the command that is read: its exit code, and its text

    def take(self, text: str, *, own: bool, cwd: str | None = None, made: bool = False) -> CheckWords:
        """Read a text of shell commands."""
        folder = self._begins if cwd is None else cwd
        self.words.own_python |= bool(_OWN_PYTHON.search(text))
        asked = set(re.findall(_OPTIONAL + r"([^\s\"'\]]+)", text))
        for command, ignored in _commands(text):
            self._ignored = ignored
            self._made = made
            if command[0] in ("source", ".") and not own:
                self._optional(command[1:], asked, folder)
            if command[0] in ("cd", "pushd") and len(command) > 1:
                moved = self._inside(command[1], folder)
                folder = folder if moved is None else moved
                self.words.folders.add(os.fsencode(folder))
            else:
                self._command(command, folder, own=own)
        return self.words

    def _optional(self, sourced: list[str], asked: set[str], cwd: str) -> None:
        """Note a file that a script asks for before it reads it, as in ``[ -f FILE ] && . FILE``."""
        for word in sourced[:1]:
            inside = self._inside(word, cwd)
            if (
                inside
                and inside in {self._inside(each, cwd) for each in asked}
                and self._read(os.fsencode(inside)) is None
            ):
                self.words.optional.add(os.fsencode(inside))

    def _command(self, command: list[str], cwd: str, *, own: bool) -> None:
        command = _unwrapped(command)
        if not command:
            return
        name, arguments = posixpath.basename(command[0]), command[1:]
        if self._program(command[0], cwd, own=own):
            return
        if name in ("source", "."):
            self._program("".join(arguments[:1]), cwd, own=own, anywhere=True, sourced=True)
        elif name in _SHELLS:
            self._shell(arguments, cwd, own=own)
        elif _PYTHON.fullmatch(name):
            self._python(arguments, cwd, own=own)
        elif name in _INTERPRETERS:
            self._first_file(arguments, cwd, own=own)
        elif name in _RUNNERS:
            self._runner(_RUNNERS[name], arguments, cwd, own=own)
        elif name in _BUILDERS:
            self._builder(name, command, cwd)

    def _builder(self, name: str, command: list[str], cwd: str) -> None:
        self.words.builders.add(_BUILDERS[name])
        if name in ("make", "gmake"):
            dry_run = shlex.join([command[0], "-n", "-p", "--no-print-directory", *command[1:]])
            self.words.dry_runs.append((dry_run, cwd))
            for flag, value in pairwise(command):
                if flag in ("-f", "--file", "--makefile"):
                    self._program(value, cwd, own=True, anywhere=True)
            for word in command[1:]:
                if word.startswith(("-f", "--file=", "--makefile=")):
                    self._program(re.sub(r"-f|--\w+=", "", word, count=1), cwd, own=True, anywhere=True)

    def _shell(self, arguments: list[str], cwd: str, *, own: bool) -> None:
        for at, word in enumerate(arguments):
            if word.startswith("-") and not word.startswith("--") and "c" in word:
                self.take("".join(arguments[at + 1 : at + 2]), own=own, cwd=cwd, made=self._made)
                return
            if not word.startswith(("-", "+")):
                self._program(word, cwd, own=own, anywhere=True)
                return

    def _first_file(self, arguments: list[str], cwd: str, *, own: bool) -> None:
        for word in arguments:
            if not word.startswith("-") and self._program(word, cwd, own=own, anywhere=True):
                return

    def _python(self, arguments: list[str], cwd: str, *, own: bool) -> None:
        rest = iter(arguments)
        for word in rest:
            if word in ("-W", "-X"):
                next(rest, "")
            elif re.fullmatch(r"-[A-Za-z]*m.*", word):
                module = word.partition("m")[2] or next(rest, "")
                self._module(module, list(rest), cwd, own=own)
                return
            elif re.fullmatch(r"-[A-Za-z]*c.*", word):
                return
            elif not word.startswith("-"):
                self._program(word, cwd, own=own, anywhere=True)
                return

    def _module(self, module: str, arguments: list[str], cwd: str, *, own: bool) -> None:
        if module in _RUNNERS:
            self._runner(_RUNNERS[module], arguments, cwd, own=own)
        elif module == "coverage":
            self._command(["coverage", *arguments], cwd, own=own)
        for folder in ("", "src/"):
            base = folder + module.replace(".", "/")
            for path in (f"{base}.py", f"{base}/__main__.py"):
                self._program(path, cwd, own=False, anywhere=True)

    def _runner(self, runner: str, arguments: list[str], cwd: str, *, own: bool) -> None:
        line = arguments_line(arguments)
        if not self._made and (self._ignored or (runner == "pytest" and not _ONLY_COLLECTS.isdisjoint(arguments))):
            self.words.undecisive |= {line} - self._decisive
        else:
            self._decisive.add(line)
            self.words.undecisive.discard(line)
            self.words.runners.add(runner)
        for flag, value in pairwise(arguments):
            if flag == "-p" and runner == "pytest" and not value.startswith("no:"):
                self._program(value.replace(".", "/") + ".py", cwd, own=own, anywhere=True)
        for word in arguments:
            if word.startswith("@"):
                self._program(word[1:], cwd, own=own, anywhere=True)
            path = word.partition("::")[0]
            if path.startswith("-"):
                continue
            if (inside := self._inside(path, cwd)) is not None:
                self.words.folders.add(os.fsencode(inside))
                if self._program(path, cwd, own=own, anywhere=True) or _JUDGING_FOLDER.fullmatch(inside.lower()):
                    self.words.tests.add(os.fsencode(inside))
            if runner == "unittest":
                names = path.split(".")
                for size in range(len(names), 0, -1):
                    self._program("/".join(names[:size]) + ".py", cwd, own=own, anywhere=True)

    def _program(self, word: str, cwd: str, *, own: bool, anywhere: bool = False, sourced: bool = False) -> bool:
        """Note a file of the workspace that is run, and read it if it is a script of a shell."""
        if "/" not in word and not anywhere:
            return False
        inside = self._inside(word, cwd)
        content = None if not inside else self._read(os.fsencode(inside))
        if inside is None or content is None:
            return False
        path = os.fsencode(inside)
        shell = sourced or _is_shell(inside, content)
        if own or shell or _JUDGES.fullmatch(inside.lower()):
            self.words.programs.add(path)
        self.words.folders.add(os.path.dirname(path))  # noqa: PTH120 - of bytes
        if shell and path not in self._scripts and len(self._scripts) < _MOST_SCRIPTS:
            self._scripts.add(path)
            self.take(content.decode("utf-8", "replace"), own=False, cwd=cwd)
            self.take(content.decode("utf-8", "replace"), own=False, cwd=posixpath.dirname(inside))
        elif inside.endswith(".py") and path in self.words.programs and _JUDGING_FOLDER.fullmatch(inside.lower()):
            self._imports(path, content, cwd)
        return True

    def _imports(self, path: bytes, content: bytes, cwd: str) -> None:
        """Note what a program of the check imports from folders that hold nothing but checks and tests."""
        if path in self._scripts or len(self._scripts) >= _MOST_SCRIPTS:
            return
        self._scripts.add(path)
        above = posixpath.dirname(os.fsdecode(path))
        for module in sorted(_imported(content)):
            for folder in dict.fromkeys((above, cwd)):
                base = posixpath.join(folder, module.replace(".", "/"))
                for inside in (f"{base}.py", f"{base}/__init__.py"):
                    if _JUDGING_FOLDER.fullmatch(inside.lower()):
                        self._program(inside, "", own=False, anywhere=True)

    def _inside(self, word: str, cwd: str) -> str | None:
        """A path in the workspace; None if the word is no path, or leads outside."""
        word = re.sub(r"^(\$PWD|\$\{PWD\}|\$\(pwd\)|`pwd`|\$\(CURDIR\))/", "", word)
        word = re.sub(
            r"^.*(\$\{?\w+\}?|\$\([^)]*\)|`[^`]*`)/", "", word
        )  # a folder that only the shell knows: "$DIR/x"
        if word.startswith(f"{self._place}/"):
            word, cwd = word[len(self._place) + 1 :], ""
        if not word or word.startswith("/") or "$" in word or "\0" in word:
            return None
        path = posixpath.normpath(posixpath.join(cwd, word))
        return None if path.startswith("..") else "" if path == "." else path


def is_judging(folder: bytes) -> bool:
    """Whether a folder looks as if it held nothing but checks and tests."""
    return bool(_JUDGING_FOLDER.fullmatch(os.fsdecode(folder).lower()))


def _imported(content: bytes) -> set[str]:
    """The modules that a Python program may import, as far as its statements say so."""
    try:
        statements = list(ast.walk(ast.parse(content)))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return set()
    found: set[str] = set()
    for each in statements:
        if isinstance(each, ast.Import):
            found |= {alias.name for alias in each.names}
        elif isinstance(each, ast.ImportFrom):
            begin = f"{each.module}." if each.module else ""
            found |= {begin.rstrip("."), *(begin + alias.name for alias in each.names)}
    return found - {""}


def _is_shell(path: str, content: bytes) -> bool:
    first = content[:200].split(b"\n")[0]
    if first.startswith(b"#!"):
        return bool(re.search(rb"\b(ba|da|z|k|a)?sh\b", first))
    return path.endswith((".sh", ".bash")) or "." not in posixpath.basename(path)


def _unwrapped(command: list[str]) -> list[str]:
    """A command without assignments and without programs that only start another one."""
    while command:
        word = posixpath.basename(command[0])
        if _ASSIGNED.fullmatch(command[0]):
            command = command[1:]
        elif word in _WRAPPERS:
            command = command[1:]
            while command and (command[0].startswith("-") or re.fullmatch(r"[\d.]+[smhd]?", command[0])):
                command = command[1:] if command[0] not in ("-m", "--module") else ["python", *command]
                if command[0] == "python":
                    return command
        else:
            break
    return command


def arguments_line(arguments: list[str]) -> str:
    """The arguments of a test runner, as the witness reports them: letters and digits only."""
    return "\0".join(arguments).encode("utf-8", "surrogateescape").hex()


def _commands(text: str) -> Iterator[tuple[list[str], bool]]:
    """The simple commands of a shell text, as words, and whether ``|| true`` ignores how each ends.

    What cannot be read as such is split at spaces.
    """
    for line in text.replace("\\\n", " ").split("\n"):
        words = shlex.shlex(line.lstrip("\t @+-"), posix=True, punctuation_chars=";&|()<>")
        words.whitespace_split = True
        try:
            parts = list(words)
        except ValueError:
            parts = line.split()
        command: list[str] = []
        for at, part in enumerate(parts):
            if part and set(part) <= set(";&|()"):
                if command:
                    yield command, part == "||" and _is_nothing(parts[at + 1 : at + 3])
                command = []
            elif not set(part) <= set("<>") or not part:
                command.append(part)
        if command:
            yield command, False


def _is_nothing(parts: list[str]) -> bool:
    """Whether a command that always succeeds stands alone, up to the next line or ``;``."""
    return parts[:1] in (["true"], [":"]) and parts[1:] in ([], [";"])
