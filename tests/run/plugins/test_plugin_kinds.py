"""Every kind of part in a plug-in, used from the command line, and every way in which one can be wrong."""

import json
import sqlite3
import subprocess
from pathlib import Path

import pytest

from tests.run.plugins.installed import Installed, shown

HEAD = "import stackmem\nfrom stackmem.memory.full import Full\n"
WORLD = ("--models", "sim/bounded-reader", "--isolation", "memory", "--fsync", "none", "--horizon", "12", "--quiet")
RUNS = ("--runs-dir", "runs")


@pytest.fixture(scope="module")
def acme(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("acme")
    made = Installed(folder)
    made.put("stackmem_acme", shown(), points="acme = stackmem_acme_package:plugin")
    return made


@pytest.fixture
def installed(tmp_path: Path, home: Path) -> Installed:
    return Installed(tmp_path)


def test_its_world_metric_and_strategy_stand_in_a_bench_and_its_report(acme: Installed, home: Path):
    listed = acme.run("worlds", "list")
    assert "\nacme_number      one number, read once and needed by every unit.\n" in listed.stdout, listed.stderr
    asked = ("bench", "acme_number", "ledger", "--strategies", "full,brief", *WORLD, "-o", "bench")
    ran = acme.run(*asked, "--archive", "one.zip")
    assert ran.returncode == 0, ran.stderr + ran.stdout
    with sqlite3.connect(acme.folder / "bench" / "results.sqlite") as database:
        rows = database.execute("SELECT family, strategy, solved, failed_commands FROM trials ORDER BY 1, 2").fetchall()
    assert rows == [(family, name, 1, 0) for family in ("acme_number", "ledger") for name in ("brief", "full")]
    assert acme.run("report", "bench", "-o", "bench.md").returncode == 0
    assert "From plug-ins: failed commands" in (acme.folder / "bench.md").read_text("utf-8")
    again = acme.run("bench", "--repeat", "one.zip", "-o", "again", "--quiet")
    assert "equal: 4 trials" in again.stdout, again.stderr


def test_its_model_level_exporter_command_and_tool_work(acme: Installed, home: Path):
    ran = acme.run("solve", "provider_map", "--model", "acme/x", "--isolation", "open", *RUNS)
    assert "isolation open" in ran.stderr
    assert ran.returncode == 1, ran.stderr
    exported = acme.run("export", "last", "--format", "names", *RUNS)
    assert exported.stdout.splitlines()[1] == "RunStarted", exported.stderr
    (kept,) = (acme.folder / "runs").glob("2*")
    counted = acme.run("steps", str(kept), "--json")
    assert json.loads(counted.stdout)["steps"] > 0, counted.stderr
    assert acme.run("trace", "stats", "last", *RUNS).stdout.count("failed_commands") == 1
    assert "steps" in acme.run("--help").stdout.split("From plug-ins:")[1]
    (acme.folder / "ask.sexp").write_text("(acme_shift)\n", "utf-8")
    assert "night" in acme.run("run", "ask.sexp", *RUNS).stdout


def test_a_bench_goes_on_with_the_same_plug_ins_alone(installed: Installed):
    installed.put("acme", shown())
    asked = ("bench", "ledger", "--strategies", "full", *WORLD, "-o", "bench")
    assert installed.run(*asked, "--archive", "one.zip").returncode == 0
    module = installed.packages / "acme_package" / "__init__.py"
    module.write_text(module.read_text("utf-8") + "\n# changed\n", "utf-8")
    for words, says in (
        (asked, "was started with other plug-ins (acme 1.0); choose another -o DIR"),
        (("bench", "-o", "bench"), "the plug-in acme 1.0 is not the one that was used before"),
        (
            ("bench", "--repeat", "one.zip", "-o", "new"),
            "the plug-in acme 1.0 is not the one that was used before",
        ),
    ):
        refused = installed.run(*words)
        assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
        assert says in refused.stderr


def test_a_bench_names_the_plug_in_that_is_missing_and_where_it_is_ignored(
    installed: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    installed.put("acme", shown())
    assert installed.run("bench", "ledger", "--strategies", "full", *WORLD, "-o", "bench").returncode == 0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for path in [*installed.packages.glob("acme_*"), *installed.packages.glob("acme-*")]:
        path.rename(elsewhere / path.name)
    missing = installed.run("bench", "-o", "bench")
    says = f"the plug-in acme 1.0 that was used before is not installed in {installed.packages}"
    assert (missing.returncode, says in missing.stderr, str(elsewhere) in missing.stderr) == (2, True, False)
    monkeypatch.setenv("PYTHONPATH", str(elsewhere))
    ignored = installed.run("bench", "-o", "bench")
    assert f"{says}; the one in {elsewhere} does not count; install it with {installed.python}" in ignored.stderr


MALFORMED = {
    "it cannot be imported": ("import no_such_thing", "ModuleNotFoundError: No module named 'no_such_thing'"),
    "it leaves": ("raise SystemExit('\\x1b[2Jgone')", "(SystemExit: [2Jgone)"),
    "it has no such name": ("", "AttributeError"),
    "it is not a Plugin": ("plugin = {}", "it is of type dict, but stackmem.Plugin is required"),
    "a member is not a dict": ("plugin = stackmem.Plugin(strategies=3)", "its strategies are of type int, but a dict"),
    "its tools are a dict": ("plugin = stackmem.Plugin(tools={})", "its tools are of type dict, but a tuple"),
    "a strategy is there": ("plugin = stackmem.Plugin(strategies={'full': Full})", "strategy full already exists"),
    "a model is there": ("plugin = stackmem.Plugin(models={'demo': Full})", "the model demo already exists"),
    "a model is like ours": ("plugin = stackmem.Plugin(models={'claude-x': Full})", "model claude-x already exists"),
    "auto": ("plugin = stackmem.Plugin(workspaces={'auto': (Full,)})", "the isolation level auto already exists"),
    "memory": ("plugin = stackmem.Plugin(workspaces={'memory': (Full,)})", "isolation level memory already exists"),
    "a metric is there": ("plugin = stackmem.Plugin(metrics={'steps': 1})", "the metric steps already exists"),
    "an exporter is there": ("plugin = stackmem.Plugin(exporters={'otel': Full})", "exporter otel already exists"),
    "a command is there": ("plugin = stackmem.Plugin(commands={'solve': Full})", "the command solve already exists"),
    "a tool is built in": ("def shell(): pass\nplugin = stackmem.Plugin(tools=(shell,))", "the tool shell is built in"),
    "no name": ("plugin = stackmem.Plugin(strategies={'A b': Full})", "'A b' is not a valid name of a strategy"),
    "a name that is not a text": ("plugin = stackmem.Plugin(metrics={3: 1})", "3 is not a valid name of a metric"),
    "strategy of another type": ("plugin = stackmem.Plugin(strategies={'x': 3})", "the strategy x is of type int"),
    "model of another type": ("plugin = stackmem.Plugin(models={'x': 3})", "the model x is of type int"),
    "level of another type": ("plugin = stackmem.Plugin(workspaces={'x': 3})", "level x is not a tuple of factories"),
    "metric of another type": ("plugin = stackmem.Plugin(metrics={'x': len})", "metrics.Metric is required"),
    "exporter of another type": ("plugin = stackmem.Plugin(exporters={'x': 3})", "the exporter x is of type int"),
    "command of another type": ("plugin = stackmem.Plugin(commands={'x': 3})", "the command x is of type int"),
    "tool of another type": ("plugin = stackmem.Plugin(tools=(3,))", "a tool is of type int"),
}  # fmt: skip


def test_each_that_cannot_be_used_is_one_sentence_with_its_package_and_the_reason(installed: Installed):
    for number, (module, _) in enumerate(MALFORMED.values()):
        installed.put(f"bad{number}", f"{HEAD}{module}")
    said = [line for line in installed.run("config").stderr.splitlines() if line.startswith("the plug-in")]
    for number, (module, says) in enumerate(MALFORMED.values()):
        (sentence,) = [
            line for line in said if line.startswith(f"the plug-in bad{number} of bad{number} 1.0 cannot be")
        ]
        assert says in sentence, module
        assert sentence.endswith("); fix or uninstall that package")
    assert len(said) == len(MALFORMED)


@pytest.mark.parametrize(
    "command", [("strategies",), ("trace", "show", "last"), ("worlds", "list"), ("solve", "calculator")]
)
def test_one_that_cannot_be_used_ends_a_command_with_exit_2(installed: Installed, command: tuple[str, ...]):
    installed.put("broken", f"{HEAD}plugin = stackmem.Plugin(strategies={{'full': Full}})")
    ran = installed.run(*command)
    says = "the plug-in broken of broken 1.0 cannot be used (the strategy full already exists); fix or uninstall that"
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", f"stackmem: {says} package\n")


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("plugin = stackmem.Plugin(worlds={'ledger': 1})", "the world ledger already exists"),
        ("plugin = stackmem.Plugin(worlds={'x': 1})", "stackmem.lab.worlds.kernel.WorldFamily is required"),
        ("from stackmem.lab.worlds.kernel import WorldFamily\nplugin = stackmem.Plugin(worlds={'x': WorldFamily(3)})",
         "the world x is of type int, but must be callable"),
    ],
)  # fmt: skip
def test_a_world_that_cannot_be_used_is_refused_where_worlds_are(installed: Installed, module: str, says: str):
    installed.put("broken", f"{HEAD}{module}")
    ran = installed.run("worlds", "list")
    assert (ran.returncode, len(ran.stderr.splitlines())) == (2, 1)
    assert says in ran.stderr


