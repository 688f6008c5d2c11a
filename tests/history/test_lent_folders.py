"""Installed packages next to a copy: visible at their original path, and read-only if the level can enforce it."""

import json
import os
from pathlib import Path

import pytest

from stackmem.core.facts import ToolReturned
from stackmem.history.lent_folders import lend_folders
from stackmem.history.repository import plan_copy
from tests.stage import Stage, call, command, events, pop, with_bubblewrap

from .folders import folder, repository, run_git


@pytest.fixture
def hers(tmp_path: Path) -> Path:
    """A workspace of packages, one of them installed by a link, and an environment."""
    root = repository(
        tmp_path / "hers", {".gitignore": "node_modules\n.venv\n", "packages/a/index.js": "exports.a = 1\n"}
    )
    files = {
        "node_modules/b/index.js": "exports.b = 2\n",
        "packages/a/node_modules/c/index.js": "exports.c = 3\n",
        ".venv/pyvenv.cfg": "home = /usr/bin\n",
        ".venv/lib/d.py": "D = 4\n",
    }
    folder(root, files)
    (root / "node_modules" / "a").symlink_to("../packages/a")
    return root


def everything(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


LOOK = "cat node_modules/a/index.js node_modules/b/index.js packages/a/node_modules/c/index.js .venv/lib/d.py"
SEEN = "exports.a = 1\nexports.b = 2\nexports.c = 3\nD = 4\n[exit 0]"


@pytest.mark.parametrize("level", [pytest.param("bubblewrap", marks=with_bubblewrap), "namespaces", "landlock", "none"])
def test_installed_packages_are_visible_in_a_copy_but_not_writable(stage: Stage, hers: Path, level: str):
    before = everything(hers)
    replies = [
        command(LOOK),
        command("echo 5 > .venv/lib/d.py || rm -rf packages/a/node_modules/c && echo written"),
        call("write_file", path=".venv/lib/d.py", content="written"),
        command("echo 2 > packages/a/index.js"),
        pop(),
    ]
    flags = ("--layer", "copy", "--isolation", level, "--json", "--fsync", "none", "--check", LOOK)
    ran = stage.call("solve", ".", "-t", "Look.", "--model", stage.script(*replies), *flags, cwd=hers)
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert result["changed"] == ["packages/a/index.js"]
    assert everything(hers) == before
    seen, refused, tool, _ = [fact.text for fact in events(stage.only_run(), ToolReturned)]
    work = Path(str(result["workspace"]))
    if level == "bubblewrap":
        assert refused.endswith("is read-only in this run; write elsewhere)\n[exit 1]")
        assert (
            tool == "'.venv/lib/d.py' is among the installed packages, which are read-only in this run; "
            "use another path"
        )
        assert seen == SEEN
    elif level == "none":
        assert (seen, "written" in refused) == (SEEN, True)  # this level cannot refuse writes, so the copy has its own
        return
    else:
        assert seen == SEEN
        assert "denied" in refused
        assert "written" not in refused
        assert tool.startswith("'.venv/lib/d.py' is outside the workspace")
    # Without mounts, an absolute link back would lead to the original folder instead of the copy.
    lent = (".venv", "node_modules", "packages/a/node_modules")[:: 2 if level != "bubblewrap" else 1]
    assert f"available read-only, not copied: {', '.join(lent)}\n" in ran.stderr
    assert not [path for name in lent for path in (work / name).rglob("*") if not (work / name).is_symlink()]
    forked = stage.call(
        "fork", "last", "--at", "1", "--model", stage.script(pop(), command(LOOK), pop(), name="b.yaml"), cwd=hers
    )
    assert forked.returncode == 0, forked.stderr
    last = max(stage.runs.iterdir(), key=lambda run: run.stat().st_mtime_ns)
    assert events(last, ToolReturned)[-1].text == seen
    assert stage.call("replay", result["run"], "--tools", "live", cwd=hers).returncode == 0


def test_hidden_files_of_a_lent_folder_are_not_copied(hers: Path):
    folder(hers, {".venv/lib/.env": "PASSWORD=1\n", "node_modules/b/.git/config": "url"})
    plan = plan_copy(hers, (), lend="mount")
    assert plan.lent == ("packages/a/node_modules",)
    assert b".venv/lib/d.py" in plan.selected.files
    assert b".venv/lib/.env" not in plan.selected.files
    assert b"packages/a/node_modules/c/index.js" not in plan.selected.files


@pytest.mark.parametrize("how", ["mount", "link", "copy"])
def test_a_runs_replacement_of_a_lent_folder_stays_and_links_are_not_followed(tmp_path: Path, hers: Path, how):
    work = folder(tmp_path / "work", {"node_modules/own.js": "", "elsewhere/x": ""})
    (work / "packages").mkdir()
    (work / "packages" / "a").symlink_to(tmp_path)
    paths = (".venv", "node_modules", "packages/a/node_modules", "gone")
    found, missing = lend_folders(hers, work, paths, how)
    assert found == ({} if how == "copy" else {b".venv": hers / ".venv"})
    assert missing == ("gone",)
    assert not (tmp_path / "node_modules").exists()
    assert os.listdir(work / "node_modules") == ["own.js"]
    for again in ("link", "mount", "link", "copy"):  # as in a run resumed at another level
        lend_folders(hers, work, paths, again)
    assert (work / ".venv" / "lib" / "d.py").read_text() == "D = 4\n"
    assert not (work / ".venv").is_symlink()


def test_the_copy_holds_nothing_of_what_is_lent_and_git_shows_nothing_of_it(stage: Stage, hers: Path):
    run_git(hers, "commit", "-q", "--allow-empty", "-m", "more")
    ran = stage.call(
        "solve", ".", "-t", "Look.", "--layer", "copy", "--json", "--model",
        stage.script(command("git status --short; git log --format=%s"), pop()), cwd=hers,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert [fact.text for fact in events(stage.only_run(), ToolReturned)] == ["more\nstart\n[exit 0]"]
