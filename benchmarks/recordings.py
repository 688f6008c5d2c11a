"""Lay out public recordings of coding agents for ``stackmem evidence``. They are not part of this project.

Run: python benchmarks/recordings.py CLONES -o RECORDINGS [--formats]

``--formats`` lays out another set, with a few recordings of each public format and tool, to test ``stackmem import``.

CLONES contains each repository below as ``OWNER/NAME``, made by ``git clone --mirror``. All refs are needed, because
two of the sources are not in a default branch. Files are read from the commits given here, so the same command gives
the same bytes later. Files that are missing from the clone and duplicates are counted and skipped.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast


@dataclass(frozen=True)
class Source:
    """Recordings in one folder of one commit.

    Attributes:
        pattern: Of the paths. The group ``task`` is the name of the written file, and ``trial`` distinguishes trials.
        folder: The target: the model before an ``@``; without one, the recordings name their model.
        license: As stated by the repository. Without one, fetch the files, but do not redistribute them.
        most: Maximum number of recordings, in the order of their paths; 0 means all.
        tools: Pattern of the Python files whose ``get_info`` returns the description of a tool for the agent.
    """

    repository: str
    commit: str
    pattern: str
    folder: str
    license: str
    most: int = 0
    tools: str = ""


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
        tools=r"tau_bench/envs/airline/tools/(?!__)[^/]+\.py",
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


def _some(repository: str, commit: str, pattern: str, terms: str = "none", most: int = 0) -> Source:
    """Return a source that keeps whole paths, in a folder named after the repository."""
    folder = repository.replace("/", "+")
    return Source(repository, commit, f"(?P<task>{pattern})", folder, terms, most)


_FIGMA = "metaphi-agent/figma-eval-{}-gemini_cli"
_LOGS = r"results/[^/]+/{}/.*/sessions/agent\.log"
_BOARD = ("laude-institute/terminal-bench-leaderboard", "8e1925a397d7ed859c027cc19b3a3d90c16ef8df")
_POLYLOGUE = ("Sinity/polylogue", "d250e578bf7353519f667a96fafd7ea7d43f8e0b")
_INSPECT = ("UKGovernmentBEIS/inspect_ai", "499e6152e7b8fc8cbd8ac5283536572aa6e4ab17")
FORMATS = (
    _some("SWE-agent/SWE-agent", "3ea751c087f32b16e039a2233dd6eefecef325d5", r".*\.traj", "MIT"),
    *(
        _some("multi-swe-bench/experiments", "89888f1604001fcd80b0799a37af42a1bfebfd8f",
              rf"evaluation/java/verified/20240825_SWE-agent_{run}/trajs/.*\.traj", most=2)
        for run in ("deepseek-chat-v2", "deepseek-coder-v2", "doubao-pro-128k", "gpt-4o-2024-05-13",
                    "gpt-4o-mini-2024-07-18")
    ),
    _some("UKGovernmentBEIS/inspect_ai", "2b9870e5fc0eac7b32e5d897dd7e4745b263bff8",
          r"benchmarks/swe_bench/resources/tests/20240620_sweagent_claude3\.5sonnet/trajs/.*\.traj", "MIT", 3),
    _some(*_INSPECT, r"tests/(log/test_(eval_log|list_logs)|scorer/logs|analysis/test_logs_choices)/[^/]*\.(eval|json)",
          "MIT"),
    _some("gruckion/mini-swe-agent", "d12a71affd95403b036b2bdbd827349b77bfffb9", r"swebench_results/.*\.traj\.json",
          "MIT", 4),
    _some("SWE-agent/mini-swe-agent", "a83fcae82d2a08f0ee0c688f9d137b3566c097f8", r".*\.traj\.json", "MIT"),
    _some("SWE-agent/mini-swe-agent", "e5e0fbca1c60561bde25fa473b78717aa4b3f9ec", r"output/.*\.traj\.json", "MIT", 4),
    _some("sierra-research/tau-bench", "59a200c6d575d595120f1cb70fea53cef0632f6b",
          r"historical_trajectories/gpt-4o-airline\.json", "MIT"),
    _some("OpenHands/OpenHands", "d6fab190bfb55f07cc380993b45ec4f781706a92",
          r"(evaluation/benchmarks/multi_swe_bench/examples|tests/unit/resolver/mock_output)/output\.jsonl", "MIT"),
    _some("nunu0404/Python_OpenHands", "c80bab5aa35f16a396e3d8d2a4e1185d4d8ca42b", r"output\.jsonl", "mixed"),
    _some("OpenHands/software-agent-sdk", "611629e6999ad398dc49c761721eefe18d5e6bd9",
          r"tests/sdk/conversation/goal/fixtures/events\.jsonl", "MIT"),
    _some("dfinson/traceforge", "0bd934c54beb949e31a70429f36570c1327b665a",
          r"tests/fixtures/(claude_session|claude_code_permessage|malformed|raw_traces/(claude|codex|openhands|sweagent|opencode|"
          r"copilot)/.*)\.jsonl", "MIT"),
    _some("DRMacIver/claude-reliability", "4e49f16a86de76d9b0dc3ea2b8526677abe89f52", r".*/transcript\.jsonl"),
    _some("daaain/claude-code-log", "a641071a154f041b96e9b83ccd42d2f92eaa321a", r"test/test_data/.*\.jsonl", "MIT"),
    _some("ryoppippi/ccusage", "5816e640e8824986f33427203da164b01394a161", r"apps/ccusage/test/.*\.jsonl", "MIT"),
    _some("simonw/claude-code-transcripts", "cad133d9132a6255d8e948acfdaf5c8273bbff5f", r"tests/sample_session\.jsonl?",
          "Apache-2.0"),
    _some("simonw/claude-code-transcripts", "fed5203aad48676b4ab1d7b9511da6a0e27d7107",
          r"tests/sample_codex_session\.jsonl", "Apache-2.0"),
    _some("vertexcover-io/claude-sessions", "e858a96b89e64999bc1ae7ac8899c5e0af78d1d3", r".*__fixtures__/.*\.jsonl"),
    _some(*_POLYLOGUE, r"tests/(data/codex_event_stream|fixtures/claude-code)/.*\.jsonl", "MIT"),
    _some(*_POLYLOGUE, r"tests/fixtures/origin-capability/(claude-code|codex|gemini-cli)-session.*", "MIT"),
    _some("cmungall/agentic-trace-analyzer", "f8f6857db6e2ea68dfd4f81dee7be78199052ba1", r"tests/fixtures/.*\.jsonl?"),
    _some("steeef/claude-code-tools", "af5faa23ee7d6f7c10a61c8b5f7ab1f127a0a175", r"tests/fixtures/.*\.jsonl", "MIT"),
    _some("fmagent-project/trace-viewer", "adf5aed085c2197228ebe4c971c91962302db899", r"tests/fixtures/codex.*\.jsonl"),
    _some("opaopa6969/claude-session-replay", "d91a841322919681bd75165fed2643b735c6cd67",
          r"tests/fixtures/claude_session\.jsonl"),
    _some("nihen/ah", "8094a3aface196a516ecefa8633800a33c666244", r"tests/fixtures/(claude|codex|gemini).*", "MIT"),
    _some("steipete/CodexBar", "27c7f334e3c46c96ff8c063afbe0c7944ba5e0b7", r".*codex-home/.*\.jsonl", "MIT"),
    _some("ywzhang1031/agent-trajectory-vault", "02924782a0c1512f7ae320aee308be3f82c92702",
          r"tests/fixtures/codex/rollout\.jsonl", "MIT"),
    _some(_FIGMA.format("010ac575-1280-41fe-be26-130311bef5ed"), "621398026d9337ec4435c8678f6343453e89a4dd",
          r"(transcript\.jsonl|\.gemini/tmp/.*/chats/.*\.json)"),
    _some(_FIGMA.format("49bdd49a-5831-4dca-ad1b-a66b7b9901fa"), "7de3eb486b95dada09c30c3b0db24d7eca037f0a",
          r"transcript\.jsonl"),
    _some("google-gemini/gemini-cli", "19b9e3e8e4a89f85bc23836a9f35e0769b7fc63b", r"trajectory\.json", "Apache-2.0"),
    _some(*_BOARD, _LOGS.format("20250825_swe-agent-mini_claude-4-sonnet"), most=6),
    _some(*_BOARD, _LOGS.format("20250711_openhands_claude-4-sonnet"), most=1),
    _some(*_BOARD, _LOGS.format("20250902_orchestrator_claude-4-sonnet"), most=1),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("clones", type=Path)
    parser.add_argument("-o", dest="out", type=Path, required=True)
    parser.add_argument("--formats", action="store_true", help="lay out the set for testing import")
    arguments = parser.parse_args()
    for source in FORMATS if arguments.formats else SOURCES:
        if not (arguments.clones / source.repository).is_dir():
            print(f"{source.folder}: left out, missing clone of {source.repository} in {arguments.clones}")
            continue
        counted = lay_out(source, arguments.clones / source.repository, arguments.out / source.folder)
        told = ", ".join(f"{count} {what}" for what, count in sorted(counted.items()))
        print(f"{source.folder}: {told} ({source.repository} {source.commit[:12]}, license {source.license})")


def lay_out(source: Source, clone: Path, folder: Path) -> Counter[str]:
    """Write the recordings of one source. Returns counts of written, duplicate and missing files."""
    git = ["git", f"--git-dir={clone}"]
    listed = subprocess.run([*git, "ls-tree", "-r", source.commit], check=True, capture_output=True, text=True).stdout
    counted, seen = Counter[str](), set[str]()
    pattern = re.compile(source.pattern)
    tools: list[object] = []
    for line in listed.splitlines():
        blob, _, path = line.partition("\t")
        found, name = pattern.fullmatch(path), blob.split()[2]
        if source.tools and re.fullmatch(source.tools, path):
            tools += infos(subprocess.run([*git, "cat-file", "blob", name], check=True, capture_output=True).stdout)
        if found is None:
            continue
        if name in seen:
            counted["twice"] += 1
            continue
        seen.add(name)
        content = subprocess.run([*git, "cat-file", "blob", name], check=False, capture_output=True)
        if content.returncode:
            counted["absent"] += 1
            continue
        ending = "" if path.endswith(found["task"]) else Path(path).suffix
        file = folder.joinpath(*filter(None, (found.groupdict().get("trial"), found["task"] + ending)))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.stdout)
        counted["written"] += 1
        if counted["written"] == source.most:
            break
    if tools:
        (folder / "tools.json").write_text(json.dumps(tools, indent=1) + "\n")
        counted["tools"] = len(tools)
    return counted


def infos(source: bytes) -> Iterator[object]:
    """Yield the literals that functions named ``get_info`` return, without executing code."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name == "get_info":
            returned = next(one for one in ast.walk(node) if isinstance(one, ast.Return))
            yield ast.literal_eval(cast("ast.expr", returned.value))


if __name__ == "__main__":
    main()
