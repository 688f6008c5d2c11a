"""The bounded reader in whole worlds: every strategy and variant ends, and those that remember solve."""

from __future__ import annotations

import pytest

from stackmem.core.budgets import Budgets
from stackmem.lab.simulated import VARIANTS
from stackmem.lab.worlds import WORLDS
from stackmem.memory import STRATEGIES
from tests.providers.reading import played, world

SETTLED = ("popped", "limit:steps")


@pytest.mark.parametrize("family", WORLDS)
def test_the_whole_history_solves_every_world_in_exactly_the_necessary_steps(family: str) -> None:
    run = played(family, "full")
    assert run.solved, run.why
    assert run.state.step == len(world(family, 0, 60).calls)


@pytest.mark.parametrize("family", WORLDS)
def test_stackheap_solves_every_world_and_nothing_is_refused(family: str) -> None:
    run = played(family, "stackheap", horizon=120)
    assert run.solved, run.why
    assert run.refusals == []
    assert run.tools["push_frame"] >= 3


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_under_every_strategy_a_run_ends_by_its_pop_or_its_steps_and_never_stalls(strategy: str) -> None:
    for family in ("env_trap", "moving_target"):
        run = played(family, strategy)
        assert run.state.end is not None
        assert run.state.end.ending in SETTLED
        assert run.solved or "units" in run.why


SETTINGS = (
    "index=delta",
    "index=tail",
    "index=system",
    "index=listed",
    "store=off",
    "registers=off",
    "descriptions=off",
)


@pytest.mark.parametrize("setting", SETTINGS)
def test_stackheap_solves_whatever_its_parameters_are(setting: str) -> None:
    for family in ("moving_target", "deep_deps", "spec_map"):
        run = played(family, f"stackheap:{setting}", horizon=120)
        assert run.solved, (family, run.why, run.state.result)


@pytest.mark.parametrize("strategy", ["expandable", "memory_dir", "notes", "isolated", "heap", "stackheap_fork"])
def test_facts_seen_once_are_kept_by_every_capable_strategy(strategy: str) -> None:
    run = played("deep_deps", strategy, horizon=120, noise=1.0)
    assert run.solved, (run.why, run.state.result)


def test_what_a_strategy_hides_for_good_is_found_missing_by_name() -> None:
    run = played("deep_deps", "window:5", horizon=200)
    assert not run.solved
    assert "missing result.u" in run.state.result


def test_pages_of_a_log_and_the_audit_are_read_where_nothing_else_tells() -> None:
    assert played("log_haystack", "full", horizon=120).solved
    run = played("ledger", "stackheap", "forgetful")
    assert run.solved, run.why
    assert any(given == {"command": "./work audit"} for _, given in run.calls)


def test_the_oracle_finds_nothing_twice_but_what_has_changed() -> None:
    for family in ("conflict", "moving_target", "dead_ends"):
        run = played(family, "window:5", "oracle", horizon=120)
        assert run.solved, (family, run.why)
        assert run.state.step <= 1.02 * len(world(family, 0, 120).calls)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_but_the_one_that_forgets_solves(variant: str) -> None:
    for family in ("dead_ends", "env_trap"):
        run = played(family, "stackheap", variant)
        assert run.state.end is not None
        assert run.solved or (variant, family) == ("forgetful", "dead_ends"), run.why


def test_the_variants_do_what_their_names_say() -> None:
    runs = {variant: played("spec_map", "stackheap", variant) for variant in VARIANTS}
    units = len(world("spec_map", 0, 60).world.units)
    assert runs["never-push"].tools["push_frame"] == 0
    assert runs["always-push"].tools["push_frame"] > units // 2
    assert runs["hoarder"].tools["heap_alloc"] > runs["nesting"].tools["heap_alloc"]
    stored = [variant for variant, run in runs.items() if run.state.heap.chunks]
    assert "forgetful" not in stored
    assert "nesting" in stored
    assert runs["forgetful"].tools["read_file"] > runs["nesting"].tools["read_file"]


def test_the_same_world_is_played_alike_to_the_byte() -> None:
    one, other = played("ledger", "stackheap"), played("ledger", "stackheap")
    assert one.calls == other.calls
    assert one.digests == other.digests


def test_what_is_read_again_under_full_history_is_only_what_has_changed() -> None:
    for family in WORLDS:
        run = played(family, "full")
        looked = [str(given) for tool, given in run.calls if tool == "read_file"]
        again = len(looked) - len(set(looked))
        assert again == 0 or family in ("moving_target", "conflict")


def test_a_long_run_under_stackheap_needs_no_more_context_than_a_short_one() -> None:
    short, long = (played("ledger", "stackheap", horizon=horizon, noise=1.0) for horizon in (100, 400))
    assert long.solved
    assert long.peak < 1.1 * short.peak
    flat = played("ledger", "full", horizon=400, noise=1.0)
    assert long.peak * 5 < flat.peak


SMALL = (
    Budgets(heap_chars=0), Budgets(heap_chars=300), Budgets(heap_chunks=1), Budgets(description_chars=10),
    Budgets(depth=0), Budgets(depth=1), Budgets(context_chars=40), Budgets(intent_chars=100, return_chars=40),
    Budgets(result_chars=60),
)  # fmt: skip


@pytest.mark.parametrize("budgets", SMALL)
def test_small_budgets_are_kept_to_and_cost_steps_not_crashes(budgets: Budgets) -> None:
    run = played("env_trap", "stackheap", budgets=budgets)
    assert run.state.end is not None
    assert run.state.end.ending in SETTLED
    assert len(run.refusals) <= run.state.step // 10


def test_a_window_that_is_too_small_ends_frames_not_the_reader() -> None:
    run = played("env_trap", "stackheap", window_tokens=16_000, noise=1.0)
    assert run.state.end is not None
    assert run.state.end.ending in ("popped", "stalled", "limit:steps")


@pytest.mark.campaign
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_ends_in_every_world(strategy: str) -> None:
    for family in WORLDS:
        for variant in VARIANTS:
            run = played(family, strategy, variant, noise=1.0)
            assert run.state.end is not None
            assert run.state.end.ending in (*SETTLED, "stalled")
