"""Every family: reproducible bytes, solved by perfect memory within the horizon, and hard to cheat."""

import hashlib
import os
import re
import subprocess
import sys

import pytest
from msgspec import structs

from stackmem.lab.worlds.folder import answers, instruction, manifest, task_files
from stackmem.lab.worlds.make import HORIZONS, WORLDS
from stackmem.lab.worlds.oracle import Oracle
from stackmem.run.tasks import work
from tests.conftest import CAMPAIGN
from tests.lab.worlds.worlds import FAMILIES, LASTING, VISIBLE, do, made, opened, played, reward, right
from tests.stage import ROOT

KEY = r"[a-z][a-z_]*\.[a-z0-9][a-z0-9_-]*"
VALUE = r"[A-Za-z0-9_./:+-]{1,80}"
GRAMMAR = re.compile(
    rf"(?:- )?{KEY} = {VALUE}(?: @ \d+)?|not {KEY} = {VALUE}|(?:- )?candidate {KEY}: [A-Za-z0-9_./:+ -]+"
    r"|changed [a-z_]+ @ \d+|done units? \d+(?:-\d+)?|next unit \d+ of \d+|unit \d+: needs .+|failed unit \d+: .+"
)
LOOKS_LIKE_ONE = re.compile(r".* = .*|\s*[-*]?\s*(?:not|changed|done|failed|candidate|next unit|unit \d+:) .*")


def digest(family: str) -> str:
    written = [f"{path}\n{mode:o}\n{text}" for path, text, mode in task_files(made(family, 20))]
    return hashlib.sha256("\n".join(written).encode()).hexdigest()


def test_the_same_arguments_make_the_same_bytes_in_every_process():
    program = "from tests.lab.worlds import test_worlds as t\nprint('\\n'.join(t.digest(name) for name in t.FAMILIES))"
    outputs = set()
    for seed in ("1", "2"):
        environ = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environ, capture_output=True, check=True)
        outputs.add(done.stdout.decode())
    assert outputs == {"".join(f"{digest(name)}\n" for name in FAMILIES)}


@pytest.mark.parametrize("family", FAMILIES)
def test_another_seed_makes_another_world(family: str):
    one, other = made(family, 30, 1), made(family, 30, 2)
    assert one.commands != other.commands
    assert one.world.files != other.world.files


@pytest.mark.parametrize("horizon", [10, 60, pytest.param(300, marks=pytest.mark.campaign)])
@pytest.mark.parametrize("family", FAMILIES)
def test_perfect_memory_solves_it_in_as_many_calls_as_the_horizon_says(family: str, horizon: int):
    world = made(family, horizon)
    assert len(world.calls) == manifest(world)["necessary_steps"]
    assert abs(len(world.calls) - horizon) <= 0.02 * horizon
    again = Oracle(world.files, len(world.world.units))
    assert tuple(again.play()) == world.calls
    assert work.verdict(again.files, answers(world)) == (
        1.0, f"{len(world.commands)} of {len(world.commands)} units were done with the values that held",
    )  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_every_horizon_can_be_had_at_every_noise(family: str):
    low, _ = HORIZONS
    for horizon in range(low, 40, 7 if CAMPAIGN else 14):
        for noise in (0.0, 0.3, 8.0):
            assert abs(len(made(family, horizon, 1, noise).calls) - horizon) <= 0.02 * horizon


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("family", FAMILIES)
def test_many_seeds_and_horizons_are_solved(family: str, seed: int):
    for horizon in (10, 11, 15, 23, 60, 97, 1_000):
        assert abs(len(made(family, horizon, seed).calls) - horizon) <= 0.02 * horizon


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_done_is_worth_nothing_and_half_is_not_solved(family: str):
    world = made(family, 30)
    workspace = opened(world)
    assert reward(world, workspace) == 0
    half = len(world.commands) // 2
    for command in world.commands[:half]:
        workspace.run_command(command, 10, 32_768)
    assert 0 < reward(world, workspace) < 1


@pytest.mark.parametrize("family", FAMILIES)
def test_the_manifest_tells_of_each_fact_where_it_is_when_it_is_needed_and_how_long_it_holds(family: str):
    world = made(family, 60)
    told = manifest(world)
    assert told["units"] == len(world.commands)
    rows = [structs.asdict(row) for row in world.world.facts]
    needed = {(row["key"], row["value"], unit) for row in rows for unit in row["needed"]}
    assert needed == {
        (need.key, need.value, number) for number, unit in enumerate(world.world.units, 1) for need in unit.needs
    }
    for row in rows:
        first, last = row["valid"]
        assert row["first_needed"] == min(row["needed"])
        assert first <= min(row["needed"])
        assert max(row["needed"]) <= last


