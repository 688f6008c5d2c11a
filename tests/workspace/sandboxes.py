"""Sandboxes at every level for the hostile cases: a workspace, a host around it, and the users who own both."""

import contextlib
import ctypes
import gc
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from stackmem.formats.images.root import ImageRoot, open_root
from stackmem.formats.images.rooted import Rooted
from stackmem.formats.images.store import ImageStore
from stackmem.history.layer import Overlay, OwnFolder, make_upper
from stackmem.workspace.image import Image, ImageConfig
from stackmem.workspace.isolation.bare import Bare
from stackmem.workspace.isolation.bubblewrap import Bubblewrap
from stackmem.workspace.isolation.landlock import Landlock
from stackmem.workspace.isolation.levels import try_level
from stackmem.workspace.isolation.namespaces import Namespaces
from stackmem.workspace.outcome import ToolOutcome
from stackmem.workspace.profile import Mount, Profile
from stackmem.workspace.python import INSIDE, PythonInstallation, Toolchain, build_toolchain, running_interpreter
from stackmem.workspace.tree import remove_tree
from stackmem.workspace.workspace import Workspace, open_workspace
from tests.conftest import CAMPAIGN
from tests.workspace.people import Person, for_everyone

LAYERED = "bubblewrap on a layer"
IMAGED = "bubblewrap in an image"
LEVELS = {
    "bubblewrap": Bubblewrap,
    LAYERED: Bubblewrap,
    IMAGED: Bubblewrap,  # for the probe; the case itself runs in a root
    "bubblewrap (no /proc)": lambda: Bubblewrap(proc=False),
    "namespaces": Namespaces,
    "landlock": Landlock,
    "none": Bare,
}
BUBBLEWRAP = ("bubblewrap",)
MOUNTED = (*BUBBLEWRAP, "bubblewrap (no /proc)", *((LAYERED, IMAGED) if CAMPAIGN else ()))
# The variants differ in one mount, so they run all cases only in a campaign.
CONTAINED = (*(MOUNTED if CAMPAIGN else BUBBLEWRAP), "namespaces")
CONFINED = (*CONTAINED, "landlock")
ALL = (*CONFINED, "none")
SECRET = "what nobody may read"
_PR_SET_DUMPABLE = 4


class Claim(Struct, frozen=True):
    """What a hostile case claims about the levels; ``hostile`` documents the fields."""

    levels: tuple[str, ...]
    documented: tuple[str, ...]
    moot: tuple[str, ...]


