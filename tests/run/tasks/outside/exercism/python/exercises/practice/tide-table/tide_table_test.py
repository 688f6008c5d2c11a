import pytest
from tide_table import high_waters


def test_one_high_water():
    assert high_waters([1, 3, 2]) == [1]


def test_two_high_waters():
    assert high_waters([0, 5, 1, 4, 2]) == [1, 3]


def test_a_plateau_is_no_high_water():
    assert high_waters([1, 3, 3, 2]) == []


def test_the_ends_are_no_high_water():
    assert high_waters([9, 1, 9]) == []


def test_no_levels():
    with pytest.raises(ValueError, match="no levels"):
        high_waters([])