def test_the_help_and_doctor_go_on_and_say_it(installed: Installed):
    installed.put("broken", "import no_such_thing")
    installed.put("other", "import no_such_thing")
    helped = installed.run("--help")
    assert helped.returncode == 0
    assert "the plug-in broken of broken 1.0 cannot be used" in " ".join(helped.stdout.split())
    assert "the plug-in other of other 1.0 cannot be used" in installed.run("doctor").stdout
    assert "; and 1 more, which stackmem doctor lists" in installed.run("strategies").stderr


FIX = "fix or uninstall the package that provides it"
FAILS = "the plug-in bad of bad 1.0 failed in __init__.py, line 10 (ValueError: boom); fix or uninstall that package"
BAD = f"""{HEAD}
from types import SimpleNamespace
from stackmem.review.measure.metrics import Metric
from stackmem.lab.worlds.kernel import WorldFamily


def boom(*_):
    raise ValueError("boom")


plugin = stackmem.Plugin(
    strategies={{"raises": boom, "nothing": lambda _: None}},
    models={{"raises": boom, "text": repr}},
    workspaces={{"raises": (boom,), "text": (str,)}},
    worlds={{"raises": WorldFamily(boom), "number": WorldFamily(lambda *_: 3)}},
    exporters={{"raises": boom, "numbers": lambda *_: [3], "nothing": lambda *_: None}},
    commands={{"raises": lambda: boom(), "mapping": dict}},
)
"""
METRICS = (
    ("x", "boom", FAILS),
    ("solved", "boom", f"the metric solved has the name of a column; {FIX}"),
    ("x", "lambda: SimpleNamespace(add=print, value=[])", "the metric x is '[]', not a finite number; fix"),
)
SOLVE, BENCH = ("solve", "calculator", "--model", "demo"), ("bench", "ledger", "--strategies", "full", *WORLD)
EXPORT, MAKE = ("export", "last", *RUNS, "--format"), ("worlds", "make", "-o", "made")
RAISING = (
    ((*SOLVE, "--strategy", "raises"), FAILS),
    ((*SOLVE, "--strategy", "nothing"), f"and no upkeep; {FIX}"),
    ((*BENCH, "-o", "one", "--strategies", "raises"), FAILS),
    (("solve", "calculator", "--model", "raises"), FAILS),
    (("solve", "calculator", "--model", "text"), f"and no price and no reply; {FIX}"),
    ((*SOLVE, "--isolation", "raises"), FAILS),
    ((*SOLVE, "--isolation", "text"), f"and no launch and no ran; {FIX}"),
    ((*MAKE, "raises"), FAILS),
    ((*MAKE, "number"), f"must return a WorldDraft, not int; {FIX}"),
    ((*BENCH, "raises", "-o", "two"), FAILS),
    ((*EXPORT, "raises"), FAILS),
    ((*EXPORT, "numbers"), f"the exporter numbers returned int instead of text; {FIX}"),
    ((*EXPORT, "nothing"), f"the exporter nothing returned NoneType instead of text; {FIX}"),
    (("raises",), FAILS),
    (("mapping",), "the signature of the command mapping cannot be read"),
)
MANY = """
import contextlib, io, json, sys
from stackmem.cli import main

told = []
for words in json.load(sys.stdin):
    sys.argv = ["stackmem", *words]
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main.main()
        except SystemExit as error:
            code = error.code
        except BaseException as error:
            code = repr(error)
    told.append([code, err.getvalue()])
print(json.dumps(told))
"""


