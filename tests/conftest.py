"""Common ground of every test: a machine it cannot change, loopback only, default settings, and its own home folder."""

import ctypes
import gc
import itertools
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings

from stackmem.settings.options import FOR_TESTS
from tests import confinement, network, sentinels
from tests.stage import Stage

CAMPAIGN = os.environ.get("STACKMEM_CAMPAIGN") == "1"
# Files that take nine seconds or more in a parallel run, the one with the most processor time first.
FEW_AND_LONG = [Path(__file__).parent / name for name in (
    "test_benchmarks.py", "run/tasks/test_shipped.py", "docs/test_tutorials.py", "run/plugins/test_plugin_kinds.py",
    "fuzz/test_fuzz.py", "lab/bench/test_published.py", "house/test_docs.py", "cli/test_solve.py",
    "doors/chat/test_chat.py", "doors/serve/ui/test_keyboard.py", "lab/bench/test_real_sessions.py",
    "simulation/test_simulation.py", "run/test_evil_agents.py", "run/test_resume_killed.py",
    "lab/bench/test_engine_dask.py", "lab/bench/test_looks.py", "run/test_resume.py",
    "review/replays/test_live_and_model.py", "cli/test_folder.py", "workspace/test_command_resources.py",
    "doors/gateway/test_large_requests.py", "workspace/test_command_files.py", "review/report/test_browser.py",
    "workspace/test_command_time.py", "doors/serve/test_acp_clients.py", "run/test_session.py",
    "contracts/test_runs_over_http.py", "house/test_english.py", "doors/serve/ui/test_states.py",
    "run/test_solve_anthropic.py", "review/report/test_comparison_browser.py", "doors/serve/test_acp.py",
    "lab/bench/test_bench.py", "cli/test_shapes.py", "lab/bench/test_agent.py", "run/replays/test_signed.py",
    "doors/serve/ui/test_browser.py", "docs/test_apl_page.py", "lab/worlds/test_worlds.py",
    "formats/images/test_images.py", "history/test_apply.py", "doors/chat/test_tmux.py", "house/test_import_time.py",
    "doors/gateway/test_clients.py", "run/plugins/test_plugins.py", "review/report/test_questions.py",
    "formats/images/test_image_tasks.py", "review/kept/test_recover.py", "workspace/test_judge.py",
    "doors/gateway/test_gateway_command.py", "providers/test_gemini.py",
)]  # fmt: skip
MAX_GROWTH_BYTES = 64 << 20
_resident_bytes = 0
CALLERS_OWN = ("ANTHROPIC_", "OPENAI_", "STACKMEM_", "XDG_", "TIKTOKEN_", "GIT_")

settings.register_profile("ci", derandomize=True, max_examples=30, deadline=None, print_blob=True)
settings.register_profile("campaign", max_examples=3_000, stateful_step_count=200, deadline=None, print_blob=True)
settings.load_profile("campaign" if CAMPAIGN else "ci")


@pytest.hookimpl(tryfirst=True)  # before pytest makes its temporary folder
def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # workers are started later and inherit it
        _protect_the_machine(config)
    if not config.option.basetemp:
        # Only our own folders, removed by rm: a tree thousands of folders deep, left by a killed test, makes pytest's
        # own cleanup of earlier runs fail. `--basetemp` keeps the files of a failed test. rm runs in the background:
        # deleting 50,000 files takes minutes on a slow disk.
        config.option.basetemp = tempfile.mkdtemp(prefix="stackmem-tests-")
        config.add_cleanup(partial(subprocess.Popen, ["rm", "-rf", config.option.basetemp], start_new_session=True))
    # Keep the variables that configure the test run; drop every other STACKMEM variable of the user.
    for name in list(os.environ):
        if name.startswith(CALLERS_OWN) and name not in FOR_TESTS:
            del os.environ[name]
    # Otherwise each of the hundreds of processes that the tests start would compile the package again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    for role in ("AUTHOR", "COMMITTER"):
        os.environ |= {f"GIT_{role}_NAME": "Test", f"GIT_{role}_EMAIL": "test@localhost"}
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as `make test &` in a script sets it; children inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    network.close()
    gc.disable()  # until the end of the collection, whose objects all stay


