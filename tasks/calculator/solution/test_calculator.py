import pytest

from calculator import evaluate


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2+3", 5),
        ("7-2-1", 4),
        ("8/4/2", 1),
        ("8/4*2", 4),
        ("2+3*4", 14),
        ("20-6/2", 17),
        ("(2+3)*4", 20),
        ("((7))", 7),
        ("2*(3+(4-1))", 12),
        ("-3", -3),
        ("--3", 3),
        ("+-3", -3),
        ("2*-3", -6),
        ("-2*-3", 6),
        ("-(1+2)", -3),
        ("-2+5", 3),
        ("3.5*2", 7),
        (".5+2.", 2.5),
        ("7/2", 3.5),
        (" 1 +\t2\n", 3),
    ],
)
def test_value(expression, value):
    result = evaluate(expression)
    assert result == pytest.approx(value)
    assert isinstance(result, float)


@pytest.mark.parametrize(
    "expression",
    ["", "  ", "1+", "*2", "1 2", "(1", "1)", "()", "1..2", ".", "1e3", "2**3", "a", "1,2", "1/0+", "(1)(2)", "\u0663"],
)
def test_malformed(expression):
    with pytest.raises(ValueError):
        evaluate(expression)


@pytest.mark.parametrize("expression", [None, 3, b"1"])
def test_not_a_text(expression):
    with pytest.raises(ValueError):
        evaluate(expression)


@pytest.mark.parametrize("expression", ["1/0", "1/(2-2)", "0/0", "3/-0", "1/0.0"])
def test_division_by_zero(expression):
    with pytest.raises(ZeroDivisionError):
        evaluate(expression)


def test_deep_parentheses():
    assert evaluate("(" * 200 + "1" + ")" * 200) == 1
