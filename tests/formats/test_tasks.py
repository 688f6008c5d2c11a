"""Imported tasks of other benchmarks: the result of each, warnings about parts that do not carry over, and refusals."""

import json
import os
import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from stackmem.core.errors import UsageError
from stackmem.formats.tasks import KINDS, ImportedTask, TaskRefused, import_tasks
from stackmem.formats.tasks.folder import quoted
from stackmem.formats.tasks.harbor import read_dockerfile
from stackmem.run.tasks.reader import read_task
from tests.run.tasks.clones import OUTSIDE, git, soundings
from tests.run.tasks.folders import make_task
from tests.run.tasks.test_shipped import SCHEMA, strict

EXERCISE = OUTSIDE / "exercism" / "python" / "exercises" / "practice" / "tide-table"
RECORD = json.loads((OUTSIDE / "swebench" / "records.jsonl").read_text("utf-8"))


def only(kind, path, out, repo=None):
    """Return the only task created, imported from Harbor for this machine's tools."""
    (found,) = import_tasks(kind, path, out, repo, hosted=kind == "harbor")
    return found


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


# Harbor


def test_a_task_of_harbor_is_copied_and_what_its_image_copies_becomes_the_workspace(tmp_path):
    found = only("harbor", OUTSIDE / "harbor", tmp_path / "tasks")
    assert found == ImportedTask("sluice", tmp_path / "tasks" / "sluice", ())
    task = read_task(found.folder)
    assert (task.name, task.limits["max_seconds"], task.warnings) == ("waterworks/sluice", 300.0, ())
    assert files(task.workspace) == {"gates/north.log", "gates/middle.log", "gates/south.log"}


DOCKERFILE = """FROM python:3.12
# nothing
RUN apt-get update && \\
    apt-get install -y curl
WORKDIR /app
COPY --chown=1:1 data.csv .
COPY ["a b.txt", "notes/"]
COPY secrets /etc/secrets
COPY --from=other /x /app/x
ADD https://example.org/y /app/y
"""


def test_dockerfile_effects_outside_its_working_directory_are_reported(tmp_path):
    task = make_task(tmp_path / "made", instruction="Change /app/data.csv.\n")
    (task / "environment").mkdir()
    (task / "environment" / "Dockerfile").write_text(DOCKERFILE)
    (task / "environment" / "data.csv").write_text("1\n")
    (task / "environment" / "docker-compose.yaml").write_text("services: {}\n")
    (task / "trajectory.json").write_text("{}")
    found = only("harbor", task, tmp_path / "tasks")
    told = "\n".join(found.notes)
    assert files(read_task(found.folder).workspace) == {"data.csv"}
    assert "sets up things that the sandbox lacks: RUN apt-get update" in told
    assert "docker-compose.yaml starts services" in told
    assert "instruction.md mention /app, which is /workspace here" in told
    assert "trajectory.json is not passed to the agent" in told


def test_a_dockerfile_that_is_not_there_copies_nothing(tmp_path):
    assert read_dockerfile(tmp_path / "Dockerfile").copies == ()


@pytest.mark.parametrize(
    ("line", "copies"),
    [
        ("COPY . .", ((".", "./"),)),
        ("COPY a b c/", (("a", "c/"), ("b", "c/"))),
        ("copy a /app/c", (("a", "c"),)),
        ("COPY a ../../etc/x", ()),
        ("COPY a", ()),
        ('COPY "a b', ()),
        ("COPY a /elsewhere", ()),
    ],
)
def test_only_what_is_copied_into_the_working_directory_counts(tmp_path, line, copies):
    (tmp_path / "Dockerfile").write_text(f"WORKDIR /app\n{line}\n")
    assert read_dockerfile(tmp_path / "Dockerfile").copies == copies


def test_a_whole_build_folder_is_copied_without_its_dockerfile(tmp_path):
    task = make_task(tmp_path / "made")
    (task / "environment").mkdir()
    (task / "environment" / "Dockerfile").write_text("WORKDIR /app\nCOPY . .\n")
    (task / "environment" / "main.py").write_text("")
    found = only("harbor", task, tmp_path / "tasks")
    assert files(read_task(found.folder).workspace) == {"main.py"}


def test_a_task_that_cannot_run_here_is_refused_and_leaves_nothing(tmp_path):
    make_task(tmp_path / "set" / "good")
    make_task(tmp_path / "set" / "steps", toml="[[steps]]\nname = 'one'\n")
    make_task(tmp_path / "set" / "windows", toml='[environment]\nos = "windows"\n')
    found = {one.name: one for one in import_tasks("harbor", tmp_path / "set", tmp_path / "tasks")}
    assert isinstance(found["good"], ImportedTask)
    assert "no instruction.md in" in found["steps"].reason
    assert "task.toml: [environment] os is not 'linux'" in found["windows"].reason
    assert str(tmp_path / "tasks" / ".") not in found["windows"].reason
    assert os.listdir(tmp_path / "tasks") == ["good"]


