"""Measure whether a real model sees and obeys two standing rules in a short conversation.

    python benchmarks/standing_rules_real.py --model llamacpp/NAME --base-url URL [--requests 12] [--seconds 1100]

A simulated user states two rules, then asks for one small file per request. The files tell whether the model obeyed,
and the recorded prompts tell whether it could: each must contain both rules. With ``--tiny`` a script is the model.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._folder import own_folder
from benchmarks.standing_rules import shown
from stackmem.core.facts import ModelReplied
from stackmem.core.person_facts import PersonSteppedIn, PersonStopped, SessionRules
from stackmem.core.requests import AskModel
from stackmem.run.ending import apply_run
from stackmem.run.ports import Left
from stackmem.run.prepare import prepare
from stackmem.run.solve import solve
from stackmem.trace.open_run import Run
from stackmem.trace.walk import RecordWalk

FOLDER, FIRST_LINE = "out", "owner: kestrel"
RULES = (
    f"Write every new file into the folder {FOLDER}/, never anywhere else.",
    f"The first line of every file is `{FIRST_LINE}`.",
)
WORDS = ["apple", "bridge", "candle", "dragon", "engine", "forest", "garden", "harbor", "island", "jacket"]


class User:
    """States the rules and asks for the files, then leaves."""

    def __init__(self, requests: int) -> None:
        self.requests = [f"# {rule}" for rule in RULES]
        self.requests += [f"Make the file {name}.txt with the word {word}." for name, word in files(requests)]
        self.run_dir = Path()

    def attend(self, run_dir: Path) -> None:
        self.run_dir = run_dir

    def request(self) -> str:
        if not self.requests:
            raise Left
        return self.requests.pop(0)

    def answer(self, _: Any) -> str | None:
        return "Do as you think best."

    def decide(self, _: Any) -> Any:
        raise Left

    def poll_user(self) -> PersonSteppedIn | PersonStopped | None:
        return None


def files(requests: int) -> list[tuple[str, str]]:
    return [(f"file{number}", WORDS[number % len(WORDS)]) for number in range(1, requests + 1)]


def script(folder: Path, requests: int) -> str:
    """Write a script that obeys both rules, except the second in the last request."""
    replies: list[dict[str, Any]] = []
    for number, (name, word) in enumerate(files(requests), 1):
        content = f"{FIRST_LINE}\n{word}\n" if number < requests else f"{word}\n"
        call = {"call": "write_file", "args": {"path": f"{FOLDER}/{name}.txt", "content": content}}
        replies += [call, {"text": "Done."}]
    path = folder / "script.yaml"
    path.write_text(json.dumps({"replies": replies}), encoding="utf-8")
    return f"script:{path}"


def prompts(run_dir: Path) -> tuple[int, int]:
    """Return the number of prompts, and how many of them contain both rules."""
    run = Run(run_dir)
    walk = RecordWalk(run.records())
    asked = [step.effect for step in walk if isinstance(step.effect, AskModel)]
    texts = [shown(each.view) for each in asked]
    return len(texts), sum(all(rule in text for rule in RULES) for text in texts)


def tokens(run_dir: Path) -> list[int]:
    """Return the tokens of all prompts, those read from the cache, and those written."""
    usages = [record.event.usage for record in Run(run_dir).records() if isinstance(record.event, ModelReplied)]
    return [
        sum(usage.prompt for usage in usages), sum(usage.cache_read or 0 for usage in usages),
        sum(usage.output or 0 for usage in usages),
    ]  # fmt: skip


def obeyed(folder: Path, requests: int) -> list[tuple[bool, bool, bool]]:
    """Return for each file whether it exists, is in the right folder, and begins with the right line."""
    found = []
    for name, word in files(requests):
        paths = [path for path in folder.rglob(f"{name}*") if path.is_file()]
        right = [path for path in paths if path.parent == folder / FOLDER]
        texts = [path.read_text(errors="replace") for path in right or paths]
        found.append((
            any(word in text for text in texts), bool(paths) and right == paths,
            any(text.splitlines()[:1] == [FIRST_LINE] for text in texts),
        ))  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model")
    parser.add_argument("--base-url")
    parser.add_argument("--strategy", default="adaptive")
    parser.add_argument("--requests", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=1_100.0)
    parser.add_argument("-o", "--output", type=Path, help="folder for the run")
    parser.add_argument("--tiny", action="store_true", help="three requests by script, for CI")
    given = parser.parse_args()
    requests = 3 if given.tiny else given.requests
    with own_folder() as scratch:
        place = Path(tempfile.mkdtemp(prefix="standing-rules-", dir=given.output or scratch))
        folder = place / "mine"
        folder.mkdir()
        (folder / "notes.txt").write_text("A folder for small files.\n")
        flags = {
            "model": script(place, requests) if given.tiny else given.model, "strategy": given.strategy,
            "runs_dir": str(place / "runs"), "sandbox_dir": str(place / "work"), "network": "none", "fsync": "none",
            "max_seconds": given.seconds, **({"base_url": given.base_url} if given.base_url else {}),
        }  # fmt: skip
        user = User(requests)
        result = solve(
            prepare(str(folder), None, flags, os.environ, Path.cwd(), SessionRules(words="kept")), os.environ,
            person=user,
        )  # fmt: skip
        asked, complete = prompts(user.run_dir)
        read, cached, written = tokens(user.run_dir)
        apply_run(user.run_dir)
        found = obeyed(folder, requests)
        done = requests - len(user.requests)
        print(f"{done} of {requests} requests, ending {result.ending}, {result.steps} replies")
        print(f"both rules are in {complete} of {asked} prompts")
        for number, text in enumerate(("exist with their word", f"are in {FOLDER}/", "begin with the line")):
            print(f"{sum(each[number] for each in found[:done])} of {done} files {text}")
        print(f"{read:,} tokens of prompts, {cached:,} of them cached, {written:,} written")


if __name__ == "__main__":
    main()
