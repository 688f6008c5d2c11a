"""In a repository whose configuration names its own program, git commands do not run it."""

import os
import subprocess
from pathlib import Path

from stackmem.core.errors import WorkspaceError
from stackmem.history.git import git, store_environment, user_git_environment


def hostile(folder: Path, marker: Path) -> str:
    """A repository that lacks an object of its commit and names a program to fetch it; returns that object."""
    calm = {"PATH": os.defpath, "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}

    def run(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=folder, env=calm, check=True, capture_output=True, text=True).stdout

    (folder / "file").write_text("text\n")
    run("init", "-q")
    run("add", "file")
    run("-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "one")
    lost = run("rev-parse", "HEAD:file").strip()
    (folder / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
    for name, value in (
        ("core.repositoryformatversion", "1"), ("extensions.partialclone", "o"), ("remote.o.promisor", "true"),
        ("remote.o.partialclonefilter", "blob:none"), ("remote.o.url", str(folder)),
        ("remote.o.uploadpack", f"touch {marker}; false"), ("protocol.file.allow", "always"),
    ):  # fmt: skip
        run("config", name, value)
    return lost


def test_a_question_about_a_foreign_repository_runs_none_of_its_programs(tmp_path: Path):
    folder, marker = tmp_path / "hers", tmp_path / "ran"
    folder.mkdir()
    lost = hostile(folder, marker)
    unguarded = {name: value for name, value in user_git_environment().items() if "PROTOCOL" not in name}
    unguarded.pop("GIT_NO_LAZY_FETCH")
    for environment in (user_git_environment(), store_environment(folder / ".git")):
        try:
            git("cat-file", "-p", lost, cwd=folder, environment=environment)
        except WorkspaceError:
            assert not marker.exists()
    try:
        git("cat-file", "-p", lost, cwd=folder, environment=unguarded)
    except WorkspaceError:
        assert marker.exists()  # proves that the repository is hostile
