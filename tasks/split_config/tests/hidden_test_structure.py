"""docs/target.md: who imports whom, what is read when, and settings as values."""

import ast
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

WORKSPACE = Path(os.environ["WORKSPACE"])
APART = shlex.split(os.environ.get("APART", ""))  # holds the code under test apart from this folder and the verdict
PROBE = Path(__file__).with_name("probe.py")
PARTS = [
    "settings/__init__",
    "settings/model",
    "settings/sources",
    "settings/validate",
    "store",
    "fetch",
    "notify",
    "jobs",
    "cli",
]


def modules():
    """Dotted name to parsed module, for the whole package."""
    found = {}
    for path in sorted((WORKSPACE / "relay").rglob("*.py")):
        name = ".".join(path.relative_to(WORKSPACE).with_suffix("").parts).removesuffix(".__init__")
        found[name] = (path, ast.parse(path.read_text(encoding="utf-8")))
    return found


def imports(name, path, tree, known):
    """The modules of relay that a module imports, anywhere in it."""
    found = set()
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parent = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                parent = ".".join([*above, parent] if parent else above)
            submodules = {f"{parent}.{alias.name}" for alias in node.names} & known
            found |= submodules or {parent}
    return {one for one in found if one == "relay" or one.startswith("relay.")}


@pytest.fixture(scope="module")
def graph():
    parsed = modules()
    return {name: imports(name, path, tree, set(parsed)) for name, (path, tree) in parsed.items()}


@pytest.mark.parametrize("part", PARTS)
def test_the_parts_are_there(part):
    assert (WORKSPACE / "relay" / f"{part}.py").is_file()


def test_the_old_module_is_gone(graph):
    assert "relay.config" not in graph
    assert not any("relay.config" in imported for imported in graph.values())


@pytest.mark.parametrize(
    ("module", "allowed"),
    [
        ("relay.settings.model", set()),
        ("relay.settings.sources", {"relay.settings.model"}),
        ("relay.settings.validate", {"relay.settings.model"}),
        ("relay.settings", {"relay.settings.model", "relay.settings.sources", "relay.settings.validate"}),
        ("relay.store", {"relay.settings.model"}),
        ("relay.fetch", {"relay.settings.model"}),
        ("relay.notify", {"relay.settings.model"}),
    ],
)
def test_a_module_imports_no_more_than_it_may(graph, module, allowed):
    assert graph[module] <= allowed


def test_no_imports_go_in_a_circle(graph):
    remaining = {name: {one for one in imported if one in graph and one != name} for name, imported in graph.items()}
    while free := [name for name, imported in remaining.items() if not imported & set(remaining)]:
        for name in free:
            del remaining[name]
    assert not remaining


def uses(tree, module, *names):
    """Whether a module takes one of the names from ``module``, or without names whether it imports it."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=imported) if not names and any(alias.name == module for alias in imported):
                return True
            case ast.ImportFrom(module=source, names=imported) if source == module:
                if not names or any(alias.name in (*names, "*") for alias in imported):
                    return True
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner == module and name in names:
                return True
    return False


def test_only_the_command_line_reads_the_environment():
    found = [name for name, (_, tree) in modules().items() if uses(tree, "os", "environ", "getenv", "environb")]
    assert found == ["relay.cli"]


def test_only_the_sources_know_the_file_format():
    assert [name for name, (_, tree) in modules().items() if uses(tree, "configparser")] == ["relay.settings.sources"]


def test_there_is_no_global_statement():
    found = [
        name for name, (_, tree) in modules().items() if any(isinstance(node, ast.Global) for node in ast.walk(tree))
    ]
    assert found == []


@pytest.fixture(scope="module")
def probed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("probed")
    (folder / "relay.ini").write_text("this is no settings file", encoding="utf-8")
    done = subprocess.run(
        [*APART, sys.executable, "-P", "-B", str(PROBE), str(WORKSPACE)],
        env={**os.environ, "RELAY_STORE_KEEP": "garbage", "RELAY_CONFIG": "/no/such/file"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_importing_reads_nothing(probed):
    assert probed["read at import"] == []


def test_settings_are_values(probed):
    assert probed["values"] == {
        "debug": [True, "bool"], "store.path": ["s.json", "str"], "store.keep": [5, "int"], "fetch.inbox": ["in", "str"],
        "fetch.max_items": [50, "int"], "fetch.keywords": [["a", "b c"], "tuple"], "fetch.min_score": [1.0, "float"],
        "notify.outbox": ["outbox.txt", "str"], "notify.format": ["text", "str"], "notify.token": ["s3cret-token", "str"],
    }  # fmt: skip
    assert probed["fields"] == {
        "Settings": ["debug", "store", "fetch", "notify"], "StoreSettings": ["path", "keep"],
        "FetchSettings": ["inbox", "max_items", "keywords", "min_score"], "NotifySettings": ["outbox", "format", "token"],
    }  # fmt: skip
    assert probed["frozen"] == ["Settings", "StoreSettings", "FetchSettings", "NotifySettings"]


def test_the_token_is_in_no_repr(probed):
    assert probed["token in a repr"] is False


def test_only_the_given_environment_counts(probed):
    assert probed["empty environment"] == 100


def test_the_problems_are_those_of_check(probed):
    assert probed["problems"] == [
        "relay.ini: not a settings file", "store.keep: 'x' is no whole number (env)",
        "notify.token: required for format json", "a: unknown setting (flag)", "b.c: unknown setting (flag)",
    ]  # fmt: skip
    assert probed["error"] == ["tuple", True]


def test_two_runs_in_one_process_do_not_touch_each_other(probed):
    assert probed["runs"] == [
        ["debug: one/s.json holds 0", "debug: bad.json is no feed", "2 new, 0 seen, 1 skipped"],
        ["1 new, 0 seen, 0 skipped"],
        ["debug: one/s.json holds 2", "debug: bad.json is no feed", "0 new, 2 seen, 1 skipped"],
    ]
    assert probed["outboxes"] == [
        "   1.0  Alpha  [a]\n   2.0  Beta  [b]\n",
        '{"id": "b", "title": "Beta", "score": 2, "token": "t"}\n',
    ]