def test_settings_ignored_by_the_sandbox_are_listed_in_the_notes(tmp_path):
    task = make_task(tmp_path / "made", toml='[environment]\ngpus = 1\nnetwork_mode = "public"\nsurprise = 1\n')
    told = "\n".join(only("harbor", task, tmp_path / "tasks").notes)
    assert "gpus is ignored" in told
    assert "the task allows a network" in told
    assert "unknown key 'environment.surprise'" in told


def test_a_link_that_leads_out_of_a_task_brings_nothing_in(tmp_path):
    task = make_task(tmp_path / "made")
    (tmp_path / "private").write_text("secret")
    (task / "instruction.md").unlink()
    (task / "instruction.md").symlink_to(tmp_path / "private")
    found = only("harbor", task, tmp_path / "tasks")
    assert isinstance(found, TaskRefused)
    assert "is a link out of the task" in found.reason


def test_a_copied_link_of_the_build_folder_is_not_followed_out(tmp_path):
    task = make_task(tmp_path / "made")
    (tmp_path / "private").write_text("secret")
    (task / "environment").mkdir()
    (task / "environment" / "x").symlink_to(tmp_path / "private")
    (task / "environment" / "Dockerfile").write_text("WORKDIR /app\nCOPY x x\n")
    found = only("harbor", task, tmp_path / "tasks")
    assert any("copies x, which does not exist" in note for note in found.notes)
    assert "secret" not in "".join(p.read_text() for p in found.folder.rglob("*") if p.is_file() and not p.is_symlink())


@pytest.mark.parametrize("name", ["environment", "environment/workspace", "environment/Dockerfile"])
def test_a_task_of_harbor_that_is_built_through_a_link_is_refused(tmp_path, name):
    task = make_task(tmp_path / "made")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "Dockerfile").write_text("WORKDIR /workspace\nCOPY Dockerfile .\nRUN secret\n")
    (task / name).parent.mkdir(exist_ok=True)
    (task / name).symlink_to(outside / "Dockerfile" if name.endswith("file") else outside)
    found = only("harbor", task, tmp_path / "tasks")
    assert f"{name} is a link" in found.reason
    assert {path.name for path in outside.iterdir()} == {"Dockerfile"}


# Exercism


@pytest.mark.parametrize("lines", ["COPY a/ .\nCOPY b/l/ l/\n", "COPY a/ .\nCOPY b/ .\n", "COPY a/ .\nCOPY b/l/f l\n"])
def test_nothing_is_copied_through_a_link_that_was_copied_before(tmp_path, lines):
    task = make_task(tmp_path / "made")
    build = task / "environment"
    (build / "b" / "l").mkdir(parents=True)
    (build / "b" / "l" / "f").write_text("1\n")
    (build / "a").mkdir()
    (tmp_path / "outside").mkdir()
    (build / "a" / "l").symlink_to(tmp_path / "outside")
    (build / "Dockerfile").write_text(f"FROM x\nWORKDIR /workspace\n{lines}")
    assert "which is a link" in only("harbor", task, tmp_path / "tasks").reason
    assert files(tmp_path / "outside") == files(tmp_path / "tasks") == set()


def test_a_pattern_that_only_docker_knows_is_a_note(tmp_path):
    task = make_task(tmp_path / "made")
    (task / "environment").mkdir()
    (task / "environment" / "Dockerfile").write_text("FROM x\nWORKDIR /workspace\nCOPY a** .\n")
    assert "copies a**, which does not exist" in only("harbor", task, tmp_path / "tasks").notes[0]


def test_an_exercise_has_its_stub_to_work_on_and_its_tests_hidden(tmp_path):
    found = only("exercism", OUTSIDE / "exercism", tmp_path)
    task = read_task(found.folder)
    assert (task.name, task.check_seconds, found.notes) == ("exercism/python-tide-table", 180.0, ())
    assert files(task.workspace) == {"tide_table.py"}
    assert files(task.tests) == {"test.sh", "record.json", "pytest_judge.py", "files/tide_table_test.py"}
    assert (task.solution / "files" / "tide_table.py").read_text() == (EXERCISE / ".meta" / "example.py").read_text()


