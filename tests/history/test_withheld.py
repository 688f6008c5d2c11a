"""Which files with secrets a run sees: tracked examples, never a person's own, and no keys of a home folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from stackmem.core.errors import UsageError
from stackmem.history.hidden import plan_layer
from stackmem.history.origin import find_origin
from stackmem.history.repository import plan_copy
from stackmem.history.selection import keys_in, select

from .folders import folder, repository, run_git

KEY = "TOKEN=ghp_" + "a" * 36 + "\n"


def shown(place: Path, *include: str) -> set[bytes]:
    """The ``.env*`` files that a copy has; an overlay shows the same ones."""
    copied = {path for path in select(place, include).files if b".env" in path}
    hidden = set(plan_layer(place, include).hidden)
    assert not copied & hidden
    return copied


def test_tracked_examples_are_shown_and_everything_else_is_not(tmp_path: Path) -> None:
    place = repository(
        tmp_path / "p",
        {".env.test": "PORT=2\n", "sub/.env.example": "KEY=\n", ".env": "K=1\n", ".env.local": "K=1\n", ".env.ci": KEY,
         ".env.production": "K=1\n", ".envrc": "K=1\n", ".env.test.local": "K=1\n", ".env.d/x": "K=1\n"},
    )  # fmt: skip
    folder(place, {".env.dev": "PORT=3\n"})
    assert shown(place) == {b".env.test", b"sub/.env.example"}
    assert shown(place, ".env.ci") == {b".env.test", b"sub/.env.example", b".env.ci"}
    assert ".env.ci" not in plan_copy(place, (".env.ci",)).skipped
    for name in (".env", ".env.dev", ".env.local"):
        with pytest.raises(UsageError, match="never copied"):
            shown(place, name)


def test_a_link_or_a_large_file_is_no_example(tmp_path: Path) -> None:
    place = repository(tmp_path / "p", {".env.large": "A=1\n" * 30_000, "a": "a"})
    (place / ".env.link").symlink_to("/etc/hostname")
    run_git(place, "add", "-f", ".env.link")
    assert shown(place) == set()


def test_an_untracked_example_stays_hidden_outside_of_git(tmp_path: Path) -> None:
    place = folder(tmp_path / "p", {".env.test": "PORT=2\n", "a": "a"})
    assert shown(place) == set()


SECRETS = {".ssh/id_ed25519": "k", ".aws/credentials": "k", ".netrc": "k", ".config/gh/hosts.yml": "k",
           ".config/chromium/Default/Cookies": "k", ".gnupg/x": "k"}  # fmt: skip


def test_the_keys_of_a_home_are_hidden(tmp_path: Path) -> None:
    place = folder(tmp_path / "home", {**SECRETS, "doc.txt": "d", ".config/app/settings": "s"})
    assert keys_in(place)
    seen = set(select(place, ()).files)
    assert seen == {b"doc.txt", b".config/app/settings"}
    hidden = plan_layer(place).hidden
    assert all(any(path.encode().startswith(each) for each in hidden) for path in SECRETS)


def test_a_project_may_have_a_folder_of_such_a_name(tmp_path: Path) -> None:
    place = folder(tmp_path / "p", {".aws/config": "region", "a": "a"})
    assert not keys_in(place)
    assert b".aws/config" in select(place, ()).files


def test_the_home_folder_itself_is_one_without_any_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert keys_in(tmp_path)


def test_what_a_runs_repository_lacks_is_said(tmp_path: Path) -> None:
    place = repository(tmp_path / "p", {"a": "1\n"})
    assert find_origin(place).unfinished() == ()
    (place / "a").write_text("2\n", encoding="utf-8")
    assert find_origin(place).unfinished() == ()
    run_git(place, "add", "a")
    (place / ".git" / "MERGE_HEAD").write_text("0" * 40 + "\n", encoding="utf-8")
    assert find_origin(place).unfinished() == ()
    (place / ".git" / "BISECT_LOG").write_text("git bisect start\n", encoding="utf-8")
    (said,) = find_origin(place).unfinished()
    assert "in the middle of a bisection" in said


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12345\n"


def test_empty_submodules_and_lfs_pointers_are_named_with_the_command_that_fetches_them(tmp_path: Path) -> None:
    place = repository(
        tmp_path / "p", {".gitattributes": "*.bin filter=lfs diff=lfs\n", **{f"d/{n}.bin": POINTER for n in range(5)}}
    )
    for name in ("vendor/x", "vendor/full"):
        (place / name).mkdir(parents=True)
        run_git(place, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},{name}")
    (place / "vendor/full/a").write_text("a", encoding="utf-8")
    (place / "d/0.bin").write_bytes(b"fetched")
    (place / "d/1.bin").unlink()
    (place / "d/1.bin").symlink_to("2.bin")
    run_git(place, "commit", "-qm", "submodules")
    submodules, pointers = (note for note in find_origin(place).unfinished() if "first" in note)
    assert submodules.startswith("submodules without files: vendor/x; ")
    assert "`git submodule update --init`" in submodules
    assert pointers.startswith("LFS pointers instead of the files: d/2.bin, d/3.bin, d/4.bin; ")
    assert "`git lfs pull`" in pointers


def test_a_file_that_looks_like_a_pointer_is_one_only_if_the_project_uses_lfs(tmp_path: Path) -> None:
    place = repository(tmp_path / "p", {"a.bin": POINTER, ".gitattributes": "# *.bin filter=lfs\n"})
    assert find_origin(place).unfinished() == ()


def test_hostile_names_of_submodules_stay_on_one_line(tmp_path: Path) -> None:
    place = repository(tmp_path / "p", {"a": "1\n"})
    for number in range(5):
        run_git(place, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},{number}\n\x1b[31m")
    run_git(place, "commit", "-qm", "submodules")
    (note,) = find_origin(place).unfinished()
    assert "\n" not in note
    assert "\x1b" not in note
    assert "and 2 more" in note