@pytest.mark.parametrize("family", LASTING)
def test_the_number_of_facts_does_not_grow_with_the_horizon(family: str):
    keys = {need.key: need.value for unit in made(family, 300).world.units for need in unit.needs}
    assert len(keys) <= 60
    assert sum(len(f"{key} = {value}\n") for key, value in keys.items()) <= 6_000


@pytest.mark.parametrize("family", FAMILIES)
def test_no_value_that_is_judged_stands_in_clear_in_the_programs_own_files(family: str):
    world = made(family, 60)
    for row in world.world.facts:
        assert row.value not in world.files[work.PLAN] or len(row.value) < 4
    assert "needs" not in world.files[work.PLAN]
    assert not any("needs " in text for path, text in world.files.items() if path not in ("work", work.PLAN))
    assert len(world.files[work.PLAN].split("\n", 1)[0]) == 16


@pytest.mark.parametrize("family", FAMILIES)
def test_only_lines_of_the_grammar_look_like_it(family: str):
    """Applies to documents, outputs, and the noise around them."""
    world = made(family, 30, 7, 4.0)
    workspace = opened(world)
    commands = [str(call.args["command"]) for call in world.calls if call.tool == "run_command"]
    shown = [*world.world.files.values(), *(workspace.run_command(each, 10, 32_768).text for each in commands)]
    for line in "\n".join(shown).splitlines():
        if LOOKS_LIKE_ONE.fullmatch(line) and not line.startswith("# "):
            assert GRAMMAR.fullmatch(line), line


@pytest.mark.parametrize("family", FAMILIES)
def test_the_noise_knob_is_the_size_of_what_a_unit_prints(family: str):
    sizes = {}
    for noise in (0.0, 1.0, 4.0):
        world = made(family, 30, 7, noise)
        workspace, text = opened(world), ""
        for number in range(1, 4):
            text = workspace.run_command(do(number, right(world, number)), 10, 32_768).text
        sizes[noise] = len(text)
    assert sizes[0.0] < 400
    assert 1_400 < sizes[1.0] < 2_200
    assert 5_900 < sizes[4.0] < 6_800


@pytest.mark.parametrize("family", FAMILIES)
def test_the_instruction_says_in_one_line_what_is_to_be_done(family: str):
    world = made(family, 60)
    units = len(world.commands)
    assert f"\nDo units 1 to {units}.\n" in instruction(world.world)
    assert len(re.findall(r"^Do units", instruction(world.world), re.MULTILINE)) == 1


@pytest.mark.parametrize("family", VISIBLE)
def test_a_wrong_value_is_refused_by_name(family: str):
    world = made(family, 30)
    workspace = opened(world)
    values = right(world, 1)
    for key in values:
        text = workspace.run_command(do(1, {**values, key: "something-else"}), 10, 32_768).text
        assert f"failed unit 1: wrong {key}\n" in text
        text = workspace.run_command(
            do(1, {name: value for name, value in values.items() if name != key}), 10, 9_999
        ).text
        assert f"failed unit 1: missing {key}\n" in text
    assert reward(world, workspace) == 0


def test_every_family_is_played_to_the_end_by_the_right_values():
    for family in FAMILIES:
        workspace, refused = played(made(family, 60))
        assert refused == []
        assert reward(made(family, 60), workspace) == 1.0
    assert len(WORLDS) == 24


@pytest.mark.parametrize("horizon", [60, 300])
@pytest.mark.parametrize("family", LASTING)
def test_most_facts_are_needed_at_several_places_far_apart(family: str, horizon: int):
    """Otherwise memory could not pay off."""
    passing = ("step", "unit ")  # a total, or a result that part of the work needs
    rows = [row for row in made(family, horizon).world.facts if not row.source.startswith(passing)]
    apart = [row.needed[-1] - row.needed[0] for row in rows]
    units = len(made(family, horizon).commands)
    again = sum(distance >= min(20, units // 4) for distance in apart)
    lasting = sum(row.valid[1] - row.valid[0] >= units // 2 for row in rows)
    assert again >= 0.6 * min(lasting, len(rows))
