"""Names say what a value is: the number of participles and adverbs among them can only fall."""

from pathlib import Path

from scripts.names import counts, definitions, limits


def test_no_name_becomes_more_frequent() -> None:
    """Choose a noun for the new value; ``python scripts/names.py --places NAME`` prints the lines."""
    allowed = limits()
    numbers = {name: by.total() for name, by in counts().items()}
    more = {name: f"{number}, allowed {allowed.get(name, 0)}" for name, number in numbers.items()
            if number > allowed.get(name, 0)}  # fmt: skip
    assert more == {}


def test_each_kind_of_definition_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "LEAST_TASKS = 1\n\n\nclass Row:\n    why: str = ''\n\n\ndef _found(told):\n"
        "    left, match = told\n    return [one for one in left], told.asked, Row(why='')\n"
    )
    assert sorted(definitions(path)) == [
        (1, "least_tasks"),
        (5, "why"),
        (8, "found"),
        (8, "told"),
        (9, "left"),
        (10, "one"),
    ]
