"""kill -9 after every fact: the resumed run equals the run that was never killed."""

import os
import re
import shutil
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from stackmem import RunResult, replay
from stackmem.core.facts import RunResumed
from tests.campaigns import LONG, Campaign
from tests.conftest import CAMPAIGN
from tests.run.killed import DEEP, RESUME, dies, killed, resumed, story, told
from tests.stage import TASKS, Stage, events, eventually

Maker = Callable[[Stage], Path]
AS = "a user" if os.geteuid() else "root"
DEEP_FACTS, CALCULATOR_FACTS = 50, 45  # the tests below mark the exceptions


def boundaries(count: int, *chosen: int) -> list[object]:
    """Return each number of facts after which a run can be killed: a selection in CI, all in campaigns."""
    return [
        number if number in chosen else pytest.param(number, marks=pytest.mark.campaign) for number in range(1, count)
    ]


def deep(stage: Stage) -> Path:
    return stage.task(*DEEP, test='grep -q three log && echo 1 > "$VERIFIER_DIR/reward.txt"\n')


def calculator(stage: Stage) -> Path:
    """Return the shipped task, with tests that print no times."""
    folder = stage.root / "calculator"
    copied = {path: path.read_bytes() for path in (TASKS / "calculator").rglob("*") if path.is_file()}
    for path, content in copied.items():
        to = folder / path.relative_to(TASKS / "calculator")
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(content)
    judge = folder / "tests" / "test.sh"
    judge.write_text(judge.read_text("utf-8").replace("tail -n 60", "grep -c passed"), encoding="utf-8")
    demo = folder / "demo.yaml"
    timed, times = re.subn(
        r"(args: \{command: )(cd src && python -m pytest -q ../tests)\}",
        r"""\1"\2 | sed -E 's/ in [0-9.]+s//'"}""", demo.read_text("utf-8"),
    )  # fmt: skip
    assert times == 1
    demo.write_text(timed, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def never_killed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Maker], tuple[Stage, Path, RunResult]]:
    """A stage, a task and its run without a kill, made once for all tests, which add runs next to it."""

    @cache
    def solved(task: Maker) -> tuple[Stage, Path, RunResult]:
        stage = Stage(tmp_path_factory.mktemp(task.__name__))
        folder = task(stage)
        return stage, folder, stage.solve(folder)

    return solved


def events_so_far(run: Path) -> int:
    trace = run / "trace.jsonl"
    return trace.read_bytes().count(b"\n") if trace.exists() else 0


def agrees(run: Path, result: RunResult | None, whole: RunResult, facts: int) -> None:
    """Check that the resumed run matches the other one, fact by fact and prompt by prompt."""
    assert result is not None
    assert story(run) == story(whole.run_dir)
    assert told(result) == told(whole)
    assert len(events(whole.run_dir)) == facts
    assert replay(run).prompts == replay(whole.run_dir).prompts
    assert (run / "changes.patch").read_bytes() == Path(whole.run_dir, "changes.patch").read_bytes()


@pytest.mark.parametrize("after", boundaries(DEEP_FACTS, 1, 2, 9, 23, 37, DEEP_FACTS - 1))
def test_a_deep_run_killed_after_any_fact_resumes_without_a_difference(never_killed, after: int):
    stage, task, whole = never_killed(deep)
    run = killed(stage, after, task)
    agrees(run, resumed(run).result, whole, DEEP_FACTS)


@pytest.mark.parametrize("after", boundaries(CALCULATOR_FACTS, 18))
def test_the_calculator_killed_after_any_fact_resumes_without_a_difference(never_killed, after: int):
    stage, task, whole = never_killed(calculator)
    run = killed(stage, after, task)
    agrees(run, resumed(run).result, whole, CALCULATOR_FACTS)


@pytest.mark.parametrize("every", [9, pytest.param(3, marks=pytest.mark.campaign)])
def test_a_run_killed_again_and_again_comes_to_its_end(never_killed, every: int):
    stage, task, whole = never_killed(deep)
    run = killed(stage, every, task)
    deaths = 1
    while dies(stage, RESUME, every, run):  # each process records this many facts more, including RunResumed
        deaths += 1
    assert deaths > DEEP_FACTS // every
    assert len(events(run, RunResumed)) >= deaths - 1
    assert story(run) == story(whole.run_dir)


@pytest.mark.parametrize(
    "moment",
    [0.3, 0.7, *(pytest.param((number + 0.5) / 40, marks=pytest.mark.campaign) for number in range(40))],
)
def test_a_run_killed_at_any_time_resumes_without_a_difference(stage: Stage, moment: float):
    task = deep(stage)
    whole = stage.solve(task)  # now, because the time is part of the moment
    known = set(stage.runs.iterdir())
    process = stage.start("solve", task, "--model", "demo", "--quiet")
    run = eventually(lambda: next((path for path in set(stage.runs.iterdir()) - known if events_so_far(path)), None))
    time.sleep(moment * whole.wall_seconds)
    process.kill()
    process.communicate(timeout=100)
    resumed(run)
    assert story(run) == story(whole.run_dir)
    assert replay(run).outcome == "solved"


LEVELS = (*(("bubblewrap",) if shutil.which("bwrap") else ()), "namespaces", "landlock", "none")
UNBOUNDED, PARTIAL = ("landlock", "none"), "effects may be partial"
KILLS = 500 if CAMPAIGN else 2


@LONG
def test_a_run_killed_at_any_record_at_any_level_resumes_without_a_difference(stage: Stage):
    whole: dict[str, RunResult] = {}
    campaign = Campaign(f"kills at every record and level as {AS}", KILLS, saved_every=1)
    task = deep(stage)
    for number in campaign:
        level = LEVELS[number % len(LEVELS)]
        after = (number // len(LEVELS) * 17) % (DEEP_FACTS - 1) + 1  # coprime, so every record is covered
        if level not in whole:
            whole[level] = stage.solve(task, isolation=level)
        run = killed(stage, after, task, f"isolation={level}")
        result = resumed(run).result
        assert result is not None
        if level in UNBOUNDED and PARTIAL in repr(story(run)):  # not repeatable; the model learns that
            assert replay(run).outcome == result.outcome, (level, after)
            campaign.progress.counts[PARTIAL] = campaign.progress.counts.get(PARTIAL, 0) + 1
        else:
            agrees(run, result, whole[level], DEEP_FACTS)
        campaign.progress.counts[level] = campaign.progress.counts.get(level, 0) + 1