def hostile(
    *levels: str, documented: tuple[str, ...] = (), moot: tuple[str, ...] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Mark a hostile case: it runs at these levels, as every user, and the summary counts it.

    Args:
        documented: Levels that do not resist it, as docs/safety.md says.
        moot: Levels to which it does not apply: they lack the attacked part, or refuse it.
    """

    def wrap(test: Callable[..., None]) -> Callable[..., None]:
        marked = pytest.mark.parametrize("level", levels)(for_everyone(test))
        marked.hostile = Claim(levels, documented, moot)  # type: ignore[attr-defined]
        return marked

    return wrap


def layered_too(levels: tuple[str, ...], *, imaged: bool = True) -> tuple[str, ...]:
    """Mark cases that a layer or a separate root could change: these levels, with both variants in every test run.

    Args:
        imaged: Include a separate root, which has users, a root and a /tmp that stay.
    """
    return tuple(each for each in dict.fromkeys((*levels, LAYERED, IMAGED)) if imaged or each != IMAGED)


@pytest.fixture(scope="session")
def toolchains() -> Iterator[dict[bool, Toolchain]]:
    """Return the commands' Python, for users who may read the interpreter that runs the tests, and for others."""
    state = Path(tempfile.mkdtemp(prefix="stackmem-toolchain-"))
    state.chmod(0o755)
    mine = running_interpreter()
    system = Path("/usr/bin") / f"python{mine.version}"
    public = mine if _is_public(mine.prefix) else PythonInstallation(Path("/usr"), system, mine.version)
    built = {False: build_toolchain(state, mine)}
    if public.executable.exists():
        built[True] = build_toolchain(state, public)
    yield built
    remove_tree(state)


def _is_public(path: Path) -> bool:
    return all(each.stat().st_mode & 0o005 == 0o005 for each in (path, *path.parents))


@pytest.fixture
def opened(person: Person, toolchains: dict[bool, Toolchain], request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Open a level over ``place/ws``; call it in the test's body, which runs as the user in question.

    A level that is unavailable to the user who runs pytest is skipped for everyone. If it is unavailable only to
    NOBODY, the test fails.
    """
    public = person.uid != os.geteuid()
    if public not in toolchains:
        pytest.skip(f"{person.name} may not read {sys.base_prefix}, and there is no such Python in /usr/bin")
    tools = toolchains[public]
    level = getattr(request.node, "callspec", None) and request.node.callspec.params.get("level")
    if level in LEVELS:
        if failure := _failures(level, os.geteuid(), toolchains[False]):
            pytest.skip(f"{level} is not available here: {failure}")
        if (level, person.uid) not in _known:  # try it once: a forked child forgets what it learned
            _known[level, person.uid] = person.runs(lambda: _failures(level, person.uid, tools))

    @contextlib.contextmanager
    def enter(place: Path, level: str, **rest: Any) -> Iterator[Workspace]:
        # A process that dropped its privileges cannot read its own /proc entry until it opts in again.
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
        root = place / "ws"
        root.mkdir(exist_ok=True)
        keywords = {
            name: rest.pop(name) for name in ("mounts", "env", "scrub", "hidden", "network_list") if name in rest
        }
        if "granted" in rest:
            rest["env"] = rest.pop("granted")
        inside = rest.pop("inside", "/workspace")
        chosen = LEVELS[level]()
        if failure := _failures(level, os.geteuid(), tools):
            pytest.skip(f"{level} is not available here: {failure}")
        layer = layer_over(root) if level == LAYERED else OwnFolder(root)
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.closing(layer))
            if level == IMAGED:
                shown = (Mount(str(root), inside, writable=True), *keywords.get("mounts", ()))
                network = rest.get("network", "none")
                chosen = Rooted(stack.enter_context(contextlib.closing(host_root(place, tools, shown, network))))
            ground = layer.view if level == LAYERED else root
            workspace = open_workspace(chosen, ground, inside, Profile(**rest), toolchain=tools, **keywords)
            workspace.layer = layer  # type: ignore[attr-defined]  # for the judge
            if level == LAYERED:  # a path through which the tests reach its files from the host
                workspace.root = Path(f"/proc/self/fd/{workspace.files.fd}")
            try:
                yield workspace
            finally:
                workspace.close()

    return enter


def host_root(place: Path, tools: Toolchain, mounts: tuple[Mount, ...], network: str = "none") -> ImageRoot:
    """Create a root that shows this machine's programs, and has its own other folders, written by root."""
    store = ImageStore(place / "store")

    def fill(folder: Path) -> None:
        for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
            if Path("/", name).is_symlink():
                (folder / name).symlink_to(f"usr/{name}")
        (folder / "etc").mkdir()
        (folder / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/bash\n")
        (folder / "etc" / "gitconfig").write_text("[user]\n\tname = user\n\temail = user@sandbox.invalid\n")

    layers = (str(store.folder_of("layers", "links", fill)), str(store.skeleton()))
    variables = {"PATH": f"{INSIDE}/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    image = Image("host", layers, ImageConfig(env=variables), "", shell=("/bin/bash", "-c"))
    shown = (Mount("/usr", "/usr"), *tools.mounts(), *mounts)
    return open_root(store, image, place / "root", network, shown)


def layer_over(folder: Path) -> Overlay:
    """Create a layer that hides nothing, with its files next to the folder."""
    place = Path(tempfile.mkdtemp(prefix="layer-", dir=folder.parent))
    make_upper(folder, place)
    return Overlay(folder, place, ())


_known: dict[tuple[str, int], str] = {}


def _failures(level: str, uid: int, tools: Toolchain) -> str:
    key = (level, uid)
    if key not in _known:
        _known[key] = try_level(LEVELS[level](), Profile(), tools).failure
    return _known[key]


@contextlib.contextmanager
def quiet_disk() -> Iterator[Path]:
    """A folder in memory, where no other process creates or removes files while a test counts them."""
    path = Path(tempfile.mkdtemp(prefix="stackmem-test-", dir="/dev/shm"))
    try:
        yield path
    finally:
        remove_tree(path)


def outside(place: Path) -> Path:
    """A folder of the same user next to the workspace, with a secret in it."""
    folder = place / "outside"
    folder.mkdir()
    (folder / "file").write_text(SECRET)
    return folder


def sh(workspace: Workspace, command: str, seconds: float = 60, shown_bytes: int = 20_000) -> ToolOutcome:
    return workspace.run_command(command, seconds, shown_bytes)


def py(workspace: Workspace, program: str, seconds: float = 60) -> ToolOutcome:
    """Run a program from a file of the workspace."""
    (workspace.root / "program.py").write_text(program)
    return sh(workspace, "python program.py", seconds)


@contextlib.contextmanager
def bystander(environ: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the same user on the host, which a command must not affect."""
    process = subprocess.Popen(["/bin/sleep", "300"], env=environ, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def living(mark: str) -> list[int]:
    """Return host processes whose command line contains the mark."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and mark.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                found.append(int(name))
    return found


def soon(fact: Callable[[], bool], seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if fact():
            return True
        time.sleep(0.01)
    return fact()


def stands_still(file: Path, seconds: float = 0.3) -> bool:
    """Check that the file no longer changes."""
    before = file.stat().st_size
    time.sleep(seconds)
    return file.stat().st_size == before


@contextlib.contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """Raise Ctrl-C after this delay."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    gc.disable()  # an exception in a callback of the garbage collector, such as hypothesis installs, is lost
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        gc.enable()
        signal.signal(signal.SIGALRM, before)
