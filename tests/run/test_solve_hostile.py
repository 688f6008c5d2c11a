"""Whole runs of malicious tasks and agents."""

import os
import stat

import pytest

from stackmem.core.errors import UsageError
from stackmem.workspace.tree import remove_tree
from tests.stage import Stage, command, pop, with_bubblewrap


@pytest.mark.parametrize("isolation", [pytest.param("bubblewrap", marks=with_bubblewrap), "namespaces"])
def test_variables_of_a_tasks_checks_run_in_no_program_of_the_host(stage: Stage, isolation):
    loaded = stage.root / "loaded"
    loaded.mkdir()
    variables = f'[verifier.env]\nLD_DEBUG = "files"\nLD_DEBUG_OUTPUT = "{loaded}/by"\n'
    stage.solve(stage.task(pop(), more=variables), isolation=isolation)
    assert os.listdir(loaded) == []


def test_a_task_whose_workspace_is_a_link_to_her_files_never_starts(stage: Stage):
    task = stage.task(command("touch written"), pop())
    hers = stage.root / "hers"
    hers.mkdir()
    (task / "environment").mkdir()
    (task / "environment" / "workspace").symlink_to(hers)
    with pytest.raises(UsageError, match="link out of the task"):
        stage.solve(task)
    assert os.listdir(hers) == []
    assert stage.left_behind() == []


def test_a_program_left_with_the_rights_of_whoever_runs_it_is_closed_to_others(stage: Stage):
    result = stage.solve(stage.task(command("cp /bin/true t && chmod 4755 t"), pop()))
    workspace = stage.work / result.run / "workspace"
    try:
        assert (workspace / "t").stat().st_mode & stat.S_ISUID
        assert stat.S_IMODE(workspace.parent.stat().st_mode) == 0o700
    finally:
        remove_tree(workspace.parent)
