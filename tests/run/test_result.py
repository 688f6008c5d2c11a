"""The result of a run that its provider ended."""

import pytest

from stackmem.core.facts import ModelFailed, RunEnded
from stackmem.core.state import State
from stackmem.run.result import failure_of


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (
            "connection",
            "connection: refused (2 attempts); check that the server is running, or use another with --base-url",
        ),
        ("rejected", "rejected: refused (2 attempts)"),
    ],
)
def test_a_server_that_is_not_there_is_told_with_the_flag_that_names_another(kind, says):
    state = State(end=RunEnded("model_error", ""), failures=(ModelFailed(kind, "refused"),) * 2)
    assert failure_of(state) == says
