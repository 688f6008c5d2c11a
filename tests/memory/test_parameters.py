"""The parameters after a strategy's name, and their canonical spelling."""

import pytest

from stackmem.core.errors import UsageError
from stackmem.memory.shared.parameters import Choice, Count, parameters

KNOWN = (Count("turns", 20, low=1, high=500), Choice("prefix", ("shared", "cold")))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", "window"),
        ("20", "window"),
        ("30", "window:turns=30"),
        ("turns=30", "window:turns=30"),
        ("prefix=cold", "window:prefix=cold"),
        ("prefix=cold,turns=030", "window:turns=30,prefix=cold"),
        ("30,prefix=shared", "window:turns=30"),
        ("30,cold", "window:turns=30,prefix=cold"),
        (" 30 , prefix = cold ", "window:turns=30,prefix=cold"),
        ("1_00", "window:turns=100"),
    ],
)
def test_a_name_is_spelled_in_one_way(text, name):
    found = parameters("window", text, KNOWN)
    assert found.name == name
    assert parameters("window", name.partition(":")[2], KNOWN) == found


def test_omitted_parameters_have_their_defaults():
    found = parameters("window", "", KNOWN)
    assert (found.words, found.counts) == ({"prefix": "shared"}, {"turns": 20})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("0", "turns=NUMBER, from 1 to 500, not '0'"),
        ("501", "from 1 to 500"),
        ("-1", "from 1 to 500"),
        ("many", "not 'many'"),
        ("9" * 5_000, "from 1 to 500"),
        ("٣", "from 1 to 500"),
        ("turns=", "not ''"),
        ("prefix=warm", "prefix=shared|cold, not 'warm'"),
        ("20,prefix", "prefix=shared|cold, not 'prefix'"),
        ("20,30", "prefix=shared|cold, not '30'"),
        ("20,turns=30", "sets turns twice"),
        ("20,", "not ''"),
        ("size=3", "no parameter 'size'; known: prefix, turns"),
    ],
)
def test_an_invalid_parameter_is_refused_with_the_valid_ones(text, told):
    with pytest.raises(UsageError) as error:
        parameters("window", text, KNOWN)
    assert told in str(error.value)


def test_a_strategy_without_parameters_takes_none():
    assert parameters("full", "").name == "full"
    with pytest.raises(UsageError, match="known: none"):
        parameters("full", "20")
