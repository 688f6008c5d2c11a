"""YAML 1.2 as a tree in which every node knows its position. Duplicate keys are kept.

Rule 1: invalid input raises a ``YamlError`` with line and column, never another exception.
Rule 2: an alias is expanded to a copy, and copies are counted, so a kilobyte of aliases cannot become a gigabyte.
Rule 3: tags are rejected. Dates and times stay texts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from stackmem.foreign.yaml_depth import bounded_scanner

from .bounds import LEVELS

if TYPE_CHECKING:
    from ruamel.yaml.error import StreamMark
    from ruamel.yaml.nodes import Node

MAX_ALIASED = 10_000
_MAX_MESSAGE = 200

_YAML = "tag:yaml.org,2002:"
_INTS = {"0x": 16, "0o": 8}
_TEMPLATE_HINT = 'a value that begins with "{{" needs quotes: "{{ name }}"'


class Place(Struct, frozen=True):
    """A position: line and column, both counted from 1."""

    line: int
    column: int


class Scalar(Struct, frozen=True):
    """A text, number, boolean or null. ``literal`` is its source text."""

    position: Place
    value: str | int | float | bool | None
    literal: str


class Items(Struct, frozen=True):
    position: Place
    items: tuple[Tree, ...]


class Table(Struct, frozen=True):
    """A mapping. Its pairs are in source order and include duplicate keys."""

    position: Place
    pairs: tuple[tuple[Scalar, Tree], ...]

    def get(self, key: str) -> Tree | None:
        """Return the value of the first pair with that key."""
        return next((value for name, value in self.pairs if name.value == key), None)


Tree = Scalar | Items | Table


class YamlError(Exception):
    """Text that is not YAML, or YAML that is rejected."""

    def __init__(self, position: Place, message: str) -> None:
        super().__init__(message)
        self.position = position
        self.message = message


def parse_yaml(text: str) -> Tree:
    """Parse the single document in ``text``. An empty document is a null scalar.

    Raise YamlError if the text is not YAML, or has several documents, a tag, a key that is not a plain scalar, or too
    many aliases.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.reader import ReaderError
    from ruamel.yaml.scanner import Scanner

    reader = YAML(typ="safe", pure=True)  # the round-trip reader would insert markers at the folds of a folded text
    reader.allow_duplicate_keys = True
    reader.Scanner = bounded_scanner(Scanner, LEVELS)
    reader.composer.warn_double_anchors = False  # YAML 1.2 allows redefining an anchor; the last definition wins
    try:
        node = reader.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = str(error.problem or error.context or "it cannot be parsed").strip().splitlines()[0]
        raise _fault(text, mark, problem) from error
    except ReaderError as error:
        at = error.position if isinstance(error.position, int) else 0
        position = Place(text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))
        raise YamlError(
            position, "a character that YAML does not allow; write it as an escape in double quotes"
        ) from error
    except RecursionError as error:
        raise YamlError(Place(1, 1), f"nested deeper than {LEVELS} levels") from error
    except (YAMLError, ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
        problem = (str(error).splitlines() or [type(error).__name__])[0]
        raise YamlError(Place(1, 1), problem) from error
    if node is None:
        return Scalar(Place(1, 1), None, "")
    return _Grower().grow(node, 0)


def plain(tree: Tree) -> Any:
    """Return the Python value. For a duplicate key the last value wins."""
    match tree:
        case Scalar():
            return tree.value
        case Items():
            return [plain(item) for item in tree.items]
        case Table():
            return {str(key.value): plain(value) for key, value in tree.pairs}


def duplicate_keys(table: Table) -> Iterator[Scalar]:
    """Yield every key that repeats an earlier one."""
    seen: set[str] = set()
    for key, _ in table.pairs:
        name = str(key.value)
        if name in seen:
            yield key
        seen.add(name)


def kind_of(tree: Tree) -> str:
    """Describe the kind of a value in terms familiar to YAML authors."""
    match tree:
        case Items():
            return "a list"
        case Table():
            return "a mapping"
        case Scalar(value=None):
            return "nothing"
        case Scalar(value=bool()):
            return "true or false"
        case Scalar(value=str()):
            return "a text"
        case Scalar():
            return "a number"


def line_of(text: str, position: Place) -> str:
    """Return the source line at a position, made printable and cut to 160 characters."""
    lines = text.splitlines()
    line = lines[position.line - 1] if 0 < position.line <= len(lines) else ""
    return "".join(char if char.isprintable() else " " for char in line[:160]).rstrip()


def _fault(text: str, mark: StreamMark | None, problem: str) -> YamlError:
    position = Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)
    if "'\\t'" in problem:
        return YamlError(position, "a tab; YAML is indented with spaces, so replace it by spaces")
    near = text.splitlines()[max(0, position.line - 2) : position.line]
    if any(_begins_with_template(line) for line in near):
        problem = f"{problem[:_MAX_MESSAGE]}; {_TEMPLATE_HINT}"
    return YamlError(position, problem[: 2 * _MAX_MESSAGE])