def test_its_instruction_is_all_its_documents_and_which_file_to_change(tmp_path):
    text = read_task(only("exercism", EXERCISE, tmp_path).folder).instruction
    assert text.index("A gauge writes down") < text.index("Instructions append") < text.index("`tide_table.py`")


TESTS = {
    ".rs": "#[test]\n#[ignore]\nfn one() {}\n",
    ".go": "package a\n\nfunc TestOne(t *testing.T) {}\n",
    ".cpp": 'TEST_CASE("one") {}\n',
}


def exercise(tmp_path, **changes) -> Path:
    folder = tmp_path / "exercise"
    shutil.copytree(EXERCISE, folder)
    config = json.loads((folder / ".meta" / "config.json").read_text())
    config["files"] |= changes
    (folder / ".meta" / "config.json").write_text(json.dumps(config))
    for name in (name for names in changes.values() for name in names):
        if not name.startswith(("/", "..", "outside")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(TESTS.get(Path(name).suffix, "") if name in changes.get("test", ()) else "")
    return folder


def test_a_build_file_among_the_solutions_is_there_and_not_to_be_changed(tmp_path):
    rust = exercise(tmp_path, solution=["src/lib.rs", "Cargo.toml"], test=["tests/it.rs"], example=[".meta/example.rs"])
    found = only("exercism", rust, tmp_path / "tasks")
    task = read_task(found.folder)
    assert found.name == "rust-exercise"
    assert {"src/lib.rs", "Cargo.toml"} <= files(task.workspace)
    assert "`src/lib.rs`" in task.instruction
    assert "Cargo.toml" not in task.instruction
    assert files(task.solution) == {"solve.sh", "files/src/lib.rs"}
    assert "cargo test --offline" in (task.tests / "test.sh").read_text()
    assert any("need cargo in the sandbox" in note for note in found.notes)


def test_a_file_of_test_cases_that_only_editors_show_is_hidden_too(tmp_path):
    go = exercise(
        tmp_path,
        solution=["a.go"],
        test=["a_test.go"],
        example=[".meta/example.go"],
        editor=["cases_test.go", "help.md"],
    )
    task = read_task(only("exercism", go, tmp_path / "tasks").folder)
    assert {"files/a_test.go", "files/cases_test.go"} <= files(task.tests)
    assert {"a.go", "help.md"} <= files(task.workspace)
    assert "cases_test.go" not in files(task.workspace)


def test_examples_are_matched_to_stubs_by_suffix(tmp_path):
    cpp = exercise(
        tmp_path, solution=["a.h", "a.cpp"], test=["a_test.cpp"], example=[".meta/example.cpp", ".meta/example.h"]
    )
    (cpp / ".meta" / "example.h").write_text("header")
    task = read_task(only("exercism", cpp, tmp_path / "tasks").folder)
    assert (task.solution / "files" / "a.h").read_text() == "header"


def test_a_missing_example_means_a_reported_missing_solution(tmp_path):
    found = only("exercism", exercise(tmp_path, example=[]), tmp_path / "tasks")
    assert read_task(found.folder).solution is None
    assert found.notes == ("it lacks an example of tide_table.py, so the tests cannot be checked with a solution",)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"solution": ["x.js"]}, "it uses JavaScript, whose test runner needs the network"),
        ({"solution": ["x.java"]}, "it uses Java,"),
        ({"solution": ["x.cob"]}, "is in an unknown language"),
        ({"test": ["../../../etc/passwd"]}, "give paths inside the folder"),
        ({"test": ["../exercise/tide_table_test.py"]}, "give paths inside the folder"),
        ({"test": ["/etc/passwd"]}, "give paths inside the folder"),
        ({"example": ["../outside.py"]}, "give paths inside the folder"),
        ({"example": ["outside.py/x"]}, "is not a file in"),
    ],
)
def test_an_exercise_that_cannot_be_had_is_one_sentence(tmp_path, changes, says):
    found = only("exercism", exercise(tmp_path, **changes), tmp_path / "tasks")
    assert isinstance(found, TaskRefused)
    assert says in found.reason
    assert os.listdir(tmp_path / "tasks") == []


def test_instructions_in_another_encoding_are_one_sentence(tmp_path):
    folder = exercise(tmp_path)
    (folder / ".docs" / "instructions.md").write_bytes(b"caf\xe9")
    assert "is not UTF-8" in only("exercism", folder, tmp_path / "tasks").reason
    assert os.listdir(tmp_path / "tasks") == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"files": 7}', '{"files": {"solution": "x"}}', "\xff", "[" * 9_999])
