"""The trap of each family: a forgetful or careless agent's action is refused or fails the hidden check."""

import pytest

from stackmem.lab.worlds.families.dead_ends import REPEATS
from stackmem.lab.worlds.folder import Made
from stackmem.run.tasks import work
from tests.lab.worlds.worlds import SILENT, do, made, opened, played, reward, right


def stale(world: Made, unit: int) -> dict[str, str]:
    """Return the answer of an agent that keeps the first value it saw of each key."""
    first: dict[str, str] = {}
    for number in range(1, unit + 1):
        for key, value in right(world, number).items():
            first.setdefault(key, value)
    return {key: first[key] for key in right(world, unit)}


@pytest.mark.parametrize("horizon", [30, 60, 300])
@pytest.mark.parametrize("family", SILENT)
def test_an_outdated_value_is_accepted_and_fails_at_the_end(family: str, horizon: int):
    world = made(family, horizon)
    wrong = [unit for unit in range(1, len(world.commands) + 1) if stale(world, unit) != right(world, unit)]
    assert wrong
    workspace, refused = played(world, lambda unit, _: stale(world, unit))
    assert refused == []
    assert reward(world, workspace) < 1
    one, _ = played(world, lambda unit, values: stale(world, unit) if unit == wrong[-1] else values)
    assert reward(world, one) < 1


def test_a_change_is_announced_once_and_the_file_has_the_new_value():
    world = made("moving_target", 60)
    workspace, told = opened(world), 0
    for unit in range(1, len(world.commands) + 1):
        text = workspace.run_command(do(unit, right(world, unit)), 10, 32_768).text
        for topic in [line.split()[1] for line in text.splitlines() if line.startswith("changed ")]:
            told += 1
            assert f"changed {topic} @ {unit}" in text
            now = workspace.read_file(f"config/{topic}.conf", None, None, 32_768).text
            assert now != world.files[f"config/{topic}.conf"]
            assert f"changed {topic}" not in workspace.run_command(f"./work do {unit}", 10, 32_768).text
    assert told >= 4


def test_the_handbook_is_never_corrected_and_the_findings_say_what_holds():
    world = made("conflict", 60)
    workspace, _ = played(world)
    assert workspace.files["docs/tariff-handbook.md"] == world.files["docs/tariff-handbook.md"]
    findings = workspace.files["docs/decisions.md"]
    for row in world.world.facts:
        if row.source == "read docs/decisions.md" and row.valid[1] == len(world.commands):
            assert f"- {row.key} = {row.value} @ {row.valid[0] - 1}\n" in findings


@pytest.mark.parametrize(("times", "solved"), [(REPEATS, True), (REPEATS + 1, False)])
def test_dead_ends_may_be_tried_again_a_few_times_over_the_whole_run(times: int, solved: bool):
    world = made("dead_ends", 60)
    workspace, _ = played(world)
    wrong = "./work probe fix.timeout raise-timeout"
    text = [workspace.run_command(wrong, 10, 32_768).text for _ in range(times + 1)][-1]
    assert text.endswith("not fix.timeout = raise-timeout\n[exit 1]")
    assert (reward(world, workspace) == 1.0) is solved


def test_the_obvious_commands_are_never_right_and_every_unit_needs_the_one_that_is():
    for seed in range(5):
        world = made("env_trap", 100, seed)
        for path, text in world.world.files.items():
            listed = text.partition("candidate env.")[2].partition("\n")[0]
            key, _, candidates = listed.partition(": ")
            obvious = candidates.split()[:2]
            assert world.world.probes[f"env.{key}"] not in obvious, path
        assert all("env.runner" in right(world, unit) for unit in range(1, len(world.commands) + 1))


