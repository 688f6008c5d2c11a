"""The install hint depends on how this copy was installed, and never assumes that the package index has stackmem."""

from __future__ import annotations

import json
import re
import shlex
import sys
from importlib import metadata
from pathlib import Path

import pytest

from stackmem.foreign import installing
from tests.house.sources import ROOT


class Distribution:
    requires = (
        "msgspec>=0.20",
        "uvicorn>=0.54; extra == 'ui'",
        'starlette>=1.10 ; extra == "ui"',
        "mcp>=2; extra == 'mcp'",
    )

    def __init__(self, direct: object) -> None:
        self._direct = direct if isinstance(direct, str | None) else json.dumps(direct)

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return self._direct


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """An installed copy that is not a checkout; its installer wrote ``direct``."""

    def make(direct: object) -> list[str]:
        monkeypatch.setattr(installing, "_CHECKOUT", tmp_path / "site-packages")
        monkeypatch.setattr(metadata, "distribution", lambda _: Distribution(direct))
        words = shlex.split(installing.install_command("ui"))
        assert words[:4] == [sys.executable, "-m", "pip", "install"]
        return words[4:]

    return make


def test_a_checkout_is_named_by_its_path():
    assert shlex.split(installing.install_command("ui"))[4:] == ["-e", f"{ROOT}[ui]"]


def test_a_wheel_a_folder_and_a_repository_are_installed_again(installed, tmp_path: Path):
    place = tmp_path / "a b"
    place.mkdir()
    wheel = place / "stackmem-1-py3-none-any.whl"
    wheel.touch()
    assert installed({"url": wheel.as_uri(), "archive_info": {}}) == [f"stackmem[ui] @ {wheel.as_uri()}"]
    assert installed({"url": place.as_uri(), "dir_info": {}}) == [f"{place}[ui]"]
    assert installed({"url": place.as_uri(), "dir_info": {"editable": True}}) == ["-e", f"{place}[ui]"]
    git = {"url": "https://me:secret@forge.example/s.git", "vcs_info": {"vcs": "git", "commit_id": "a1b2"}}
    assert installed(git) == ["stackmem[ui] @ git+https://forge.example/s.git@a1b2"]
    assert installed({"url": "https://forge.example/s.whl", "archive_info": {}}) == [
        "stackmem[ui] @ https://forge.example/s.whl"
    ]


@pytest.mark.parametrize(
    "direct",
    [None, "", "not json", "[]", "3", {}, {"url": "ftp://x/y.whl", "archive_info": {}}, {"url": 3, "dir_info": 3},
     {"url": "file:///nowhere/s.whl", "archive_info": {}}],
    ids=str,
)  # fmt: skip
def test_if_the_source_is_not_known_only_other_projects_packages_are_installed(installed, direct):
    assert installed(direct) == ["uvicorn>=0.54", "starlette>=1.10"]