def test_a_broken_configuration_is_one_sentence(tmp_path, text):
    folder = exercise(tmp_path)
    (folder / ".meta" / "config.json").write_text(text, "latin-1")
    if text == "[]":  # a concept exercise, which has no files
        with pytest.raises(UsageError, match="no exercise in"):
            list(import_tasks("exercism", folder, tmp_path / "tasks"))
        return
    assert isinstance(only("exercism", folder, tmp_path / "tasks"), TaskRefused)


# SWE-bench


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    return soundings(tmp_path_factory.mktemp("clones") / "soundings")


def record(tmp_path, **changes) -> Path:
    path = tmp_path / "records.json"
    path.write_text(json.dumps([RECORD | changes]))
    return path


def test_a_record_becomes_its_repository_at_its_commit_without_what_came_later(tmp_path, clone):
    assert git(clone, "rev-parse", "HEAD~1") == RECORD["base_commit"]
    found = only("swebench", OUTSIDE / "swebench" / "records.jsonl", tmp_path, clone)
    task = read_task(found.folder)
    assert (task.short_name, task.instruction) == ("waterworks__soundings-7", RECORD["problem_statement"].strip())
    assert files(task.workspace) == files(OUTSIDE / "swebench" / "repo") - {
        name for name in files(OUTSIDE / "swebench" / "repo") if "__pycache__" in name
    }
    assert "blanks_do_not_matter" in (task.tests / "files" / "tests" / "test_depth.py").read_text()
    assert "no unit" in (task.solution / "files" / "soundings" / "depth.py").read_text()


def test_reading_a_clone_changes_nothing_in_it(tmp_path, clone):
    def state():
        return {path: path.stat().st_mtime_ns for path in (clone / ".git").rglob("*")}

    before = state()
    assert isinstance(only("swebench", record(tmp_path), tmp_path / "tasks", clone), ImportedTask)
    assert state() == before


def test_the_folder_of_the_tasks_may_be_named_as_seen_from_here(tmp_path, clone):
    found = only("swebench", record(tmp_path), Path(os.path.relpath(tmp_path / "tasks")), clone)
    assert isinstance(found, ImportedTask)


def test_a_clone_that_lacks_something_is_one_sentence_and_its_own_program_is_not_run(tmp_path, clone):
    partial = tmp_path / "partial"
    shutil.copytree(clone, partial)
    git = ("git", "-C", str(partial))
    blob = subprocess.run([*git, "rev-parse", "HEAD:README.md"], capture_output=True, text=True, check=True).stdout[:-1]
    (partial / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    for name, value in (
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", str(partial)),
        ("remote.origin.uploadpack", f"touch {tmp_path / 'run'};"),
    ):
        subprocess.run([*git, "config", name, value], check=True)
    found = only("swebench", record(tmp_path), tmp_path / "tasks", partial)
    assert isinstance(found, TaskRefused)
    assert "lacks the object" in found.reason
    assert not (tmp_path / "run").exists()


def test_a_file_that_a_patch_removes_is_removed(tmp_path, clone):
    gone = "diff --git a/README.md b/README.md\ndeleted file mode 100644\n--- a/README.md\n+++ /dev/null\n"
    gone += "@@ -1,3 +0,0 @@\n-# soundings\n-\n-Depths read off a lead line.\n"
    found = only("swebench", record(tmp_path, patch=gone), tmp_path / "tasks", clone)
    assert "rm -f -- 'README.md'" in (found.folder / "solution" / "place.sh").read_text()


def test_a_missing_patch_means_a_reported_missing_solution(tmp_path, clone):
    found = only("swebench", record(tmp_path, patch=""), tmp_path / "tasks", clone)
    assert any("it has no patch" in note for note in found.notes)


@pytest.mark.parametrize("text", ["[]", "{}", ""])
def test_a_file_without_a_record_is_one_sentence(tmp_path, clone, text):
    path = tmp_path / "records.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="does not contain records"):
        list(import_tasks("swebench", path, tmp_path / "tasks", clone))


@pytest.mark.parametrize("text", ["[{}]", '{"a": {"instance_id": "a"}}', "[7]", "null"])
def test_invalid_records_are_refused(tmp_path, clone, text):
    path = tmp_path / "records.json"
    path.write_text(text)
    assert all(isinstance(one, TaskRefused) for one in import_tasks("swebench", path, tmp_path / "tasks", clone))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"base_commit": "0" * 40}, "does not have the commit"),
        ({"base_commit": "--upload-pack=x"}, "is not a commit id"),
        ({"FAIL_TO_PASS": "[]"}, "doing nothing would solve it"),
        ({"FAIL_TO_PASS": ["test_x (app.tests.T)"]}, "which is not a pytest test"),
        ({"FAIL_TO_PASS": "x"}, "is not a list of tests"),
        ({"FAIL_TO_PASS": "[" * 5_000}, "is not a list of tests"),
        ({"test_patch": "--- a/../../x\n+++ b/../../x\n@@ -0,0 +1 @@\n+x\n"}, "git apply failed"),
        ({"patch": "nonsense"}, "git apply failed"),
    ],
)
def test_a_record_that_cannot_be_had_is_one_sentence(tmp_path, clone, changes, says):
    found = only("swebench", record(tmp_path, **changes), tmp_path / "tasks", clone)
    assert isinstance(found, TaskRefused)
    assert says in found.reason
    assert not (tmp_path / "tasks").exists() or os.listdir(tmp_path / "tasks") == []


