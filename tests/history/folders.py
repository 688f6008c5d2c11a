"""Folders to copy, change and compare, described by their content."""

import os
import stat
import subprocess
from pathlib import Path

Content = bytes | str
"""A file's content: bytes or text. Text starting with ``->`` is a link, text starting with ``#!`` an executable."""


def folder(root: Path, files: dict[str, Content]) -> Path:
    """Write the files below ``root``, creating it if necessary."""
    root.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if isinstance(content, str) and content.startswith("->"):
            path.symlink_to(content[2:])
            continue
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(0o755 if isinstance(content, str) and content.startswith("#!") else 0o644)
    return root


def holds(root: Path) -> dict[str, Content]:
    """Return a folder's content in the form that ``folder`` accepts; links and executables as text."""
    found: dict[str, Content] = {}
    for at, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not (Path(at) / name).is_symlink() and name != ".git"]
        for name in [*names, *(name for name in os.listdir(at) if (Path(at) / name).is_dir())]:
            path = Path(at) / name
            shown = str(path.relative_to(root))
            if path.is_symlink():
                found[shown] = f"->{path.readlink()}"
            elif path.is_file():
                executable = path.stat().st_mode & stat.S_IXUSR
                found[shown] = path.read_bytes().decode() if executable else path.read_bytes()
    return found


def names(root: Path) -> set[str]:
    return set(holds(root))


def repository(root: Path, tracked: dict[str, Content]) -> Path:
    """Create a git repository with these files in one commit."""
    folder(root, tracked)
    run_git(root, "init", "-q")
    run_git(root, "add", "-A", "-f")
    run_git(root, "commit", "-q", "--allow-empty", "-m", "start")
    return root


def run_git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout
