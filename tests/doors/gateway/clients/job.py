"""A scripted job of 13 steps for agents with tools, and one that continues it after a resume.

The main strand reads in parallel, edits, starts a blocking and a background sub-agent, and is compacted by its client
after a reply that reports a full window. Each request is assigned to its strand by the words of its task, so that many
agents can work at the same time.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from stackmem.core.messages import Text
from stackmem.doors.gateway.wires.wire import ForeignRequest, WireFormat
from tests.doors.gateway.clients.provider import ASKS, SHELLS, SUMMARY, ScriptedProvider, filled, named
from tests.doors.gateway.clients.spelling import Call, Reply

BEGIN = "JOB {job} MAIN: work on the seven parts as planned, then say that all is done."
RESUME = "JOB {job} RESUME: check the parts once more."
_BLOCK = "JOB {job} BLOCK: list the folder and report what it contains."
_BACK = "JOB {job} BACK: count slowly and report the last number."
DONE = "All is done: 7 parts."
TITLE = '{"title"'
"""How the answer to a request for a title or a commit message begins."""
_FULL = 190_000
"""Tokens read from the cache that make clients believe that their window is almost full."""
_STRAND = re.compile(r"JOB (\w+) (MAIN|RESUME|BLOCK|BACK)\b")
_LOOKED_AT = 6
_READS = ("read", "read_file", "readfile")
_EDITS = ("edit", "replace")
_AGENTS = ("agent", "task", "spawn_agent", "invoke_agent")
_EXEC = "exec"
_BLOCKS = "SEARCH/REPLACE"
_COMPACTS = re.compile(
    r"create a detailed summary|CONTEXT CHECKPOINT COMPACTION|state_snapshot|anchored summary|detailed prompt for"
    r"|Briefly. summarize|summarize (this|the) (partial )?conversation"
)

Step = tuple[tuple[str, ...], ...]
"""The calls of a step: each a kind and its words."""
MAIN: tuple[Step, ...] = (
    (("read", "1"), ("read", "2"), ("read", "3")),
    (("edit", "2"),),
    (("agent", "BLOCK"),),
    (("wait", "BLOCK"),),
    (("agent", "BACK"),),
    (("run", "seq 1 400"),),
    (("edit", "3"), ("run", "seq 2 402")),
    (("run", "seq 3 403"),),
    (("read", "5"), ("read", "6")),
    (("edit", "5"),),
    (("run", "sleep 2; seq 4 404"),),
    (("wait", "BACK"),),
    (("run", "wc -l part_1.txt"),),
)
"""An agent without sub-agents, or without a tool to wait for them, runs a command in those steps."""
FULL_AFTER = "seq 3 403"
AGAIN: tuple[Step, ...] = ((("read", "4"), ("read", "7")), (("edit", "7"),), (("run", "wc -l part_7.txt"),))
BLOCK: tuple[Step, ...] = ((("run", "ls"),),)
BACK: tuple[Step, ...] = ((("run", "sleep 0.5; seq 5 105"),), (("run", "seq 6 106"),), (("run", "seq 7 107"),))
_SCRIPTS = {"MAIN": MAIN, "RESUME": AGAIN, "BLOCK": BLOCK, "BACK": BACK}


class JobState(Struct):
    """What one job has done."""

    steps: dict[str, int] = field(default_factory=dict)  # strand to its finished steps
    resumed: bool = False
    failed: bool = False
    agents: list[str] = field(default_factory=list)  # ids that an agent gave to its sub-agents
    full: bool = False  # the last reply of the main strand reports a full window


class JobProvider(ScriptedProvider):
    """Answers the requests of any number of jobs.

    Attributes:
        asked: For each job and strand, its requests; ``compacted`` counts compactions by clients.
    """

    def __init__(self, root: Path, last: Reply | None = None) -> None:
        """Prepare for jobs that work in the folders ``root/JOB``."""
        super().__init__(last or Reply(DONE))
        self._root = root
        self.jobs: dict[str, JobState] = {}
        self.asked: dict[tuple[str, str], int] = {}
        self.compacted = self.titles = 0

    def _strand(self, asked: ForeignRequest) -> tuple[str, str] | None:
        """Return the job and the strand of a request, by its first words."""
        texts = [part.text for one in asked.messages for part in one.parts if isinstance(part, Text)]
        found = [match for text in texts[:_LOOKED_AT] for match in _STRAND.findall(text)]
        found = found or [match for text in texts for match in _STRAND.findall(text)]
        works = asked.tools or _BLOCKS in asked.system
        if not found and works and len(self.jobs) == 1:  # a strategy omitted the task or the client's summary
            found = [(next(iter(self.jobs)), "MAIN")]
        if not found:
            return None
        job, strand = next((one for one in found if one[1] in ("MAIN", "RESUME")), found[0])
        state = self.jobs.setdefault(job, JobState())
        if strand in ("MAIN", "RESUME"):
            state.resumed = state.resumed or any(
                one == (job, "RESUME") for text in texts for one in _STRAND.findall(text)
            )
            strand = "RESUME" if state.resumed else "MAIN"
        return job, strand

    def _fails_now(self, asked: ForeignRequest, body: bytes) -> bool:
        strand = self._strand(asked)
        state = self.jobs.get(strand[0]) if strand else None
        if strand is None or state is None or state.failed or ASKS in body:
            return False
        state.failed = state.steps.get("MAIN", 0) == 3
        return state.failed

    def _usage(self, wire: WireFormat, asked: ForeignRequest, body: bytes) -> tuple[int, int, int]:
        rest, read, written = super()._usage(wire, asked, body)
        return rest, read + (_FULL if self._is_full(asked, body) else 0), written

    def _is_full(self, asked: ForeignRequest, body: bytes) -> bool:
        strand = self._strand(asked)
        if strand is None or strand[1] != "MAIN" or ASKS in body or _compacts(asked):
            return False
        place = self.jobs[strand[0]].steps.get("MAIN", 0)
        return MAIN[place : place + 1] == ((("run", FULL_AFTER),),)

    def _reply(self, asked: ForeignRequest, body: bytes) -> Reply:
        strand = self._strand(asked)
        if ASKS in body:
            return Reply(SUMMARY)
        if _compacts(asked):
            self.compacted += 1
            job = strand[0] if strand else "?"
            words = BEGIN.format(job=job) + " So far four parts were read and two were changed. " * 3
            return Reply(f"<analysis>All is known.</analysis>\n<summary>{words}</summary>")
        edits = not asked.tools and _BLOCKS in asked.system
        if strand is None or asked.wants_json or not (asked.tools or edits):
            self.titles += 1
            return Reply(f'{TITLE}: "Parts", "isNewTopic": true}}')
        self.asked[strand] = self.asked.get(strand, 0) + 1
        state, steps = self.jobs[strand[0]], _SCRIPTS[strand[1]]
        state.agents += [one for one in re.findall(r'agent_id\\*"\s*:\s*\\*"([0-9a-f-]{20,})', body.decode())
                         if one not in state.agents]  # fmt: skip
        place = state.steps.get(strand[1], 0)
        state.steps[strand[1]] = place + 1
        if place >= len(steps):
            return self._last(asked, strand)
        if edits:
            spoken = "\n".join(_in_text(*one) for one in steps[place])
            return Reply(f"{strand[1].capitalize()}, step {place + 1}.\n{spoken}")
        calls = tuple(self._called(asked, strand[0], *one) for one in steps[place])
        if any(one.name == _EXEC for one in calls):
            calls = (Call(_EXEC, _javascript([str(one.arguments) for one in calls])),)
        spaces = namespaces_of(body)
        calls = tuple(replace(one, namespace=spaces.get(one.name, "")) for one in calls)
        return Reply(f"{strand[1].capitalize()}, step {place + 1}.", calls)

    def _last(self, asked: ForeignRequest, strand: tuple[str, str]) -> Reply:
        if strand[1] in ("MAIN", "RESUME"):
            return self.last
        report = f"{strand[1].capitalize()} of {strand[0]} is finished."
        ends = named(asked, ("complete_task",))
        return Reply(report, (Call(ends.name, {"result": {"response": report}}),) if ends else ())

    def _called(self, asked: ForeignRequest, job: str, kind: str, words: str) -> Call:
        state, part = self.jobs[job], str(self._root / job / f"part_{words}.txt")
        if kind == "read" and (tool := named(asked, _READS)):
            return Call(tool.name, filled(tool, {"file_path": part, "filePath": part, "absolute_path": part}))
        old, new = f"part {words} line 1", f"part {words} changed"
        if kind == "edit" and (tool := named(asked, _EDITS)):
            given = {"file_path": part, "filePath": part, "instruction": "Change the first line.",
                     "old_string": old, "new_string": new, "oldString": old, "newString": new}  # fmt: skip
            return Call(tool.name, filled(tool, given))
        if kind == "agent" and (tool := named(asked, _AGENTS)):
            prompt = (_BLOCK if words == "BLOCK" else _BACK).format(job=job)
            kinds = "general" if tool.name == "task" else "general-purpose"
            given = {"prompt": prompt, "message": prompt, "description": f"{words} strand", "subagent_type": kinds,
                     "agent_name": "generalist", "fork_turns": "none", "task_name": words.lower(),
                     "run_in_background": words == "BACK"}  # fmt: skip
            return Call(tool.name, filled(tool, given))
        if kind == "wait" and (tool := named(asked, ("wait_agent",))):
            given = {"targets": state.agents[-1:], "timeout_ms": 20_000}
            return Call(tool.name, filled(tool, given))
        command = {"read": f"cat {part}", "edit": f"sed -i '1s/line 1/changed/' {part}", "run": words}
        spelled = command.get(kind, f"echo {kind} {words}")
        shell = named(asked, SHELLS)
        if shell is not None:
            return Call(shell.name, filled(shell, {"command": spelled, "cmd": spelled, "description": "Counts."}))
        if kind == "edit":
            patch = f"*** Begin Patch\n*** Update File: {part}\n@@\n-{old}\n+{new}\n*** End Patch\n"
            return Call(_EXEC, f"tools.apply_patch({json.dumps(patch)})")
        return Call(_EXEC, f"tools.exec_command({json.dumps({'cmd': spelled})})")


def _in_text(kind: str, words: str) -> str:
    """Return a step as aider reads it: an edit as a block, other steps as words."""
    if kind != "edit":
        return f"I did {kind} {words}. " + "It is as expected. " * 40
    change = f"part {words} line 1\n=======\npart {words} changed"
    return f"part_{words}.txt\n```\n<<<<<<< SEARCH\n{change}\n>>>>>>> REPLACE\n```\n"


def _javascript(calls: list[str]) -> str:
    """Return a program of Codex's code mode that makes calls in parallel."""
    shows = "for (const one of given) text(typeof one === 'string' ? one : one.output ?? one);"
    return f"const given = await Promise.all([{', '.join(calls)}]);\n{shows}"


def namespaces_of(body: bytes) -> dict[str, str]:
    """Return the namespaces of a request's tools, which Codex sends in the body or in an item."""
    value = json.loads(body)
    items = value.get("input", ())
    lists = (value.get("tools") or (), *(one.get("tools") or () for one in items if isinstance(one, dict)))
    spaces = [space for one in lists for space in one if isinstance(space, dict) and space.get("type") == "namespace"]
    return {tool["name"]: space["name"] for space in spaces for tool in space["tools"]}


def begin(folder: Path, *, git: bool = False) -> None:
    """Write the seven parts that a job works on, committed to a new repository if it works with ``git``."""
    folder.mkdir(parents=True)
    for number in range(1, 8):
        lines = (f"part {number} line {line}\n" for line in range(1, number + 3))
        (folder / f"part_{number}.txt").write_text("".join(lines))
    if git:
        for words in (("init", "-q"), ("config", "user.name", "A"), ("config", "user.email", "a@example.org"),
                      ("add", "."), ("commit", "-q", "-m", "Begin")):  # fmt: skip
            subprocess.run(["git", *words], cwd=folder, check=True)


def _compacts(asked: ForeignRequest) -> bool:
    """Return whether a client asks for a summary of its conversation."""
    last = asked.messages[-1].parts if asked.messages else ()
    texts = [part.text for part in last if isinstance(part, Text)]
    return any(_COMPACTS.search(text) for text in (*texts, asked.system[:4_000]))
