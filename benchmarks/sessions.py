"""Lay out public sessions of Claude Code, Codex and Gemini CLI for ``stackmem evidence``.

Run: python benchmarks/sessions.py CLONES -o RECORDINGS

``sessions.tsv`` lists the sessions, one per line: agent, repository, commit, path, Git's name of the content, and the
session's name. Some projects store the sessions of their developers with the tool Entire, on a branch
``entire/checkpoints/v1`` or on refs below ``refs/entire/checkpoints``. Others keep the folder of an agent in their
default branch. A session that was stored several times is listed once, with its longest text.

CLONES contains each repository as ``OWNER/NAME``, made by ``git clone --mirror``, which fetches all refs. The script
downloads nothing. Sessions that a clone lacks are counted. RECORDINGS gets one folder per agent. The sessions are not
part of this project.

Make the list again with ``--scan``: it searches the refs of all clones. Only files that the clones contain are listed.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

LIST = Path(__file__).with_name("sessions.tsv")
_CHECKPOINTS, _CHECKPOINT = "entire/checkpoints", "/full.jsonl"
_KEPT = re.compile(
    r".*(\.gemini/tmp/.*/chats/session-[^/]*\.jsonl?|rollout-[^/]*\.jsonl|claude[^/]*projects/([^/]+/)?[0-9a-f-]{36}\.jsonl)"
)
"""A session in the folder of an agent."""
_FIRST_LINES = 60  # a session names itself in one of its first lines


class Listed(NamedTuple):
    agent: str
    repository: str
    commit: str
    path: str
    blob: str
    session: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("clones", type=Path)
    parser.add_argument("-o", dest="out", type=Path)
    parser.add_argument("--list", type=Path, default=LIST, help="another list than sessions.tsv")
    parser.add_argument("--scan", action="store_true", help="write the list from the refs of all clones")
    arguments = parser.parse_args()
    if arguments.scan:
        listed = scan(arguments.clones)
        arguments.list.write_text("".join("\t".join(one) + "\n" for one in listed))
        print(f"{arguments.list}: {len(listed)} sessions, {dict(Counter(one.agent for one in listed))}")
    if arguments.out:
        listed = [Listed(*line.split("\t")) for line in arguments.list.read_text().splitlines()]
        for text in lay_out(listed, arguments.clones, arguments.out):
            print(text)


def lay_out(listed: list[Listed], clones: Path, out: Path) -> Iterator[str]:
    """Write the listed sessions. Yields a line with the counts of each repository."""
    for repository in sorted({one.repository for one in listed}):
        ours = [one for one in listed if one.repository == repository]
        if not (clones / repository).is_dir():
            yield f"{repository}: left out, missing clone of {len(ours)} sessions in {clones}"
            continue
        counted = Counter[str]()
        contents = blobs(clones / repository, (one.blob for one in ours))
        for one, content in zip(ours, contents, strict=True):
            counted["absent" if content is None else one.agent] += 1
            if content is not None:
                file = out / one.agent / repository.replace("/", "+") / f"{one.session}{_suffix(one.agent)}"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
        yield f"{repository}: " + ", ".join(f"{count} {what}" for what, count in sorted(counted.items()))


def _suffix(agent: str) -> str:
    return ".json" if agent == "gemini-cli" else ".jsonl"


def scan(clones: Path) -> list[Listed]:
    """Return the longest text of each session that the clones contain, from every ref with checkpoints."""
    found: dict[tuple[str, str], tuple[int, Listed]] = {}
    for clone in sorted(path.parent for path in clones.glob("*/*/HEAD")):
        repository = clone.relative_to(clones).as_posix()
        places = dict[str, tuple[str, str]]()
        refs = _git(clone, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        for name, commit in [ref.split() for ref in refs] + [["HEAD", _git(clone, "rev-parse", "HEAD").strip()]]:
            if name != "HEAD" and _CHECKPOINTS not in name:
                continue
            for line in _git(clone, "ls-tree", "-r", commit).splitlines():
                metadata, _, path = line.partition("\t")
                if _KEPT.fullmatch(path) if name == "HEAD" else path.endswith(_CHECKPOINT):
                    places.setdefault(metadata.split()[2], (commit, path))
        for blob, content in zip(places, blobs(clone, places), strict=True):
            agent, session = told_by(content or b"")
            old = found.get((agent, session))
            if agent and session.replace("-", "").isalnum() and (old is None or old[0] < len(content or b"")):
                found[agent, session] = len(content or b""), Listed(agent, repository, *places[blob], blob, session)
    return sorted(listed for _, listed in found.values())


def told_by(content: bytes) -> tuple[str, str]:
    """Return the agent and the session that a file names, or empty strings."""
    for line in content.split(b"\n", _FIRST_LINES)[:_FIRST_LINES]:
        try:
            shown: Any = json.loads(line)
        except ValueError:
            continue
        if not isinstance(shown, dict):
            continue
        if shown.get("type") == "session_meta":
            return "codex", str(shown["payload"].get("id", ""))
        if shown.get("sessionId") and "messages" not in shown:
            return "gemini-cli" if "projectHash" in shown else "claude-code", str(shown["sessionId"])
    try:
        shown = json.loads(content)
    except ValueError:
        return "", ""
    chat = isinstance(shown, dict) and "projectHash" in shown
    return ("gemini-cli", str(shown["sessionId"])) if chat and shown.get("sessionId") else ("", "")


def blobs(clone: Path, names: Iterable[str]) -> Iterator[bytes | None]:
    """Yield the content of each object, or None if the clone lacks it."""
    git = ["git", f"--git-dir={clone}", "cat-file", "--batch"]
    with subprocess.Popen(git, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for name in names:
            process.stdin.write(name.encode() + b"\n")
            process.stdin.flush()
            header = process.stdout.readline().split()
            yield None if header[1] == b"missing" else process.stdout.read(int(header[2]) + 1)[:-1]


def _git(clone: Path, *arguments: str) -> str:
    return subprocess.run(["git", f"--git-dir={clone}", *arguments], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
