"""``stackmem strategies`` prints a line for each strategy, or all about one."""

from stackmem.memory import STRATEGIES
from tests.stage import Stage


def test_every_strategy_has_a_line_that_begins_with_its_name_as_it_is_spelled(stage: Stage):
    ran = stage.call("strategies")
    assert (ran.returncode, ran.stderr) == (0, "")
    table = ran.stdout.partition("\n\n")[0].splitlines()
    assert [line.split()[0].partition(":")[0] for line in table] == sorted(STRATEGIES)
    assert "window:N                   the task and the last N turns; older turns are left out." in table
    assert "``" not in ran.stdout


def test_one_strategy_is_described_with_its_parameters_and_tools(stage: Stage):
    ran = stage.call("strategies", "expandable:200")
    assert ran.stdout.startswith("`expandable:CHARS`: old results show")
    assert "Parameters: `chars` (200)" in ran.stdout
    assert ran.stdout.endswith("tools: read_file, write_file, list_files, run_command, expand, pop_frame\n")


def test_a_strategy_that_is_not_there_is_refused_with_those_that_are(stage: Stage):
    ran = stage.call("strategies", "windo")
    assert ran.returncode == 2
    assert ran.stderr.startswith("stackmem: no strategy 'windo'; known: adaptive, agentfold, boundary, clear, ")