def _begins_with_template(line: str) -> bool:
    _, colon, value = line.partition(":")
    start = (value if colon else line).strip().removeprefix("- ").lstrip()
    return start.startswith("{{")


class _Grower:
    """Builds the tree and counts the values that aliases expand to."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._open: set[int] = set()
        self._aliased = 0

    def grow(self, node: Node, depth: int, *, copy: bool = False) -> Tree:
        position = Place(node.start_mark.line + 1, node.start_mark.column + 1)
        if depth > LEVELS:
            raise YamlError(position, f"nested deeper than {LEVELS} levels")
        if id(node) in self._open:
            raise YamlError(position, "an alias that holds itself")
        copy = copy or id(node) in self._seen
        self._aliased += copy
        if self._aliased > MAX_ALIASED:
            raise YamlError(position, f"aliases stand for more than {MAX_ALIASED:,} values")
        self._seen.add(id(node))
        self._open.add(id(node))
        try:
            return self._grown(node, position, depth, copy)
        finally:
            self._open.discard(id(node))

    def _grown(self, node: Node, position: Place, depth: int, copy: bool) -> Tree:
        from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

        tag = str(node.tag)
        if not tag.startswith(_YAML):
            raise YamlError(position, f"the tag {tag[:40]} is not taken; write the value plainly")
        match node:
            case ScalarNode():
                return Scalar(position, _value(tag.removeprefix(_YAML), str(node.value), position), str(node.value))
            case SequenceNode() if tag == f"{_YAML}seq":
                return Items(position, tuple(self.grow(item, depth + 1, copy=copy) for item in node.value))
            case MappingNode() if tag == f"{_YAML}map":
                pairs = tuple((self._key(key), self.grow(value, depth + 1, copy=copy)) for key, value in node.value)
                return Table(position, pairs)
        raise YamlError(position, f"the tag {tag[:40]} is not taken; write the value plainly")

    def _key(self, node: Node) -> Scalar:
        position = Place(node.start_mark.line + 1, node.start_mark.column + 1)
        from ruamel.yaml.nodes import MappingNode, ScalarNode

        if isinstance(node, MappingNode):
            raise YamlError(position, _TEMPLATE_HINT)
        if not isinstance(node, ScalarNode):
            raise YamlError(position, "a key is a text, not a list")
        literal = str(node.value)
        if literal == "<<" and node.style is None:
            raise YamlError(position, "merge keys (<<) are not taken; write the keys out")
        return Scalar(position, literal, literal)


def _value(kind: str, literal: str, position: Place) -> str | int | float | bool | None:
    match kind:
        case "str" | "timestamp" | "value" | "merge":
            return literal
        case "null":
            return None
        case "bool":
            return literal.lower() == "true"
        case "int":
            return _int(literal, position)
        case "float":
            number = float(literal.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
            if not math.isfinite(number):
                raise YamlError(position, f"{literal} is not a number that can be stored; put it in quotes")
            return number
    raise YamlError(position, f"the tag !!{kind[:40]} is not taken; write the value plainly")


def _int(literal: str, position: Place) -> int:
    digits = literal.replace("_", "").lower()
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    if len(digits) > 4_000:
        raise YamlError(position, "a number of more than 4,000 digits; put it in quotes")
    try:
        return sign * int(digits[2:] if digits[:2] in _INTS else digits, _INTS.get(digits[:2], 10))
    except ValueError:
        raise YamlError(position, f"{literal[:40]} is not a whole number; put it in quotes") from None
