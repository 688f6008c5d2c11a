"""Small is a rule: the longest files and functions are what makes a codebase hard to read."""

import ast
from collections.abc import Iterator
from statistics import median, quantiles

import pytest

from tests.house.sources import modules, name

FILE_CAP, FUNCTION_CAP = 400, 60


def length(path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def long_functions(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_CAP:
                yield f"{node.name}: {lines} lines"


@pytest.mark.parametrize("path", modules(), ids=name)
def test_a_file_and_its_functions_stay_under_the_caps(path):
    assert length(path) <= FILE_CAP
    assert list(long_functions(path.read_text(encoding="utf-8"))) == []


def test_most_files_are_short():
    lengths = [length(path) for path in modules()]
    assert median(lengths) <= 120
    assert quantiles(lengths, n=10)[-1] <= 250


def test_a_long_function_is_seen():
    assert list(long_functions("def f():\n" + "    x = 1\n" * FUNCTION_CAP)) == ["f: 61 lines"]
    assert list(long_functions("def f():\n" + "    x = 1\n" * (FUNCTION_CAP - 1))) == []