def _protect_the_machine(config: pytest.Config) -> None:
    try:
        if confinement.confine() and not config.option.basetemp:
            _keep_files_in_memory(config)
    except confinement.Unconfinable:
        config.pluginmanager.getplugin("capturemanager").stop_global_capturing()  # the next process needs the terminal
        try:
            confinement.become_unprivileged([sys.executable, "-m", "pytest", *config.invocation_params.args])
        except confinement.Unconfinable as error:
            raise pytest.UsageError(str(error)) from error
    config.pluginmanager.register(sentinels.WholeRun(), "sentinels")


def _keep_files_in_memory(config: pytest.Config) -> None:
    folder = Path(tempfile.mkdtemp(prefix="stackmem-memory-"))
    if not confinement.mount_memory(folder, confinement.available_memory()):
        folder.rmdir()
        return
    confinement.unmount_at_exit(folder)
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    config.option.basetemp = str(folder / "tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    long = [] if CAMPAIGN else [item for item in items if item.get_closest_marker("campaign")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
    # The order in which the workers of `make test` take the files. Without it the last worker waits for a few long
    # tests.
    tests = Counter(item.path for item in items)
    first = {path: number for number, path in enumerate(FEW_AND_LONG)}
    items.sort(key=lambda item: (first.get(item.path, len(first)), -tests[item.path]))


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()  # otherwise each garbage collection scans everything created while loading the test files
    gc.set_threshold(20_000, 20, 20)  # the default collects after 700 objects, which takes one twentieth of the time


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Return the memory of a file's tests to the system: each fork copies the page tables of the whole process."""
    global _resident_bytes
    yield
    if nextitem is not None and nextitem.path != item.path and _resident() > _resident_bytes + MAX_GROWTH_BYTES:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        _resident_bytes = _resident()


def _resident() -> int:
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Shared(NamedTuple):
    """What the tests of a process share: the parent of their home folders, two caches, the state of the sentinels."""

    homes: Path
    numbers: Iterator[int]
    state: Path
    cache: Path
    machine: dict[str, tuple[int, ...]]


@pytest.fixture(scope="session")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Shared:
    homes, state, cache = (tmp_path_factory.mktemp(name) for name in ("homes", "state", "cache"))
    return Shared(homes, itertools.count(), state, cache, sentinels.quick())


@pytest.fixture(autouse=True)
def surroundings(_shared: Shared) -> Iterator[Path]:
    """Point HOME, the XDG directories and tiktoken's cache to an empty home directory during the test.

    All tests of a process share the state and cache directories, so the sandbox's Python is built there only once. A
    test fails if a well-known file of the machine or of the user's home folder changed during it, or if the network
    guard refused a connection. This is one fixture, because each one takes time in every test.
    """
    place = _shared.homes / str(next(_shared.numbers))
    place.mkdir()
    os.environ |= {
        "HOME": str(place),
        "XDG_STATE_HOME": str(_shared.state),
        "XDG_CONFIG_HOME": str(place / "config"),
        "XDG_CACHE_HOME": str(_shared.cache),
        "TIKTOKEN_CACHE_DIR": str(place / "no-download"),
    }
    network.refused.clear()
    yield place
    before, after = _shared.machine, sentinels.quick()
    problems = []
    if before != after:
        changed = sorted(path for path, state in after.items() if before[path] != state)
        before.update(after)
        problems.append(f"changed during this test: {', '.join(changed)}; tests may write only to temporary folders")
    if network.refused:
        problems.append(f"the test reached for the network: {', '.join(network.refused)}")
    if problems:
        pytest.fail("\n".join(problems))


@pytest.fixture
def home(surroundings: Path) -> Path:
    return surroundings


@pytest.fixture
def refused_connections() -> list[str]:
    """Return the connections that the network guard refused during the test; any left afterwards fail the test."""
    return network.refused


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)
