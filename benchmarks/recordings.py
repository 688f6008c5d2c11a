"""Lays out public recordings of coding agents for ``stackmem evidence``; none of them is part of this project.

Run: python benchmarks/recordings.py CLONES -o RECORDINGS

CLONES holds each repository below as ``OWNER/NAME``, made by ``git clone --mirror``: two of the sources stand in no
default branch, so all refs are needed. Files are read from the commit that is named here, so the same command gives
the same bytes later. A file that the clone lists and does not hold, and
one that stands there twice, is counted and skipped.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Source:
    """Recordings of one folder of one commit.

    Attributes:
        pattern: Of the paths; the group ``task`` names the file that is written, and ``trial`` tells trials apart.
        folder: Where they go: the model before an ``@``; without one, the recordings name theirs.
        license: As the repository states it; without one, fetch the files and do not pass them on.
    """

    repository: str
    commit: str
    pattern: str
    folder: str
    license: str


def _java(run: str, model: str) -> Source:
    return Source(
        "multi-swe-bench/experiments",
        "89888f1604001fcd80b0799a37af42a1bfebfd8f",
        rf"evaluation/java/verified/20240825_SWE-agent_{re.escape(run)}/trajs/(?P<task>[^/]+\.traj)",
        f"{model}@multi-swe-bench-java",
        "none",
    )


SOURCES = (
    Source(
        "gruckion/mini-swe-agent",
        "d12a71affd95403b036b2bdbd827349b77bfffb9",
        r"swebench_results/20251118_gemini-3-pro-74pct/trajs/[^/]+/(?P<task>[^/]+\.traj\.json)",
        "gemini-3-pro-preview@swe-bench-verified",
        "MIT",
    ),
    Source(
        "UKGovernmentBEIS/inspect_ai",
        "2b9870e5fc0e",
        r"benchmarks/swe_bench/resources/tests/20240620_sweagent_claude3\.5sonnet/trajs/(?P<task>[^/]+\.traj)",
        "claude-3-5-sonnet-20240620@swe-bench-verified",
        "MIT",
    ),
    _java("deepseek-chat-v2", "deepseek-chat-v2"),
    _java("deepseek-coder-v2", "deepseek-coder-v2"),
    _java("doubao-pro-128k", "doubao-pro-128k"),
    _java("gpt-4o-2024-05-13", "gpt-4o"),
    _java("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
    Source(
        "SWE-agent/mini-swe-agent",
        "e5e0fbca1c60",
        r"output/(?P<trial>[^/]+)/[^/]+/(?P<task>[^/]+\.traj\.json)",
        "swe-gym",
        "MIT",
    ),
    Source(
        "sierra-research/tau-bench",
        "59a200c6d575d595120f1cb70fea53cef0632f6b",
        r"historical_trajectories/(?P<task>gpt-4o-airline\.json)",
        "gpt-4o@tau-bench-airline",
        "MIT",
    ),
    Source(
        "OpenHands/OpenHands",
        "d6fab190bfb5",
        r"evaluation/benchmarks/multi_swe_bench/examples/(?P<task>output\.jsonl)",
        "llama-4-maverick@multi-swe-bench",
        "MIT",
    ),
    Source(
        "nunu0404/Python_OpenHands",
        "c80bab5aa35f",
        r"(?P<task>output\.jsonl)",
        "gpt-5@multi-swe-bench",
        "mixed",
    ),
    Source(
        "laude-institute/terminal-bench-leaderboard",
        "8e1925a397d7ed859c027cc19b3a3d90c16ef8df",
        r"results/[^/]+/20250825_swe-agent-mini_claude-4-sonnet/(?P<trial>[^/]+)/(?P<task>[^/]+)/[^/]+/sessions/agent\.log",
        "claude-sonnet-4@terminal-bench",
        "none",
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("clones", type=Path)
    parser.add_argument("-o", dest="out", type=Path, required=True)
    arguments = parser.parse_args()
    for source in SOURCES:
        counted = lay_out(source, arguments.clones / source.repository, arguments.out / source.folder)
        told = ", ".join(f"{count} {what}" for what, count in sorted(counted.items()))
        print(f"{source.folder}: {told} ({source.repository} {source.commit[:12]}, license {source.license})")


def lay_out(source: Source, clone: Path, folder: Path) -> Counter[str]:
    """Write the recordings of one source; how many were written, and how many the clone lacks."""
    git = ["git", f"--git-dir={clone}"]
    listed = subprocess.run([*git, "ls-tree", "-r", source.commit], check=True, capture_output=True, text=True).stdout
    counted, seen = Counter[str](), set[str]()
    pattern = re.compile(source.pattern)
    for line in listed.splitlines():
        blob, _, path = line.partition("\t")
        found = pattern.fullmatch(path)
        if found is None:
            continue
        name = blob.split()[2]
        if name in seen:
            counted["twice"] += 1
            continue
        seen.add(name)
        content = subprocess.run([*git, "cat-file", "blob", name], check=False, capture_output=True)
        if content.returncode:
            counted["absent"] += 1
            continue
        ending = "" if found["task"].endswith((".json", ".jsonl", ".traj")) else Path(path).suffix
        file = folder.joinpath(*filter(None, (found.groupdict().get("trial"), found["task"] + ending)))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.stdout)
        counted["written"] += 1
    return counted


if __name__ == "__main__":
    main()
