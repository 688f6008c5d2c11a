"""YAML nested too deeply is rejected at the bracket that exceeds the limit, without scanning the rest."""

import pytest

from stackmem.languages.frame.bounds import LEVELS
from stackmem.languages.frame.yaml_tree import Place, YamlError, parse_yaml, plain


@pytest.mark.parametrize(
    ("opening", "closing", "column"),
    [("[", "", LEVELS + 2), ("[", "]", LEVELS + 2), ("{a: ", "}", 4 * (LEVELS + 1) + 1)],
)
def test_a_bracket_too_deep_is_refused_where_it_opens(opening: str, closing: str, column: int):
    with pytest.raises(YamlError, match=f"^nested deeper than {LEVELS} levels") as refused:
        parse_yaml(opening * 2_000 + closing * 2_000)
    assert refused.value.position == Place(1, column)


def test_brackets_as_deep_as_is_allowed_are_read_and_many_beside_each_other_too():
    value = plain(parse_yaml("[" * (LEVELS + 1) + "]" * (LEVELS + 1)))
    depth = 0
    while value:
        (value,), depth = value, depth + 1
    assert depth == LEVELS
    assert plain(parse_yaml("[" + "[x], " * 500 + "]")) == [["x"]] * 500
