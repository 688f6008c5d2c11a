"""Files of the machine that no test may change, compared during and after the run.

After each test a worker checks some forty well-known files and fails the test that changed one. At the end the run
compares all of ``/etc``, the names at the root of the system, and the settings and keys in the home folder. A
difference fails the run and names the tests that were running when the file changed. An ordinary user's run compares
only what that user can write, because a package manager may change the rest at any time.
"""

import hashlib
import os
import pwd
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

HOME = Path(pwd.getpwuid(os.getuid()).pw_dir)
_IN_HOME = (
    ".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zprofile", ".gitconfig", ".netrc", ".npmrc",
    ".pypirc", ".pip/pip.conf", ".config/git/config", ".config/pip/pip.conf", ".config/stackmem/config.toml",
    ".ssh/authorized_keys", ".ssh/config", ".ssh/id_rsa", ".ssh/id_ed25519", ".aws/credentials", ".kube/config",
    ".docker/config.json",
)  # fmt: skip
_HOME_TREES = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".kube",
    ".config/stackmem",
    ".config/systemd",
    ".config/autostart",
    ".local/bin",
)
_LIVELY = ("known_hosts", "known_hosts.old", "random_seed")  # other programs of the user write these while tests run
_LISTED = ("/", "/usr", "/usr/local/bin", "/usr/local/lib", "/usr/local/sbin", "/opt", "/root", "/srv", "/boot", "/lib")
_QUICK = (
    "/etc", "/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/sudoers", "/etc/hosts", "/etc/hostname",
    "/etc/resolv.conf", "/etc/fstab", "/etc/profile", "/etc/environment", "/etc/ld.so.preload", "/etc/ld.so.cache",
    "/etc/crontab", "/etc/nsswitch.conf", "/etc/os-release", "/etc/ssl", "/etc/apt", "/etc/cron.d", "/etc/profile.d",
)  # fmt: skip
BEST_KNOWN = (*(_QUICK if os.geteuid() == 0 else ()), *(str(HOME / name) for name in _IN_HOME))
_MAX_BYTES = 4 << 20
_MAX_FILES = 20_000

Seen = dict[str, str]
"""Path to its state: kind, mode, owner, and a digest of contents, target or names. Times do not count."""


def everything() -> Seen:
    """Return the state of all sentinels. Reads a few megabytes; meant for the start and the end of a run."""
    trees = [Path("/etc"), *(HOME / name for name in (*_IN_HOME, *_HOME_TREES))]
    listed = [*map(Path, _LISTED), HOME]
    if os.geteuid() != 0:
        trees, listed = [tree for tree in trees if _mine(tree)], [folder for folder in listed if _mine(folder)]
    return look(trees, listed)


def _mine(place: Path) -> bool:
    return os.access(place if place.exists() else place.parent, os.W_OK)


def quick(places: Iterable[str] = BEST_KNOWN) -> dict[str, tuple[int, ...]]:
    """Return what ``lstat`` reports of the best-known sentinels: fast enough to run after each test."""
    return {place: _state(place) for place in places}


def look(trees: Iterable[Path], listed: Iterable[Path] = ()) -> Seen:
    """Return the state of whole trees and the names in other folders, whose files come and go and are not compared."""
    seen: Seen = {}
    for tree in trees:
        for place in (tree, *sorted(tree.rglob("*"))[:_MAX_FILES]) if tree.is_dir() else (tree,):
            if place.name not in _LIVELY:
                seen[str(place)] = _described(place)
    for folder in listed:
        names = sorted(os.listdir(folder)) if folder.is_dir() else []
        # A shell, a desktop and other programs of the user write histories and caches to the top of the home folder.
        seen[f"{folder}/"] = " ".join(name for name in names if folder != HOME or not name.startswith("."))
    return seen


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return [place for place in sorted({*before, *after}) if before.get(place) != after.get(place)]


def changed_at(place: str) -> float:
    """Return the time of the last change to the file or folder in seconds since the epoch; 0 if it was deleted."""
    try:
        return Path(place).lstat().st_ctime
    except OSError:
        return 0.0


def _state(place: str) -> tuple[int, ...]:
    try:
        found = os.lstat(place)
    except OSError as error:
        return (error.errno or 0,)
    return found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_uid


def _described(place: Path) -> str:
    try:
        found = place.lstat()
        if stat.S_ISLNK(found.st_mode):
            contents = str(place.readlink())
        elif stat.S_ISREG(found.st_mode) and found.st_size <= _MAX_BYTES:
            contents = hashlib.sha256(place.read_bytes()).hexdigest()
        else:
            contents = str(found.st_size) if stat.S_ISREG(found.st_mode) else ""
    except OSError as error:
        return os.strerror(error.errno or 0)
    return f"{found.st_mode:o} {found.st_uid}:{found.st_gid} {contents}"


class WholeRun:
    """A pytest plug-in for the reporting process: compares all sentinels before and after the run, and names tests."""

    def __init__(self, look_now: Callable[[], Seen] = everything) -> None:
        self._look, self._before = look_now, look_now()
        self._reports: list[tuple[float, float, str]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append((report.start, report.stop, report.nodeid))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.found = differences(self._before, self._look())
        if self.found:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for place in getattr(self, "found", ()):
            moment = changed_at(place)
            names = sorted({name for start, stop, name in self._reports if start - 1 <= moment <= stop + 1})
            terminalreporter.line(f"FAILED: {place} changed during the run; under way then: {', '.join(names) or '?'}")