def test_the_forty_fields_stand_in_one_long_document_and_are_needed_early_in_the_middle_and_late():
    world = made("spec_map", 300)
    (text,) = [text for path, text in world.world.files.items() if path == "docs/field-mapping.md"]
    assert len(text) > 32_768
    assert sum(call.args.get("path") == "docs/field-mapping.md" for call in world.calls) > 1
    third = len(world.commands) / 3
    assert len(world.world.facts) >= 40
    for row in world.world.facts[:40]:
        assert {int((unit - 1) // third) for unit in row.needed} == {0, 1, 2}


def test_an_identifier_is_only_in_its_log_and_needed_much_later():
    world = made("log_haystack", 300)
    for row in world.world.facts:
        if not row.key.startswith("request."):
            continue
        assert not any(row.value in text for text in world.files.values())
        command = row.source.removeprefix("run ")
        shown = opened(world).run_command(command, 10, 32_768).text
        assert f"\n{row.key} = {row.value}\n" in shown
        assert "omitted" not in shown
        assert len(shown) > 8_000
        gaps = [after - before for before, after in zip(row.needed, row.needed[1:], strict=False)]
        assert sum(gap >= 10 for gap in gaps) >= 6  # the case is paused and resumed
        assert max(gaps) >= 30


def test_a_line_of_an_early_log_matters_when_many_others_have_come_by():
    world = made("log_stream", 120)
    first_read = {row.key: row.first_needed for row in world.world.facts if row.key.startswith("trace.")}
    early = [row for row in world.world.facts if not row.key.startswith("trace.")]
    late = [row.needed[-1] - first_read[f"trace.{row.key.partition('.')[2]}"] for row in early]
    assert len(early) >= 30
    assert sum(gap >= 30 for gap in late) >= len(early) / 2
    assert not any(row.value in text for row in early for text in world.files.values())


def test_a_sub_tasks_result_is_printed_once_and_not_stored():
    world = made("deep_deps", 100)
    workspace, _ = played(world)
    assert world.world.extras["depth"] >= 4
    for row in world.world.facts:
        if row.key.startswith("result."):
            assert not any(row.value in text for text in workspace.files.values())
            again = workspace.run_command(f"./work do {row.source.removeprefix('unit ')}", 10, 32_768)
            assert row.value not in again.text
            assert not again.failed


def test_results_are_needed_by_siblings_and_parents_and_depths_reach_six():
    depths = {made("deep_deps", horizon).world.extras["depth"] for horizon in (10, 60, 300)}
    assert min(depths) <= 2
    assert max(depths) == 6
    rows = [row for row in made("deep_deps", 300).world.facts if row.key.startswith("result.")]
    assert max(row.needed[-1] - row.valid[0] for row in rows) > 40


def test_the_total_of_yesterday_is_refused_and_the_audit_tells_the_one_of_today():
    world = made("ledger", 60)
    workspace = opened(world)
    last = len(world.commands)
    for unit in range(1, last):
        workspace.run_command(do(unit, right(world, unit)), 10, 32_768)
    old = {**right(world, last), "ledger.total": right(world, last - 1)["ledger.total"]}
    assert f"failed unit {last}: wrong ledger.total" in workspace.run_command(do(last, old), 10, 32_768).text
    audit = workspace.run_command("./work audit", 10, 32_768).text
    assert f"\nledger.total = {right(world, last)['ledger.total']} @ {last - 1}\n[exit 0]" in audit
    assert len(audit) > 6_000
    assert workspace.run_command(do(last, right(world, last)), 10, 32_768).exit_code == 0
    assert reward(world, workspace) == 1.0


def test_units_cannot_be_done_out_of_order_and_a_journal_of_ones_own_is_worth_nothing():
    world = made("ledger", 30)
    workspace = opened(world)
    assert "failed unit 3: unit 1 comes first" in workspace.run_command(do(3, right(world, 3)), 10, 32_768).text
    forged = "".join(f"unit {digest}\n" for digest in (work.digest(world.salt, str(unit)) for unit in range(99)))
    workspace.write_file(work.JOURNAL, forged)
    assert reward(world, workspace) == 0


def test_a_dropped_attempt_is_never_asked_for_again():
    world = made("dropped_branch", 120).world
    dropped = [
        number for number, unit in enumerate(world.units, 1) if any(line.startswith("changed") for line in unit.says)
    ]
    assert len(dropped) >= 4
    found = [row for row in world.facts if row.key.startswith("attempt.")]
    assert not any(row.first_needed <= end < row.needed[-1] for row in found for end in dropped)
    assert sum(row.source.endswith("-found.md") for row in found) >= 3 * len(dropped)


def test_an_inventory_has_more_facts_than_a_heap_or_a_summary_holds():
    world = made("inventory", 300)
    told = [line for text in world.world.files.values() for line in text.splitlines() if " = " in line]
    assert sum(map(len, told)) > 2 * 20_000
    assert max(row.needed[-1] - row.needed[0] for row in world.world.facts) > 100


def test_phases_are_of_uneven_length_and_the_first_document_is_needed_at_the_end():
    lengths: dict[str, int] = {}
    for unit in made("uneven", 120).world.units:
        phase = unit.description.partition(",")[0]
        lengths[phase] = lengths.get(phase, 0) + 1
    assert max(lengths.values()) >= 10 * min(lengths.values())
    home = made("homecoming", 120).world
    middle = home.units[len(home.units) // 2]
    assert not any(need.key.startswith("contract.") for need in middle.needs)
    assert all(need.key.startswith("contract.") for unit in (home.units[0], home.units[-1]) for need in unit.needs)


def test_switches_are_set_back_to_what_they_were():
    rows = [row for row in made("reversal", 300).world.facts if row.key == "switch.checkout"]
    values = [row.value for row in rows]
    assert len(values) >= 4
    assert values.count(values[0]) >= 2
    assert len(set(values)) >= 2


def test_what_prospecting_finds_is_never_needed_after_its_claim():
    for row in made("prospecting", 120).world.facts:
        assert row.needed == tuple(range(row.needed[0], row.needed[-1] + 1))


def test_a_word_of_the_vigil_is_in_one_output_only():
    world = made("vigil", 60)
    workspace, _ = played(world)
    for row in (row for row in world.world.facts if row.key.startswith("watch.")):
        assert not any(row.value in text for path, text in workspace.files.items() if path != "work")
        assert row.first_needed - row.valid[0] > 30