def test_one_that_raises_or_makes_something_else_when_it_is_called_is_one_sentence_and_exit_2(installed: Installed):
    assert installed.run(*SOLVE, *RUNS).returncode == 0
    installed.put("bad", BAD)
    asked = json.dumps([words for words, _ in RAISING])
    ran = subprocess.run(
        [str(installed.python), "-c", MANY], cwd=installed.folder, input=asked, capture_output=True, text=True
    )
    for (words, says), (code, err) in zip(RAISING, json.loads(ran.stdout), strict=True):
        assert (code, err.count("\n")) == (2, 1), (words, err)
        assert says in err, words
    assert not (installed.folder / "one").exists()
    assert not (installed.folder / "two").exists()


@pytest.mark.parametrize(("name", "begin", "says"), METRICS)
def test_a_metric_that_cannot_be_measured_ends_a_bench_before_its_first_trial(
    installed: Installed, name: str, begin: str, says: str
):
    brings = f"plugin = stackmem.Plugin(metrics={{'{name}': Metric('steps', '', {begin})}})"
    installed.put("bad", BAD.partition("plugin =")[0] + brings)
    ran = installed.run(*BENCH, "-o", "bench")
    assert (ran.returncode, len(ran.stderr.splitlines())) == (2, 1), ran.stderr
    assert says in ran.stderr
    assert not (installed.folder / "bench").exists()


