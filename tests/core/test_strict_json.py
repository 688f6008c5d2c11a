"""JSON exactly as the standard defines it, and where Python's parser differs."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.strict_json import line_and_column, offset_of, strict_value

DEEP = "[" * 101 + "]" * 101


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("NaN", 0),
        ("[Infinity]", 1),
        ('{"a": -Infinity}', 6),
        ("1e999", 0),
        ('["1e999", -1e999]', 10),
        ('{"NaN": [{"b": NaN}], "c": NaN}', 15),
        ("[1, 1" + "0" * 309 + "]", 4),
        (DEEP, 100),
        ('{"a": ' * 101 + "1" + "}" * 101, 600),
        ("[" * 100_000, 100),
        ("", 0),
        ("{", 1),
        ("1 2", 2),
    ],
)
def test_nonstandard_json_is_refused_at_its_first_character(text, at):
    with pytest.raises(json.JSONDecodeError) as caught:
        strict_value(text)
    assert caught.value.pos == at


@pytest.mark.parametrize(
    "text", ['[1, 1.5e3, "\\ud83d\\ude00", null, {"a": true}]', DEEP[1:-1], "1" + "0" * 308, '["NaN 1e999 [[{"]']
)
def test_standard_json_is_read(text):
    assert strict_value(text) == strict_value(text, one_each=True, utf8=True) == json.loads(text)


def test_of_two_equal_keys_the_last_counts_unless_each_may_stand_once():
    text = '{"a": {"b": 1, "a": {}}, "b": {"b": 2},\n "a": 1}'
    assert strict_value(text) == {"a": 1, "b": {"b": 2}}
    with pytest.raises(json.JSONDecodeError, match=r"the key 'a' stands twice: line 2 column 2"):
        strict_value(text, one_each=True)


@pytest.mark.parametrize(
    "text", [r'["a", "\ud800"]', r'["a", "\udc00\ud800"]', '["a", "\ud800"]', r'["a", {"\uDABC": 1}]']
)
def test_half_a_character_is_read_unless_texts_must_be_whole(text):
    assert strict_value(text)[0] == "a"
    with pytest.raises(json.JSONDecodeError, match=r"half of a surrogate pair"):
        strict_value(text, utf8=True)


KEYS = st.text(max_size=3) | st.sampled_from(["a", "b"])
VALUE = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
)


@given(VALUE, st.booleans())
def test_every_value_is_found_by_its_path(value, ascii_):
    text = json.dumps(value, ensure_ascii=ascii_, indent=1)
    left = [((), value)]
    while left:
        path, each = left.pop()
        found, _ = json.JSONDecoder().raw_decode(text, offset_of(text, path))
        assert found == each
        assert offset_of(text, (*path, "not there", 7)) == offset_of(text, path)
        steps = each.items() if isinstance(each, dict) else enumerate(each) if isinstance(each, list) else ()
        left += [((*path, step), inner) for step, inner in steps]


def test_places_are_counted_from_one():
    assert line_and_column("", 0) == "line 1, column 1"
    assert line_and_column("ab\n\ncd", 5) == "line 3, column 2"


def test_the_position_of_a_missing_value_is_the_beginning():
    assert offset_of("", ("a",)) == offset_of("", ()) == 0
