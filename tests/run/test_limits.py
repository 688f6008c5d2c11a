"""One rule for the limits a user may set, and one for whether a cost limit can be enforced."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pytest

from stackmem.core.budgets import Limits
from stackmem.core.errors import UsageError
from stackmem.core.facts import Ending, RunResumed
from stackmem.core.limits import RUN_LIMITS
from stackmem.core.pricing import Price
from stackmem.lab.bench import bench
from stackmem.lab.worlds import make_task
from stackmem.languages.running.edited_run import continue_program
from stackmem.models.registry import NOBODY, is_free
from stackmem.run.fork import ForkChanges, fork
from stackmem.run.limits import LIMITS, first_limits, later_limits
from stackmem.run.opened import Person
from stackmem.run.programs.result import ProgramResult
from stackmem.run.replays.replay import replay_run
from stackmem.run.resume import resume
from stackmem.settings.options import LIMIT_OPTIONS
from stackmem.trace.open_run import Run
from tests.languages import tiny
from tests.languages.running.test_run import Desk, folder_of
from tests.providers.chat_server import ChatServer
from tests.run.settings_places import Places
from tests.stage import Stage, command, events, pop

UNKNOWN: tuple[str, Price | None] = ("openai/unheard-of", None)
PRICED = ("claude-sonnet-5-5", Price(3.0, 15.0, 3.75, 6.0, 0.3, "a test"))
FREE = ("human", "demo", "script:replies.yaml", "sim/bounded-reader", NOBODY)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    tiny.install()
    yield Desk(tmp_path)
    tiny.remove()


@pytest.mark.parametrize("layer", ["flags", "environ", "project", "user"])
def test_a_chosen_limit_of_a_cost_that_cannot_be_known_is_refused(places, layer):
    sources = {"flags": {"max_usd": "2"}} if layer == "flags" else {}
    if layer == "environ":
        sources = {"environ": {"STACKMEM_MAX_USD": "2"}}
    if layer in ("project", "user"):
        getattr(places, layer)("max_usd = 2")
    found = places.resolve(**sources)
    with pytest.raises(UsageError, match=r"a limit of 2 USD cannot be enforced.*use --max-usd none"):
        first_limits(found, *UNKNOWN)
    assert first_limits(found, "human", None).usd == first_limits(found, *PRICED).usd == 2.0


def test_a_limit_of_the_cost_that_nobody_chose_is_dropped_where_prices_are_unknown(places):
    assert first_limits(places.resolve(), *UNKNOWN).usd is None
    assert first_limits(places.resolve(task={"max_usd": 1.0}), *UNKNOWN).usd is None
    assert first_limits(places.resolve(flags={"max_usd": "none"}), *UNKNOWN).usd is None


@pytest.mark.parametrize("model", FREE)
def test_nobody_is_paid_for_what_some_models_say_and_their_limits_of_cost_are_accepted(places, model):
    assert is_free(model)
    assert bench.is_free is is_free  # type: ignore[attr-defined]
    assert first_limits(places.resolve(flags={"max_usd": "2"}), model, None).usd == 2.0
    assert later_limits(Limits(), {"max_usd": "2"}, model, None).usd == 2.0


def test_a_run_that_begins_and_one_that_goes_on_refuse_a_limit_of_cost_in_the_same_words(places):
    with pytest.raises(UsageError) as first:
        first_limits(places.resolve(flags={"max_usd": "2"}), *UNKNOWN)
    with pytest.raises(UsageError) as later:
        later_limits(Limits(), {"max_usd": "2"}, *UNKNOWN)
    assert str(first.value) == f"--max-usd: {later.value}"


@pytest.mark.parametrize("setting", LIMITS)
@pytest.mark.parametrize("text", ["7", " 7 ", "1_000", "none", "0", "-1", "many", "1e3", "nan", ""])
def test_what_a_run_accepts_as_a_limit_when_it_begins_it_accepts_when_it_goes_on(places, setting, text):
    none = dict.fromkeys(LIMITS, "none")
    begun = outcome(lambda: first_limits(places.resolve(flags={**none, setting: text}), "human", None))
    assert outcome(lambda: later_limits(Limits(steps=None), {setting: text}, "human", None)) == begun


def outcome(limits: Callable[[], Limits]) -> Limits | str:
    try:
        return limits()
    except UsageError as refused:
        return str(refused)


def test_a_run_of_a_simulated_model_goes_on_under_a_limit_of_cost_and_is_forked_under_one(stage: Stage, tmp_path):
    world = tmp_path / "world"
    make_task("ledger", 1, 10, 0.5, world)
    first = stage.solve(world, model="sim/bounded-reader", max_steps=2, max_usd=2)
    folder = Path(first.run_dir)
    again = resume(folder, {"max_steps": "4", "max_usd": "3"}, dict(os.environ)).result
    assert again is not None
    assert (again.steps, Run(folder).state.limits.usd) == (4, 3.0)
    child = fork(folder, 1, ForkChanges(limits={"max_usd": "+1", "max_steps": "3"}), dict(os.environ)).result
    assert Run(Path(child.run_dir)).state.limits == Limits(steps=3, usd=3.0)


def without_a_model(desk: Desk, **flags: str) -> tuple[ProgramResult, Path]:
    desk.flags |= flags
    result = desk.run("say before\nask what?\nsay $it")
    assert result.run.ending == "model_error"
    return result, folder_of(result)


def replies(desk: Desk, *texts: str) -> str:
    desk.script(*[{"text": text} for text in texts])
    return desk.flags["model"]


def test_a_program_that_ended_without_a_model_goes_on_with_one_and_with_a_limit_of_cost(desk: Desk) -> None:
    _, folder = without_a_model(desk, max_usd="2")
    again = resume(folder, {"model": replies(desk, "skipped", "said"), "max_usd": "2"}, dict(os.environ))
    assert again.program is not None
    assert (again.outcome, again.program.said) == ("finished", ("said",))
    assert Run(folder).state.limits.usd == 2.0
    assert replay_run(folder).outcome == "finished"


def test_a_limit_of_cost_is_judged_by_the_model_that_is_named_and_not_by_nobody(desk: Desk) -> None:
    _, folder = without_a_model(desk, max_usd="none")
    says = "a limit of 2 USD cannot be enforced, because the price of the model is unknown"
    with ChatServer() as server, pytest.raises(UsageError, match=says):
        resume(folder, {"model": "openai/x", "max_usd": "2"}, dict(os.environ) | {"OPENAI_BASE_URL": server.url})
    assert not events(folder, RunResumed)


def test_a_program_without_a_model_goes_on_edited_under_a_limit_of_cost(desk: Desk) -> None:
    _, folder = without_a_model(desk)
    edited = desk.write("say before\nsay after", "edited.tiny")
    result = continue_program(folder, edited, {"max_usd": "+1"}, dict(os.environ), Person(lambda _: None))
    assert result.said == ("before", "after")
    assert Run(folder_of(result)).state.limits.usd == 6.0


def test_a_spent_limit_is_named_with_the_way_to_raise_it_wherever_a_run_goes_on(stage: Stage) -> None:
    folder = Path(stage.solve(stage.task(command("true"), command("true"), pop()), max_steps=2).run_dir)
    says = "used up its limit of steps; raise it, for example --max-steps [+]50"
    with pytest.raises(UsageError, match=f"the run has {says}"):
        resume(folder, {}, dict(os.environ))
    with pytest.raises(UsageError, match=f"at step 2 the run had {says}"):
        fork(folder, 2, ForkChanges(), dict(os.environ))


def test_a_script_with_a_price_costs_what_its_estimated_tokens_would(stage: Stage) -> None:
    task = stage.task(pop())
    assert stage.solve(task).cost_usd is None
    priced = stage.solve(task, price="2,8")
    assert priced.cost_usd == pytest.approx((priced.usage.uncached * 2 + priced.usage.output * 8) / 1e6)


def test_every_limit_has_its_setting_and_its_ending():
    assert [limit.field for limit in RUN_LIMITS] == list(Limits.__struct_fields__)
    assert sorted(limit.setting for limit in RUN_LIMITS) == sorted(LIMIT_OPTIONS)
    assert [limit.ending for limit in RUN_LIMITS] == [each for each in get_args(Ending) if each.startswith("limit:")]
