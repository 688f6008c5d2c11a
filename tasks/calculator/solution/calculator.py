"""Arithmetic expressions: + - * / with precedence, unary signs, parentheses."""

import re

_TOKEN = re.compile(r"[ \t\r\n]*(?:(?P<number>[0-9]+\.?[0-9]*|\.[0-9]+)|(?P<sign>[-+*/()]))")
_SPACE = " \t\r\n"


def evaluate(expression: str) -> float:
    """The value of an expression; ValueError where it is malformed, ZeroDivisionError where it divides by zero."""
    if not isinstance(expression, str):
        raise ValueError(f"an expression is a str, not {type(expression).__name__}")
    return _value(_Parser(_tokens(expression)).parse())


def _tokens(expression):
    text = expression.rstrip(_SPACE)
    found, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"unexpected {text[position]!r} at position {position}")
        number = match.group("number")
        if number is not None:
            if found and isinstance(found[-1], float):
                raise ValueError(f"an operator is missing before {number!r}")
            found.append(float(number))
        else:
            found.append(match.group("sign"))
        position = match.end()
    return found


class _Parser:
    """Recursive descent into a tree, so that a malformed end is seen before anything is divided."""

    def __init__(self, tokens):
        self.tokens = tokens
        self.position = 0

    def parse(self):
        tree = self.sum()
        if self.position != len(self.tokens):
            raise ValueError(f"unexpected {self.tokens[self.position]!r}")
        return tree

    def peek(self):
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def take(self):
        token = self.peek()
        self.position += 1
        return token

    def sum(self):
        tree = self.product()
        while self.peek() in ("+", "-"):
            tree = (self.take(), tree, self.product())
        return tree

    def product(self):
        tree = self.factor()
        while self.peek() in ("*", "/"):
            tree = (self.take(), tree, self.factor())
        return tree

    def factor(self):
        negative = False
        while self.peek() in ("+", "-"):
            negative ^= self.take() == "-"
        token = self.take()
        if token == "(":
            tree = self.sum()
            if self.take() != ")":
                raise ValueError("a parenthesis is not closed")
        elif isinstance(token, float):
            tree = token
        else:
            raise ValueError(f"a number is missing before {token!r}" if token else "the expression ends too early")
        return ("-", 0.0, tree) if negative else tree


def _value(tree):
    """Without recursion on the left, where long sums grow."""
    pending = []
    while isinstance(tree, tuple):
        sign, left, right = tree
        pending.append((sign, right))
        tree = left
    result = tree
    while pending:
        sign, right = pending.pop()
        other = _value(right)
        if sign == "+":
            result += other
        elif sign == "-":
            result -= other
        elif sign == "*":
            result *= other
        else:
            result /= other
    return result