def test_a_copy_without_metadata_has_no_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def none(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(installing, "_CHECKOUT", tmp_path)
    monkeypatch.setattr(metadata, "distribution", none)
    assert "pip" not in installing.install_command("ui")


def test_every_extra_of_a_message_exists():
    extras = {line.split(" = ")[0] for line in _section("[project.optional-dependencies]")}
    used = {
        name
        for path in (ROOT / "stackmem").rglob("*.py")
        for name in re.findall(r"install_command\([\"'](\w+)[\"']\)", path.read_text("utf-8"))
    }
    assert used <= extras
    assert len(used) >= 10


def _section(title: str) -> list[str]:
    after = (ROOT / "pyproject.toml").read_text("utf-8").split(f"{title}\n")[1]
    return [line for line in after.split("\n[")[0].splitlines() if " = [" in line]


# `pip install stackmem`, `pip install 'stackmem[ui]==1'`, `uvx stackmem`; not `stackmem @ file:...`, `stackmem-1.whl`
INDEX_INSTALL = re.compile(
    r"\b(?:(?:pip3?|pipx|uv tool|uv pip|uv) (?:install|add|run)|uvx|pipx run)\b(?:\s+-{1,2}[\w-]+)*\s+"
    r"[`'\"]*stackmem(?:\[[^\]]*\])?(?:[=<>~!]=?[^\s'\"]*)?(?=[\s'\"`),.;]|$)(?! @)"
)
PLACES = (
    "README.md",
    "CONTRIBUTING.md",
    "Containerfile",
    "Makefile",
    "docs",
    "stackmem",
    "scripts",
    "examples",
    "tasks",
    "sandbox",
    "benchmarks",
)


def index_installs(text: str) -> list[str]:
    return [found[0] for found in INDEX_INSTALL.finditer(text)]


def test_no_message_document_or_script_installs_stackmem_from_an_index():
    found = {}
    for place in PLACES:
        root = ROOT / place
        for path in [root] if root.is_file() else root.rglob("*"):
            if path.is_file() and path.suffix not in {".pyc", ".svg", ".png"}:
                bad = index_installs(path.read_text("utf-8", errors="replace"))
                if bad:
                    found[str(path.relative_to(ROOT))] = bad
    assert found == {}


WRONG = """
pip install stackmem
pip install 'stackmem[ui]'
`pip install --quiet stackmem[ui]==1.0`
uvx stackmem solve
uv tool install stackmem
pipx install "stackmem[bench]"
pip install -U 'stackmem>=1'
pipx run stackmem
""".strip().splitlines()
RIGHT = """
pip install -e '/path/of/checkout[ui]'
uv tool install 'stackmem[ui] @ file:///x.whl'
pip install dist/stackmem-1.whl
pip install -e .
pip install 'openai>=3,<4'
pip install stackmem-1-py3-none-any.whl
""".strip().splitlines()


@pytest.mark.parametrize("text", WRONG)
def test_an_index_install_is_seen(text: str):
    assert index_installs(text)


@pytest.mark.parametrize("text", RIGHT)
def test_another_install_is_not(text: str):
    assert not index_installs(text)


def installs(script: str) -> list[str]:
    """The lines of a shell script that install packages, continuation lines joined."""
    lines = script.replace("\\\n", " ").splitlines()
    return [line for line in lines if re.search(r"\b(pip|npm)\b[^|;#]*\b(install|ci|add)\b", line.split("#")[0])]


def is_pinned(line: str) -> bool:
    """Return whether the command checks hashes or installs only from this machine."""
    by_hash = r"--require-hashes|\bnpm(-cli\.js\")? +ci\b|--package-lock-only"
    local = r"--no-index|--no-deps\b.* \.(\s|$)"
    passed_on = r"\"\$@\""  # a function that installs its arguments; they are on other lines
    return bool(re.search(f"{by_hash}|{local}|{passed_on}", line))


def test_scripts_install_packages_by_hash():
    scripts = [*(ROOT / "scripts").glob("*.sh"), ROOT / "Containerfile"]
    lines = {line.strip() for path in scripts for line in installs(path.read_text("utf-8"))}
    assert len(lines) >= 4
    assert [line for line in lines if not is_pinned(line)] == []


def test_an_install_without_hashes_is_seen():
    (line,) = installs("uv pip install --quiet \\\n  --python x harbor\necho pip")
    assert not is_pinned(line)
    assert not is_pinned("npm install --silent --prefix x codex")


def test_every_locked_package_has_a_hash():
    locks = list((ROOT / "scripts" / "locks").glob("*.lock"))
    assert {lock.stem for lock in locks} == {names.stem for names in (ROOT / "scripts" / "locks").glob("*.in")}
    for lock in locks:
        entries = re.split(r"\n(?=\S)", lock.read_text("utf-8").strip())
        assert [entry[:60] for entry in entries if "==" not in entry or "--hash=sha256:" not in entry] == []
    for project in (ROOT / "scripts" / "locks").glob("*/package-lock.json"):
        packages = json.loads(project.read_text("utf-8"))["packages"]
        assert [name for name, found in packages.items() if name and "integrity" not in found] == []
