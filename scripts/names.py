"""Count names that are participles or adverbs: ``python scripts/names.py [--places NAME | --public]``.

A reader cannot guess the type of a value that is named ``found``, ``told`` or ``why``; ``match``, ``text`` and
``reason`` say it. The script counts where such a name is defined: functions, parameters, fields and variables.
`tests/house/test_names.py` compares the numbers with `tests/house/names.txt`, which can only fall;
``--write`` rewrites that file after names were changed. ``--public`` lists those that other modules can use: fields,
attributes, functions and parameters without an underscore, in `doors`, `lab` and `languages`. The test allows none
of them, except for a list with reasons.
"""

from __future__ import annotations

import argparse
import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMITS = ROOT / "tests" / "house" / "names.txt"
# Not listed, because they are usual in Python: before and after, other and rest, seen, done, start and stop.
VAGUE = frozenset(
    """
    about above again along announced answered apart asked begun below beside brought chosen drawn found gained
    given gone heard held instead kept known left made meanwhile mine missed named one over place said same
    settled shown so_far spent spoken stated taken told unseen wanted what where which who whole why within
    """.split()  # noqa: SIM905
)
_VAGUE_PREFIXES = ("LEAST_", "MOST_")


def definitions(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each vague definition in a module; without leading and trailing underscores."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            name = node.name
        elif isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        else:
            continue
        if _is_vague(name):
            yield node.lineno, name.strip("_").lower()


def _is_vague(name: str) -> bool:
    bare = name.strip("_")
    return bare.lower() in VAGUE or bare.startswith(_VAGUE_PREFIXES)


def public_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each vague public definition: ``Class.field``, ``function`` or ``function(x)``."""
    yield from _public_in(tree.body, "")


def _public_in(body: list[ast.stmt], owner: str) -> Iterator[tuple[int, str]]:
    for node in body:
        if isinstance(node, (ast.AnnAssign, ast.Assign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (
                (node.lineno, owner + target.id)
                for target in targets
                if isinstance(target, ast.Name) and not target.id.startswith("_") and _is_vague(target.id)
            )
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _public_in(node.body, f"{node.name}.")
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _public_of(node, owner)


def _public_of(function: ast.FunctionDef | ast.AsyncFunctionDef, owner: str) -> Iterator[tuple[int, str]]:
    if owner:
        yield from (
            (each.lineno, owner + each.attr)
            for each in ast.walk(function)
            if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store) and _is_vague(each.attr)
            and not each.attr.startswith("_") and isinstance(each.value, ast.Name) and each.value.id == "self"
        )  # fmt: skip
    if function.name.startswith("_") and function.name != "__init__":
        return
    if _is_vague(function.name):
        yield function.lineno, owner + function.name
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    for argument in (*named, arguments.vararg, arguments.kwarg):
        if argument is not None and _is_vague(argument.arg):
            yield argument.lineno, f"{owner}{function.name}({argument.arg})"


def public() -> dict[str, str]:
    """Return where each vague public name of the neighbors is defined."""
    return {
        name: f"{path.relative_to(ROOT)}:{line}"
        for package in ("doors", "lab", "languages")
        for path in sorted((ROOT / "stackmem" / package).rglob("*.py"))
        for line, name in public_names(ast.parse(path.read_text("utf-8")))
    }


def counts() -> dict[str, Counter[str]]:
    """Return for each vague name how often each package of stackmem defines it."""
    each: dict[str, Counter[str]] = {}
    for path in sorted((ROOT / "stackmem").rglob("*.py")):
        package = path.relative_to(ROOT / "stackmem").parts[0]
        for _, name in definitions(path):
            each.setdefault(name, Counter())[package] += 1
    return each


def limits() -> dict[str, int]:
    """Return how often each name may be defined."""
    return {name: int(number) for name, number in map(str.split, LIMITS.read_text("utf-8").splitlines())}


def main() -> None:
    """Print the counts by frequency, the lines of one name, or write the limits."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--places", metavar="NAME", help="print each line that defines the name")
    parser.add_argument("--public", action="store_true", help="print each public name of doors, lab and languages")
    parser.add_argument("--write", action="store_true", help="write the counts as the new limits")
    chosen = parser.parse_args()
    if chosen.places:
        for path in sorted((ROOT / "stackmem").rglob("*.py")):
            for line, name in definitions(path):
                if name == chosen.places:
                    print(f"{path.relative_to(ROOT)}:{line}")
        return
    if chosen.public:
        for name, place in public().items():
            print(f"{place} {name}")
        return
    totals = sorted(counts().items(), key=lambda pair: (-pair[1].total(), pair[0]))
    if chosen.write:
        LIMITS.write_text("".join(f"{name} {by.total()}\n" for name, by in sorted(totals)), "utf-8")
    for name, by in totals:
        print(f"{by.total():5} {name:10} {', '.join(f'{package} {number}' for package, number in by.most_common(6))}")
    print(f"{sum(by.total() for _, by in totals):5} in all")


if __name__ == "__main__":
    main()
