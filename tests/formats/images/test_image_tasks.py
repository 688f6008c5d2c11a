"""Tasks in their own image: built, checked, solved and judged, including files the agent wrote anywhere in its root."""

from pathlib import Path

import pytest

from stackmem.core.errors import UsageError
from stackmem.formats.tasks.check import check_task
from stackmem.formats.tasks.image import built_image
from stackmem.run.tasks.reader import read_task
from tests.stage import Stage, call, command, pop, with_bubblewrap
from tests.workspace.roots import small_base

pytestmark = with_bubblewrap

TOML = 'schema_version = "1.4"\n[task]\nname = "me/{name}"\n[environment]\nnetwork_mode = "no-network"\n{more}'
RECIPE = "FROM small\nWORKDIR /app\nRUN mkdir /data && echo seed > /data/seed\nCOPY given .\nENV GREETING=hi\n"
TEST = """r=0
[ "$(cat /app/answer)" = 42 ] && [ "$(cat /data/other)" = 43 ] && [ "$GREETING" = hi ] && r=1
echo $r > /logs/verifier/reward.txt
"""
SOLVE = "set -e\ncat given /data/seed\necho 42 > /app/answer\necho 43 > /data/other\n"


def image_task(folder: Path, *, recipe: str = RECIPE, test: str = TEST, solve: str = SOLVE, more: str = "") -> Path:
    files = {
        "task.toml": TOML.format(name=folder.name, more=more), "instruction.md": "Do it.\n", "tests/test.sh": test,
        "solution/solve.sh": solve, "environment/Dockerfile": recipe, "environment/given": "given\n",
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def base(stage: Stage) -> list[str]:
    """Return flags that name the small base; images are stored with the test."""
    return ["--base", f"small={small_base(stage.root / 'base')}"]


@pytest.fixture(autouse=True)
def _own_state(stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr("stackmem.formats.images.store.state_folder", lambda: tmp_path / "state")


def sound(stage: Stage, task: Path) -> list[str]:
    return [one.says for one in check_task(str(task), None, stage.elsewhere) if not one.right]


def test_a_task_is_built_checked_and_solved_in_its_image(stage: Stage, base: list[str]):
    task = image_task(stage.root / "one")
    with pytest.raises(UsageError, match="is not built; run `stackmem tasks build"):
        sound(stage, task)
    built = stage.call("tasks", "build", task, *base)
    assert (built.returncode, built.stdout.splitlines()[-1][:10]) == (0, "one: image")
    assert sound(stage, task) == []
    done = stage.solve(task, model=stage.script(
        command("echo 43 > /data/other; cat given; ls /tests /solution 2>&1; echo $GREETING"),
        call("write_file", path="/app/answer", content="42\n"), pop(),
    ))  # fmt: skip
    assert done.outcome == "solved"
    said = (stage.runs / done.run / "trace.jsonl").read_text()
    assert '"isolation":"bubblewrap (image)"' in said
    assert "given" in said
    assert stage.call("replay", done.run).returncode == 0
    undone = stage.solve(task, model=stage.script(command("echo 42 > answer"), pop()))
    assert undone.outcome == "unsolved"


def test_a_judge_apart_does_not_see_what_was_written_outside_of_the_working_directory(stage: Stage, base: list[str]):
    task = image_task(stage.root / "one", more='[verifier]\nenvironment_mode = "separate"\n')
    assert stage.call("tasks", "build", task, *base).returncode == 0
    assert any("the solution fails" in says for says in sound(stage, task))


def test_a_root_that_was_turned_against_its_judge_solves_nothing_and_touches_nothing(stage: Stage, base: list[str]):
    task = image_task(stage.root / "one")
    victim = stage.root / "victim"
    victim.mkdir()
    assert stage.call("tasks", "build", task, *base).returncode == 0
    turned = f"ln -s {victim} /logs; ln -s /oldroot{victim} /tests; rm -rf /data; ln -s /oldroot{victim} /data"
    done = stage.solve(task, model=stage.script(command(turned), pop()))
    assert done.outcome != "solved"
    assert list(victim.iterdir()) == []


def test_a_failing_recipe_is_reported_and_exits_with_1(stage: Stage, base: list[str]):
    task = image_task(stage.root / "one", recipe="FROM small\nRUN exit 9\n")
    built = stage.call("tasks", "build", task, *base)
    assert built.returncode == 1
    assert "one: not built: line 2: RUN exit 9: ended with exit 9" in built.stdout


@pytest.mark.parametrize("isolation", ["none", "landlock", "namespaces", "memory"])
def test_other_levels_have_no_images(stage: Stage, base: list[str], isolation: str):
    task = image_task(stage.root / "one")
    assert stage.call("tasks", "build", task, *base).returncode == 0
    with pytest.raises(UsageError, match="needs isolation bubblewrap"):
        stage.solve(task, model=stage.script(pop()), isolation=isolation)


def test_a_task_of_steps_is_judged_by_the_tests_of_each(stage: Stage, base: list[str]):
    more = 'multi_step_reward_strategy = "mean"\n[[steps]]\nname = "one"\n[[steps]]\nname = "two"\nmin_reward = 1.0\n'
    task = image_task(stage.root / "steps")
    (task / "task.toml").write_text(more + "\n" + TOML.format(name="steps", more=""))
    for name in ("one", "two"):
        for part, text in {
            "instruction.md": f"Write {name}.", "solution/solve.sh": f"echo {name} > {name}",
            "tests/test.sh": f'r=0; [ "$(cat {name})" = {name} ] && r=1; echo $r > /logs/verifier/reward.txt',
        }.items():  # fmt: skip
            (task / "steps" / name / part).parent.mkdir(parents=True, exist_ok=True)
            (task / "steps" / name / part).write_text(text)
    assert stage.call("tasks", "build", task, *base).returncode == 0
    assert sound(stage, task) == []
    half = stage.solve(task, model=stage.script(command("echo one > one"), pop()))
    assert half.outcome == "unsolved"
    assert '"rewards":{"reward":0.5,"one":1.0,"two":0.0}' in (stage.runs / half.run / "trace.jsonl").read_text()


def test_a_task_with_a_compose_file_is_refused_and_says_what_to_do(stage: Stage, base: list[str]):
    task = image_task(stage.root / "one")
    (task / "environment" / "docker-compose.yaml").write_text("services: {main: {build: .}, feed: {image: small}}\n")
    built = stage.call("tasks", "build", task, *base)
    assert built.returncode == 1
    assert "docker-compose.yaml of one needs services, which the sandbox does not start" in built.stdout
    with pytest.raises(UsageError, match='image = "host" under'):
        built_image(read_task(task))


def test_an_import_ends_with_what_can_be_run_and_exits_with_3_where_nothing_can(stage: Stage, base: list[str]):
    for name in ("one", "two"):
        image_task(stage.root / "set" / name)
    image_task(stage.root / "set" / "three", recipe="FROM small\nADD https://example.org/x /x\n")
    ran = stage.call("tasks", "import", "harbor", stage.root / "set", "-o", stage.root / "first")
    assert ran.returncode == 3
    assert ran.stdout.splitlines()[-3:] == [
        "3 tasks: 0 can run here",
        "  3 tasks: the base small is missing; add it with --base small=ROOT.tar (one, three, two)",
        "  1 task: line 2: ADD cannot download from a URL; use RUN with curl and --network (three)",
    ]
    assert stage.call("tasks", "build", stage.root / "first" / "one", *base).returncode == 0
    again = stage.call("tasks", "import", "harbor", stage.root / "set", "-o", stage.root / "second")
    assert (again.returncode, again.stdout.splitlines()[-2]) == (0, "3 tasks: 2 can run here")


def test_an_import_names_the_tasks_whose_checks_pass_where_nothing_was_done(stage: Stage, base: list[str]):
    task = image_task(stage.root / "easy", test="echo 1 > /logs/verifier/reward.txt")
    assert stage.call("tasks", "build", task, *base).returncode == 0
    ran = stage.call("tasks", "import", "harbor", task, "-o", stage.root / "tasks")
    assert ran.stdout.splitlines()[-1] == "  1 task whose checks pass without any work: easy"
