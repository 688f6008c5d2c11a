"""Identify what produced the results: the code, its commit, and the installed packages."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

from stackmem.core.errors import UsageError
from stackmem.history.origin import find_origin, work_tree_of

_KINDS = (".py", ".md", ".toml", ".json")


@cache
def code_digest() -> str:
    """Return the SHA-256 over the sources of the package."""
    home = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    for path in (path for path in sorted(home.rglob("*")) if path.suffix in _KINDS):
        digest.update(f"{path.relative_to(home)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def revision() -> str:
    """Return the commit that the package was checked out from, or an empty string if it was installed."""
    try:
        home = Path(__file__).resolve().parents[3]
        return find_origin(home).head if work_tree_of(home) == home else ""
    except (OSError, UsageError):
        return ""


def environment() -> list[str]:
    """Return the interpreter and every installed package with its version, one line each."""
    packages = {f"{package.metadata['Name']}=={package.version}" for package in distributions()}
    return [f"# {platform.python_implementation()} {platform.python_version()}, {platform.system()}", *sorted(packages)]
