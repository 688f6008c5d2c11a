"""The locks contain every version with its hashes, and no file says where packages come from."""

import json
import os
import pwd
import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.sources import ROOT, files, name

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PINNED = re.compile(r"^([a-z0-9][a-z0-9.-]*)==([^ ;]+)")
# Spelled in pieces, so that this file does not contain the names either.
REGISTRIES = tuple(
    host.replace("+", ".")
    for host in (
        "pypi+org", "pythonhosted+org", "registry+npmjs", "npmjs+org", "deb+debian", "archive+ubuntu", "crates+io",
        "proxy+golang", "quay+io", "ghcr+io", "docker+io", "anaconda+org", "nodesource+com",
    )
)  # fmt: skip
HOME = pwd.getpwuid(os.getuid()).pw_dir
EXAMPLE = "/home/ann"  # the home folder used in examples, which may also be the real user's name


def machine(root: str, home: str) -> re.Pattern[str]:
    """Return the checkout's path, unless it is a common one, and hidden folders in a home."""
    hidden = rf"(?<![\w.-]){re.escape(home)}/\.[a-z]"
    return re.compile(rf"(?<![\w./-]){re.escape(root)}(?![\w-])|{hidden}" if root.count("/") > 1 else hidden)


MACHINE = machine(str(ROOT), HOME)


def pinned(lock: str) -> list[tuple[str, str]]:
    """Return every pin; a package pinned for several Pythons appears several times."""
    lines = (ROOT / lock).read_text(encoding="utf-8").splitlines()
    return [(found[1], found[2]) for line in lines if (found := PINNED.match(line))]


def pins(lock: str) -> dict[str, str]:
    return dict(pinned(lock))


def wanted() -> list[Requirement]:
    extras = PROJECT["project"]["optional-dependencies"].values()
    project = [*PROJECT["project"]["dependencies"], *(line for extra in extras for line in extra)]
    groups = PROJECT["dependency-groups"]
    return [Requirement(line) for line in (*project, *groups["build"], *groups["dev"])]


@pytest.mark.parametrize("requirement", wanted(), ids=lambda requirement: requirement.name)
def test_pyprojects_requirements_are_locked_at_satisfying_versions(requirement):
    version = pins("requirements-dev.lock")[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(version, prereleases=True), f"{version}: run `make lock`"


def test_the_run_lock_holds_the_dependencies_and_the_build_backend():
    run = pins("requirements.lock")
    project = [Requirement(line) for line in PROJECT["project"]["dependencies"]]
    build = [Requirement(line) for line in PROJECT["build-system"]["requires"]]
    assert [one.name for one in project + build if canonicalize_name(one.name) not in run] == []


def test_the_locks_agree():
    assert pins("requirements.lock").items() <= pins("requirements-install.lock").items()
    assert pins("requirements-install.lock").items() <= pins("requirements-dev.lock").items()
    assert [Requirement(line).name for line in PROJECT["dependency-groups"]["release"]] == ["cyclonedx-bom"]
    assert "cyclonedx-bom" in pins("requirements-release.lock")


@pytest.mark.parametrize("lock", sorted(path.name for path in ROOT.glob("requirements*.lock")))
def test_every_pin_has_a_hash(lock):
    text = (ROOT / lock).read_text(encoding="utf-8")
    entries = re.split(r"(?m)^(?=[a-z0-9])", text)[1:]
    assert len(entries) == len(pinned(lock)) > 20
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []


def test_every_npm_package_has_its_integrity_and_no_address():
    packages = json.loads((ROOT / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    below = {path: entry for path, entry in packages.items() if path}
    assert below
    assert [path for path, entry in below.items() if not entry.get("integrity") or "resolved" in entry] == []


def addresses(text: str) -> list[str]:
    places = [place for place in MACHINE.findall(text) if not place.startswith(f"{EXAMPLE}/.")]
    return [host for host in REGISTRIES if host in text] + places


def test_no_file_names_a_registry_or_a_machine():
    named = {name(path): addresses(path.read_bytes().decode(errors="replace")) for path in files("*")}
    assert len(named) > 1_000
    assert {path: places for path, places in named.items() if places} == {}


def test_an_address_or_a_machine_path_is_seen():
    assert addresses("see https://" + REGISTRIES[0] + "/simple")
    place = machine("/somewhere/checkout", EXAMPLE)
    assert place.search("cd /somewhere/checkout/docs")
    assert place.search("in '/home/ann/.cache'")
    assert not place.search("/elsewhere/somewhere/checkout, /somewhere/checkouts, /home/ann/project")
    assert not machine("/src", "/home/ann").search("cat /src/x")


@pytest.mark.parametrize("text", ["/workspace/src", "sandbox/work/x", "/work", "/root"])
def test_an_ordinary_path_is_not_a_machine_path(text):
    assert addresses(text) == []
