"""Compare the cost of a file tool at every step with its savings in recorded runs of an agent with a shell.

    python benchmarks/tools.py FOLDER

FOLDER contains trajectories of mini-swe-agent 1 (`*.traj.json`). Three things are counted: complete rewrites that an
edit could have replaced, scripts that replace a text, and search output beyond what `search_files` returns. All sizes
are characters. The bill is in characters of uncached input at the usual price ratios: output 5, a cache read 0.1, a
cache write 1.25. Whatever enters a prompt is read again at each later step.
"""

import argparse
import ast
import difflib
import json
import re
import sys
from collections import Counter
from pathlib import Path
from statistics import median

from stackmem.core.budgets import Budgets
from stackmem.core.tool_schemas import spec
from stackmem.core.tools import EditFile, ListFiles, ReadFile, RunCommand, SearchFiles, Tool, WriteFile

OUTPUT, READ, WRITE = 5.0, 0.1, 1.25
CALL = 120  # characters of a call around its texts: argument names, quotes
MATCHES, LINE = 100, 300  # limits of search_files
HEREDOC = re.compile(r"cat\s*(?:>\s*(\S+)\s*)?<<-?\s*['\"]?(\w+)['\"]?\s*(?:>\s*(\S+))?\s*\n(.*?)\n\2\b", re.S)
SEARCH = re.compile(r"(?:^|&&|\|\||;)\s*(?:grep|rg|git grep|egrep)\b")


def schema(tool: Tool) -> int:
    slots = {name: str(value) for name, value in vars_of(Budgets()).items()} | {"command_seconds": "30"}
    told = spec(tool, slots)
    return len(told.name) + len(told.description) + len(told.schema)


def vars_of(budgets: Budgets) -> dict[str, object]:
    return {name: getattr(budgets, name) for name in budgets.__struct_fields__}


def edit_size(old: str, new: str) -> int:
    """Return the characters of the edits between two texts, each with one line of context."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    total = 0
    for group in difflib.SequenceMatcher(a=before, b=after, autojunk=False).get_grouped_opcodes(1):
        (_, start, _, first, _), (*_, end, _, last) = group[0], group[-1]
        total += CALL + sum(map(len, before[start:end])) + sum(map(len, after[first:last]))
    return total


def replaced_texts(script: str) -> list[tuple[str, str]]:
    """Return the pairs of texts that a Python script passes to ``str.replace``."""
    try:
        tree = ast.parse(script)
    except (SyntaxError, ValueError):
        return []
    named = {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def text(node: ast.expr) -> str | None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        return named.get(node.id) if isinstance(node, ast.Name) else None

    pairs = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "replace":
            texts = [text(argument) for argument in node.args[:2]]
            if len(texts) == 2 and texts[0] is not None and texts[1] is not None and len(texts[0]) > 20:
                pairs.append((texts[0], texts[1]))
    return pairs


def measure(path: Path) -> dict[str, float]:
    messages = json.loads(path.read_text("utf-8"))["messages"]
    replies = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    steps, known, found = len(replies), {}, Counter[str]()
    for step, index in enumerate(replies):
        later = steps - step - 1
        command = "".join(re.findall(r"```bash\n(.*?)\n```", str(messages[index]["content"]), re.S))
        answer = str(messages[index + 1]["content"]) if index + 1 < len(messages) else ""
        for before, _, behind, body in HEREDOC.findall(command):
            name = before or behind
            if name in known:
                count(found, "rewrite", len(body) - edit_size(known[name], body), later, OUTPUT)
            known[name] = body
            if name and "open(" in body and "write" in body and (pairs := replaced_texts(body)):
                needed = sum(CALL + len(old) + len(new) for old, new in pairs)
                count(found, "script", len(command) - needed, later, OUTPUT)
        if SEARCH.search(command):
            lines = answer.splitlines()
            bounded = sum(min(len(line), LINE) + 1 for line in lines[:MATCHES])
            count(found, "search", len(answer) - bounded, later, WRITE)
    return {"steps": steps, **found}


def count(found: Counter[str], kind: str, saved: int, later: int, price: float) -> None:
    found[f"{kind} n"] += 1
    if saved > 0:
        found[f"{kind} saved"] += saved
        found[f"{kind} bill"] += round(saved * (price + READ * later))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    runs = [measure(path) for path in sorted(folder.rglob("*.traj.json"))]
    if not runs:
        sys.exit(f"{folder} has no recordings named *.traj.json")
    steps = [run["steps"] for run in runs]
    print(f"{len(runs)} runs, {sum(steps):,.0f} steps, median {median(steps):.0f}")
    present = sum(map(schema, (ReadFile, WriteFile, ListFiles, RunCommand)))
    print(f"schema, characters: the four {present}, edit_file {schema(EditFile)}, search_files {schema(SearchFiles)}")
    for tool, kinds in ((EditFile, ("rewrite", "script")), (SearchFiles, ("search",))):
        for kind in kinds:
            uses, saved = (sum(run.get(f"{kind} {word}", 0) for run in runs) for word in ("n", "saved"))
            print(f"{kind}: {uses:,.0f} uses, {saved:,.0f} characters saved")
        cost = [schema(tool) * (WRITE + READ * (run["steps"] - 1)) for run in runs]
        bill = [sum(run.get(f"{kind} bill", 0) for kind in kinds) for run in runs]
        pays = sum(won > lost for won, lost in zip(bill, cost, strict=True))
        print(
            f"{tool.__name__}: costs {sum(cost) / len(runs):,.0f} per run, saves {sum(bill) / len(runs):,.0f} per run "
            f"(median {median(bill):,.0f}); it pays in {pays} of {len(runs)} runs"
        )


if __name__ == "__main__":
    main()
