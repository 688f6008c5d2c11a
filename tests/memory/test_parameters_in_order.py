"""Values without a name come first; defaults match the strategy's docstring."""

import inspect
import re
import sys

import pytest

from stackmem.core.errors import UsageError
from stackmem.memory import STRATEGIES, open_strategy

DEFAULT = re.compile(r"``(\w+)`` \((?:``)?(\d[\d,]*\d|\w+)")


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
def test_ambiguous_values_are_refused(spelled):
    with pytest.raises(UsageError):
        open_strategy(spelled)


def defaults(name: str) -> dict[str, str]:
    """Map parameter to default, as documented in the maker's docstring or else in its module's."""
    maker = STRATEGIES[name]
    told = [inspect.getdoc(maker) or "", sys.modules[maker.__module__].__doc__ or ""]
    line = next((text.partition("Parameters: ")[2] for text in told if "Parameters: " in text), "")
    return {each: default.replace(",", "") for each, default in DEFAULT.findall(line.partition("\n\n")[0])}


@pytest.mark.parametrize("name", [name for name in STRATEGIES if defaults(name)])
def test_defaults_match_the_docstring(name):
    for parameter, default in defaults(name).items():
        if default != "half":
            assert open_strategy(f"{name}:{parameter}={default}").name == name