@pytest.mark.parametrize("name", ["../out", "/abs", ".", "a/../../b", "x" * 500, "\u202e"])
def test_a_hostile_name_stays_in_the_folder(tmp_path, clone, name):
    found = only("swebench", record(tmp_path, instance_id=name), tmp_path / "tasks", clone)
    assert isinstance(found, ImportedTask), found
    assert found.folder.parent == tmp_path / "tasks"


def test_a_folder_that_is_not_a_repository_is_reported(tmp_path):
    found = only("swebench", record(tmp_path), tmp_path / "tasks", tmp_path)
    assert isinstance(found, TaskRefused)
    assert "git rev-parse failed" in found.reason


# All formats


def test_imported_tasks_are_valid_for_harbor_too(tmp_path, clone):
    schema = strict(json.loads(SCHEMA.read_text("utf-8")))
    made = [
        only("exercism", EXERCISE, tmp_path),
        only("swebench", OUTSIDE / "swebench" / "records.jsonl", tmp_path, clone),
    ]
    for one in made:
        config = tomllib.loads((one.folder / "task.toml").read_text("utf-8"))
        assert [error.message for error in Draft202012Validator(schema).iter_errors(config)] == []
        recipe = read_dockerfile(one.folder / "environment" / "Dockerfile")
        assert (recipe.workdir, recipe.copies) == ("/workspace", (("workspace/", "./"),))


def test_existing_files_are_never_overwritten(tmp_path):
    (tmp_path / "sluice").mkdir()
    found = only("harbor", OUTSIDE / "harbor", tmp_path)
    assert isinstance(found, TaskRefused)
    assert "exists already" in found.reason


@pytest.mark.parametrize("kind", KINDS)
def test_a_place_without_any_is_one_sentence(tmp_path, kind):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError):
        list(import_tasks(kind, tmp_path / "empty", tmp_path / "tasks", tmp_path if kind == "swebench" else None))
    with pytest.raises(UsageError, match="does not exist"):
        list(import_tasks(kind, tmp_path / "none", tmp_path / "tasks"))


def test_an_unknown_kind_and_a_clone_for_another_kind_are_refused(tmp_path):
    with pytest.raises(UsageError, match="known: exercism, harbor, swebench"):
        list(import_tasks("terminal", tmp_path, tmp_path))
    with pytest.raises(UsageError, match="--repo is for swebench"):
        list(import_tasks("harbor", tmp_path, tmp_path, tmp_path))
    with pytest.raises(UsageError, match="name a local clone of it with --repo"):
        list(import_tasks("swebench", OUTSIDE / "swebench" / "records.jsonl", tmp_path))


@given(st.text())
def test_any_dockerfile_is_read_and_copies_stay_in_the_working_directory(text):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "Dockerfile").write_bytes(text.encode("utf-8", "surrogateescape"))
        for _, target in read_dockerfile(Path(folder, "Dockerfile")).copies:
            assert ".." not in Path(target).parts
            assert not target.startswith("/")


@given(
    st.lists(st.sampled_from(["COPY", "WORKDIR", "RUN", "/app", "..", ".", "a/", "--from=x", "/", '"', "\\\n", "\n"]))
)
def test_words_of_dockerfiles_in_any_order_stay_in_the_working_directory(words):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "Dockerfile").write_text(" ".join(words))
        for _, target in read_dockerfile(Path(folder, "Dockerfile")).copies:
            assert ".." not in Path(target).parts
            assert not target.startswith("/")


@given(st.text())
def test_any_text_is_a_toml_string(text):
    assert set(tomllib.loads(f"x = {quoted(text)}")) == {"x"}


@pytest.mark.parametrize("text", ['say "hi"', "a\\b", "line\nbreak", "\x00\x1b", "plain", "é…"])
def test_texts_are_spelled_as_toml_reads_them(text):
    read = tomllib.loads(f"x = {quoted(text)}")["x"]
    assert read == "".join(char if char.isprintable() else " " for char in text)
