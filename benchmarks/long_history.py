"""Measure what a long history costs a run: python benchmarks/long_history.py [--commits 70000] [--rounds 3]

Creates a repository with ``git fast-import``. Each round measures the time from ``solve`` to the answer of the first
command, once with ``--git none`` and once with the history, each without a cached pack. The rest is measured in the
last round: the time until a command sees the whole history, and the processor time of packing it next to that of
``git pack-objects`` for the same objects, both in the way git does it by default, with reused deltas.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks._folder import own_folder
from stackmem.core.facts import Event, ToolReturned
from stackmem.core.state import State
from stackmem.history.inner_packs import InnerGit, pack, read_packed
from stackmem.history.origin import find_origin
from stackmem.run.prepare import prepare
from stackmem.run.solve import solve
from stackmem.workspace.isolation.levels import cache_folder
from stackmem.workspace.python import build_toolchain
from stackmem.workspace.secrets import Scrubber

FILES, LINES, WORDS = 3_000, 120, "alpha beta gamma delta value return import count total index result class define"
LOOK = "git log --oneline | wc -l"


def stream(commits: int) -> Iterator[bytes]:
    """Yield a repository for ``git fast-import``: each commit adds or changes two files."""
    chance, files, words = random.Random(commits), dict[str, list[str]](), WORDS.split()

    def line() -> str:
        return " ".join(chance.choices(words, k=8))

    names: list[str] = []
    for number in range(commits):
        yield b"commit refs/heads/main\ncommitter A <a@example.org> %d +0000\n" % (1_500_000_000 + number * 60)
        yield b"data 13\ncommit %06d\n" % number
        for _ in range(2):
            if not names or (len(names) < FILES and chance.random() < 0.2):
                names.append(f"d{chance.randrange(40)}/s{chance.randrange(8)}/f{len(names)}.py")
                files[names[-1]] = [line() for _ in range(chance.randrange(10, LINES))]
            name = chance.choice(names)
            files[name][chance.randrange(len(files[name]))] = line()
            for each in {name, names[-1]}:
                content = ("\n".join(files[each]) + "\n").encode()
                yield b"M 100644 inline %s\ndata %d\n%s\n" % (each.encode(), len(content), content)


def make_repository(place: Path, commits: int) -> Path:
    subprocess.run(["git", "init", "-q", "-b", "main", place], check=True)
    with subprocess.Popen(["git", "fast-import", "--quiet"], cwd=place, stdin=subprocess.PIPE) as importing:
        assert importing.stdin is not None
        importing.stdin.writelines(stream(commits))
    subprocess.run(["git", "reset", "-q", "--hard"], cwd=place, check=True)
    return place


def play(folder: Path, place: Path, git: str, looks: int) -> tuple[list[float], list[str]]:
    """Return the seconds from ``solve`` to the answer of each command, and the answers."""
    script = place / "script.yaml"
    calls = f'  - call: run_command\n    args: {{command: "{LOOK}"}}\n'
    calls += '  - call: run_command\n    args: {command: "sleep 1"}\n' * (looks > 1)
    script.write_text(f"replies:\n{calls * looks}  - call: pop_frame\n    args: {{result: done}}\n")
    flags = {"model": f"script:{script}", "runs_dir": place / "runs", "sandbox_dir": place / "sandbox", "git": git}
    shutil.rmtree(Path(os.environ["XDG_STATE_HOME"]) / "stackmem" / "packs", ignore_errors=True)
    found, texts = list[float](), list[str]()

    def observe(event: Event, _: State) -> None:
        if isinstance(event, ToolReturned):
            found.append(round(time.perf_counter() - begun, 2))
            texts.append(event.text)

    begun = time.perf_counter()
    solve(prepare(str(folder), "Look.", {**flags, "max_steps": looks * 2 + 2}, {}, folder), {}, observe)
    return found, texts


def processor_seconds(work: Callable[[], object]) -> float:
    before = sum(os.times()[:4])
    work()
    return round(sum(os.times()[:4]) - before, 2)


def packing(folder: Path, place: Path) -> dict[str, float]:
    """Measure packing in processor seconds."""
    listed = subprocess.run(
        ["git", "rev-list", "--objects", "HEAD"], cwd=folder, check=True, capture_output=True, text=True
    )
    names = [line.split()[0] for line in listed.stdout.splitlines()]
    objects = "\n".join(names).encode()
    command = ["git", "pack-objects", "-q", str(place / "git")]

    def by_git() -> None:
        subprocess.run(command, cwd=folder, input=objects, check=True, capture_output=True)

    inner = InnerGit(find_origin(folder), place / "inner")
    (inner.path / "objects" / "pack").mkdir(parents=True)
    (inner.path / "refs").mkdir()
    (inner.path / "HEAD").write_text("ref: refs/heads/main\n")
    return {
        "objects": len(names),
        "git_pack_objects_s": processor_seconds(by_git),
        "pack_s": processor_seconds(lambda: pack(inner, names)),
        "check_and_search_s": processor_seconds(lambda: read_packed(inner, names, Scrubber({}).held_in)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=70_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--waits", type=int, default=60, help="commands, one a second, that look for the whole history")
    options = parser.parse_args()
    with own_folder() as place:
        build_toolchain(cache_folder())
        folder = make_repository(place / "origin", options.commits)
        first: dict[str, list[float]] = {"none": [], "read": []}
        play(folder, place, "none", 1)
        for _ in range(options.rounds):
            for git, figures in first.items():
                figures.append(play(folder, place, git, 1)[0][0])
        times, texts = play(folder, place, "read", options.waits)
        late = (pair for pair in zip(times, texts, strict=True) if pair[1][:1].isdigit() and "(git:" not in pair[1])
        whole_s, text = next(late, (0.0, "0"))
        whole = {"whole_history_s": whole_s, "commits": int(text.split()[0])}
        none, read = (statistics.median(figures) for figures in first.values())
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        figures = {"first_command_s": first, "beyond_none_s": round(read - none, 2), "peak_mib": peak, **whole}
        print(json.dumps(figures | packing(folder, place), indent=1))


if __name__ == "__main__":
    main()
