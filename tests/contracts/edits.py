"""Apply the code blocks of docs/extending.md to a copy of the package, as a reader would."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

from tests.stage import ROOT

PAGE = ROOT / "docs" / "extending.md"
_PLACE = re.compile(r"^# ([\w/]+\.py)(?:: (in|before) ([\w.]+))?$")


class Edit:
    """Lines that a block adds to one file: a new file, or before or in the definition of a name."""

    def __init__(self, path: str, where: str, name: str) -> None:
        self.path, self.where, self.name = path, where, name
        self.lines: list[str] = []

    def apply(self, package: Path) -> None:
        file = package / self.path
        if not self.where:
            assert not file.exists(), f"{self.path} exists"
            file.parent.mkdir(exist_ok=True)
            file.write_text("\n".join(self.lines), "utf-8")
            return
        imports = [line for line in self.lines if line.startswith(("from ", "import "))]
        code = "\n".join(line for line in self.lines if line not in imports).rstrip()
        text = _inserted(file.read_text("utf-8"), self.where, self.name, code)
        first = "from __future__ import annotations\n"
        assert first in text, self.path
        file.write_text(text.replace(first, "\n".join((first, *imports, "")), 1), "utf-8")


def copied_package(folder: Path) -> Path:
    """Copy the package with its bytecode, so that its modules are not compiled again."""
    return Path(shutil.copytree(ROOT / "stackmem", folder / "stackmem"))


def additions() -> dict[str, list[Edit]]:
    """Return the edits of each addition by its heading."""
    section = PAGE.read_text("utf-8").split("\n## Complete additions\n")[1].split("\n## ")[0]
    return {part.partition("\n")[0]: _edits(part) for part in section.split("\n### ")[1:]}


def _edits(part: str) -> list[Edit]:
    found: list[Edit] = []
    for line in part.split("```text\n")[1].split("```", maxsplit=1)[0].splitlines():
        if place := _PLACE.match(line):
            found.append(Edit(place[1], place[2] or "", place[3] or ""))
        else:
            found[-1].lines.append(line)
    return found


def _inserted(text: str, where: str, name: str, code: str) -> str:
    body: list[ast.stmt] = ast.parse(text).body
    for part in name.split("."):
        (node,) = [each for each in body if _name(each) == part]
        body = getattr(node, "body", [])
    lines = text.splitlines(keepends=True)
    if where == "before":
        return "".join((*lines[: node.lineno - 1], code, "\n\n\n", *lines[node.lineno - 1 :]))
    at = _end_of(node)
    if at is None:  # a union
        assert isinstance(node, ast.Assign)
        line = lines[(node.value.end_lineno or 0) - 1]
        column = node.value.end_col_offset or 0
        lines[(node.value.end_lineno or 0) - 1] = f"{line[:column]} {code}{line[column:]}"
        return "".join(lines)
    return "".join((*lines[:at], code, "\n", *lines[at:]))


def _name(node: ast.stmt) -> str:
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    return target.id if isinstance(target, ast.Name) else str(getattr(node, "name", ""))


def _end_of(node: ast.stmt) -> int | None:
    """Return after how many lines of the file the code belongs."""
    match node:
        case ast.ClassDef():
            return max(each.end_lineno or 0 for each in node.body if isinstance(each, ast.AnnAssign))
        case ast.FunctionDef():
            (first, *_) = [each for each in ast.walk(node) if isinstance(each, ast.Match)]
            return first.lineno
        case ast.Assign(value=ast.BinOp()):
            return None
        case _:
            return (node.end_lineno or 0) - 1
