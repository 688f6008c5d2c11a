"""From the request to a plan: every error is reported before any file is created."""

import os
from pathlib import Path

import pytest

from stackmem.core.errors import UsageError
from stackmem.lab.bench.plan import trials
from stackmem.lab.bench.planning import folder_digest, make_plan
from stackmem.lab.bench.suite import SuiteRequest
from stackmem.memory import STRATEGIES
from tests.stage import pop

from .benches import planned, small_tasks


def asked(**more) -> SuiteRequest:
    return SuiteRequest(**({"tasks": ("calculator",), "strategies": ("full",), "models": ("demo",)} | more))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"tasks": ()}, "missing task"),
        ({"tasks": ("calculater",)}, "did you mean 'calculator'"),
        ({"strategies": ()}, "missing strategy"),
        ({"strategies": ("stak",)}, "no strategy 'stak'"),
        ({"strategies": ("full:x=1",)}, "has no parameter"),
        ({"models": ()}, "missing model"),
        ({"models": ("human",)}, "cannot use the model human"),
        ({"models": ("nobody/x",)}, "no model 'nobody/x'"),
        ({"models": ("script:none.yaml",)}, "none.yaml"),
        ({"models": ("claude-sonnet-5-5",)}, "ANTHROPIC_API_KEY is not set"),
        ({"models": ("openai/q",), "settings": {"base_url": "http://me:x@127.0.0.1:9"}}, "contains a login"),
        ({"trials": 0}, "0 is not a number of trials"),
        ({"trials": 10**9}, "at most 1,000,000 trials"),
        ({"price": "gpt"}, "--price: no model 'gpt'"),
        ({"latency_seconds": -1.0}, "invalid latency of -1"),
        ({"latency_seconds": float("nan")}, "invalid latency of nan"),
        ({"worlds": ("atlantis",)}, "no world 'atlantis'"),
        ({"worlds": ("all",), "horizons": (0.5,)}, "invalid horizon 0.5"),
        ({"worlds": ("all",), "horizons": (float("inf"),)}, "invalid horizon inf"),
        ({"worlds": ("all",), "noise": (float("nan"),)}, "invalid noise nan"),
        ({"worlds": ("all",), "horizons": (9,)}, "invalid horizon 9; give whole numbers from 10 to 2,000"),
        ({"worlds": ("all",), "noise": (-1.0,)}, "invalid noise -1"),
        ({"worlds": ("all",), "noise": (8.5,)}, "from 0 to 8"),
        ({"settings": {"isolation": "memory"}}, "not calculator; leave --isolation out"),
    ],
)
def test_impossible_requests_print_one_sentence(more, said):
    with pytest.raises(UsageError, match=said):
        make_plan(asked(**more), Path.cwd(), {})


def test_all_strategies_are_every_one_there_is():
    plan = make_plan(asked(strategies=("all", "full")), Path.cwd(), os.environ)
    assert [variant.name for variant in plan.variants] == list(STRATEGIES)


def test_a_world_is_planned_for_each_horizon_and_noise():
    plan = make_plan(asked(tasks=(), worlds=("ledger",), horizons=(60, 300), noise=(0, 1)), Path.cwd(), os.environ)
    assert [subject.label for subject in plan.subjects] == [
        "ledger-h60-n0",
        "ledger-h60",
        "ledger-h300-n0",
        "ledger-h300",
    ]


def test_two_tasks_of_one_name_are_refused(stage):
    (first,) = small_tasks(stage, "small")
    second = stage.root / "elsewhere" / "small"
    Path(first).rename(second)
    (again,) = small_tasks(stage, "small")
    with pytest.raises(UsageError, match="two tasks are named small"):
        planned(str(second), again)


def test_a_task_without_a_script_has_no_demo(stage):
    with pytest.raises(UsageError, match=r"has no demo\.yaml"):
        planned(str(stage.task(name="bare")))


def test_a_script_is_found_from_any_folder(stage):
    (task,) = small_tasks(stage, "small")
    stage.script(pop(), name="here.yaml")
    plan = make_plan(
        SuiteRequest(tasks=(task,), strategies=("full",), models=("script:here.yaml",)), stage.root, os.environ
    )
    assert plan.models == (f"script:{stage.root}/here.yaml",)


def test_a_task_that_changed_is_another_one(stage):
    (task,) = small_tasks(stage, "small")
    before = planned(task)
    (Path(task) / "instruction.md").write_text("Do something else.\n")
    assert not {trial.id for trial in trials(before)} & {trial.id for trial in trials(planned(task))}


def test_pythons_cache_files_are_not_part_of_a_task(stage):
    (task,) = small_tasks(stage, "small")
    before = folder_digest(Path(task))
    (Path(task) / "tests" / "__pycache__").mkdir()
    (Path(task) / "tests" / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert folder_digest(Path(task)) == before
