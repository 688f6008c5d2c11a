"""Realistic task folders on Debian's own base systems, as root and as an ordinary user.

``IMAGE_BASES`` may name a folder with ``bookworm.tar`` and ``trixie.tar``; otherwise mmdebstrap creates them, which
needs Debian's packages and some minutes. pip and apt download what the images install.
"""

import os
import shutil
import site
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackmem.workspace.tree import remove_tree
from tests.conftest import CAMPAIGN
from tests.workspace.people import PEOPLE, Person
from tests.workspace.roots import small_base

from .test_image_tasks import TOML

pytestmark = pytest.mark.campaign
ROOT = Path(__file__).parents[3]
SUITES = {"bookworm": "python3,python3-pip", "trixie": "python3-minimal"}
BOOKWORM = "FROM debian:bookworm-slim\n"
FETCH = "RUN sed -i /security/d /etc/apt/sources.list && apt-get update && apt-get install -y --no-install-recommends "

# Name to: Dockerfile, solution command, a command that succeeds after a correct solution, more files.
SHAPES: dict[str, tuple[str, str, str, dict[str, str]]] = {
    "app": (f"{BOOKWORM}WORKDIR /app\nCOPY given .\n", "cp given answer", "[ -f /app/answer ]", {"given": "1"}),
    "src": (f"{BOOKWORM}WORKDIR /usr/src/app\n", "pwd > where", "[ $(cat where) = /usr/src/app ]", {}),
    "pip": (
        f"{BOOKWORM}RUN pip install --break-system-packages tabulate==0.9.0\nWORKDIR /app\n",
        "python3 -c 'import tabulate; print(tabulate.tabulate([[7]]))' > table", "grep -q 7 table", {},
    ),
    "apt": (f"{BOOKWORM}{FETCH}jq\nWORKDIR /app\n", "echo '{\"a\": 3}' | jq .a > answer", "[ $(cat answer) = 3 ]", {}),
    "user": (
        f"{BOOKWORM}RUN useradd -m -u 1001 dev && mkdir /app && chown dev:dev /app\nUSER dev\nWORKDIR /app\n",
        "id -un > who; touch ~/mine", "[ $(cat who) = dev ] && [ -f /home/dev/mine ]", {},
    ),
    "trixie": (
        "FROM debian:trixie-slim\nWORKDIR /app\n", "python3 -c 'import sys; print(sys.version_info[1])' > minor",
        "[ $(cat minor) -ge 13 ] && grep -q trixie /etc/os-release", {},
    ),
    "system": (
        f"{BOOKWORM}ENV MODE=on\nRUN echo one > /etc/tool.conf\nWORKDIR /root\n", "echo $MODE > /etc/tool.conf",
        "[ $(cat /etc/tool.conf) = on ]", {},
    ),
    "shell": ("FROM small\nWORKDIR /app\n", "echo yes > said", "[ $(cat said) = yes ]", {}),
    "named": ("", "cat /etc/debian_version > version", "grep -q 12 version", {}),
    "steps": (f"{BOOKWORM}WORKDIR /app\n", "", "", {}),
}  # fmt: skip


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    if not CAMPAIGN:
        pytest.skip("creating base systems from Debian packages takes minutes, so it runs only in campaigns")
    folder = Path(os.environ.get("IMAGE_BASES") or tempfile.mkdtemp(prefix="stackmem-bases-"))
    folder.chmod(0o755)
    for suite, include in SUITES.items():
        if not (folder / f"{suite}.tar").is_file():
            if shutil.which("mmdebstrap") is None:
                pytest.skip("mmdebstrap is not installed, and IMAGE_BASES does not name a folder with base systems")
            made, whole = folder / f"{suite}.part.tar", folder / f"{suite}.tar"
            words = ["mmdebstrap", "--variant=minbase", f"--include={include}", suite, str(made)]
            outside = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
            subprocess.run(words, check=True, timeout=1800, env=outside)
            made.rename(whole)
    small = small_base(tmp_path_factory.mktemp("base") / "small")
    subprocess.run(["tar", "-C", small, "-cf", folder / "small.tar", "."], check=True)
    named = {"debian:bookworm-slim": "bookworm", "debian:trixie-slim": "trixie", "small": "small"}
    return [word for name, file in named.items() for word in ("--base", f"{name}={folder / file}.tar")]


@pytest.fixture(scope="module", params=PEOPLE, ids=lambda person: person.name)
def home(request: pytest.FixtureRequest) -> Iterator[tuple[Person, Path]]:
    path = Path(tempfile.mkdtemp(prefix="stackmem-campaign-"))
    os.chown(path, request.param.uid, -1)
    yield request.param, path
    remove_tree(path)


def stackmem(home: tuple[Person, Path], *words: object) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user who may not read the folder of root's Python."""
    person, path = home
    own = person.uid == os.geteuid()
    python = sys.executable if own else f"/usr/bin/python3.{sys.version_info.minor}"
    if not Path(python).exists():
        pytest.skip(f"{person.name} has no {python}")
    become = () if own else ("setpriv", "--reuid", str(person.uid), "--regid", str(person.uid), "--clear-groups")
    places = {"PYTHONPATH": ":".join([str(ROOT), *site.getsitepackages()]), "HOME": str(path)}
    kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    environ = {"PATH": "/usr/bin:/bin", "XDG_STATE_HOME": str(path / "state"), **places, **kept}
    line = "from stackmem.cli.main import main; main()"
    return subprocess.run(
        [*become, python, "-c", line, *map(str, words)], env=environ, cwd=path, text=True, capture_output=True,
        timeout=1500, check=False,
    )  # fmt: skip


def written(folder: Path, name: str) -> Path:
    recipe, solve, right, more = SHAPES[name]
    task = folder / name
    test = "r=0; {} && r=1; echo $r > /logs/verifier/reward.txt\n"
    toml = TOML.format(name=name, more="" if recipe else 'docker_image = "debian:bookworm-slim"\nworkdir = "/work"\n')
    files = {"environment/Dockerfile": recipe} if recipe else {}
    files |= {f"environment/{path}": text for path, text in more.items()}
    if name == "steps":
        toml = '[[steps]]\nname = "a"\n[[steps]]\nname = "b"\n' + toml.replace('schema_version = "1.4"\n', "")
        for step, needs in {"a": "true", "b": "cat a"}.items():
            files[f"steps/{step}/instruction.md"] = f"Make {step}."
            files[f"steps/{step}/solution/solve.sh"] = f"{needs} && echo {step} > {step}"
            files[f"steps/{step}/tests/test.sh"] = test.format(f"[ -f {step} ]")
    else:
        files |= {
            "instruction.md": "Do.",
            "solution/solve.sh": f"set -e\n{solve}\n",
            "tests/test.sh": test.format(right),
        }
    for path, text in {"task.toml": toml, **files}.items():
        (task / path).parent.mkdir(parents=True, exist_ok=True)
        (task / path).write_text(text)
    return task


@pytest.mark.parametrize("name", SHAPES)
def test_a_solution_passes_and_doing_nothing_fails(home: tuple[Person, Path], bases: list[str], name: str):
    task = written(home[1], name)
    built = stackmem(home, "tasks", "build", task, *bases, "--network", "list", "--allow", "registries")
    assert built.returncode == 0, built.stdout + built.stderr
    checked = stackmem(home, "tasks", "check", task)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.count("ok ") == 3
