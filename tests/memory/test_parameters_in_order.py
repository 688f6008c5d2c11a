"""Values without a name come first."""

import pytest

from stackmem.errors import UsageError
from stackmem.memory import open_strategy


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("hierarchical:5,15", "hierarchical"),
        ("hierarchical:4,12", "hierarchical:hot=4,warm=12"),
        ("hierarchical:warm=12", "hierarchical:warm=12"),
        ("rag:5,7", "rag:passages=7"),
        ("mask:10,poll=1", "mask:poll=1"),
        ("window:30", "window:turns=30"),
    ],
)
def test_values_without_a_name_are_the_first_ones(spelled, name):
    assert open_strategy(spelled).name == name


@pytest.mark.parametrize(
    "spelled", ["hierarchical:hot=5,15", "hierarchical:5,15,20", "rag:5,passages", "window:0", "window:x"]
)
def test_what_cannot_be_told_apart_is_refused(spelled):
    with pytest.raises(UsageError):
        open_strategy(spelled)
