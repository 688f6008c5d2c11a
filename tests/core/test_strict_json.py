"""JSON as its standard has it."""

import pytest

from stackmem.core.strict_json import strict_value


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": -Infinity}', "1e999", "[-1e999]", "", "{", "1 2"])
def test_what_the_standard_does_not_have_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        strict_value(text)


def test_what_it_has_is_read():
    assert strict_value('[1, 1.5e3, "\\ud83d\\ude00", null, {"a": true}]') == [1, 1500.0, "😀", None, {"a": True}]