def test_a_strategy_that_raises_later_ends_the_run_so_and_a_trial_as_an_error(installed: Installed):
    late = "class Late(Full, frozen=True):\n    def render(self, state):\n        raise ValueError('late')\n"
    installed.put("late", f"{HEAD}{late}\nplugin = stackmem.Plugin(strategies={{'late': lambda _: Late()}})\n")
    ran = installed.run("solve", "calculator", "--model", "demo", "--strategy", "late", "--quiet", *RUNS)
    assert ran.returncode == 2
    says = "the plug-in late of late 1.0 failed in __init__.py, line 5 (ValueError: late)"
    assert f"stackmem: {says}" in ran.stderr
    assert "Traceback" not in ran.stderr
    benched = installed.run(*BENCH[:3], "full,late", *WORLD, "-o", "bench")
    assert (benched.returncode, f"1 x {says}" in benched.stdout) == (0, True), benched.stdout


def test_a_decorated_tool_may_also_be_listed(installed: Installed):
    installed.put(
        "acme",
        "import stackmem\n\n@stackmem.tool\ndef shift():\n    return 'night'\n\n"
        "plugin = stackmem.Plugin(tools=(shift,))\n",
    )
    (installed.folder / "ask.sexp").write_text("(shift)\n", "utf-8")
    ran = installed.run("run", "ask.sexp", *RUNS)
    assert "night" in ran.stdout, ran.stderr


def test_a_raising_tool_is_reported_to_its_caller(installed: Installed):
    installed.put(
        "bad", f"{HEAD}\ndef shift():\n    raise ValueError('boom')\n\nplugin = stackmem.Plugin(tools=(shift,))\n"
    )
    (installed.folder / "ask.sexp").write_text("(shift)\n", "utf-8")
    ran = installed.run("run", "ask.sexp", *RUNS)
    assert "boom" in ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
