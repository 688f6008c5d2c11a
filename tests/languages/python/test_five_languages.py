"""One program that uses all five languages, called in a conversation, killed at random moments and resumed."""

from __future__ import annotations

import os
import random
import re
import signal
from pathlib import Path

import pytest

from stackmem.core.facts import ClockRead, RunEnded, RunResumed
from stackmem.core.program_facts import ProgramCalled, ToolAnswered
from stackmem.run.opened import Person
from stackmem.run.resume import resume
from stackmem.settings.mcp_servers import trust
from stackmem.settings.program_trust import read_programs
from tests.run.people import Scripted, replayed, talk
from tests.stage import Stage, call, events, pop

PROGRAMS = {
    "all.step.py": '''
"""Double a number in five languages."""
import random
import stackmem


@stackmem.step
def double_each(n: int) -> dict:
    """Call a program of each language."""
    found = {}
    for name in ("a.apl", "s.sexp", "p.pb", "l.agent.yaml"):
        found[name] = stackmem.run_program(f"../parts/{name}", {"n": n})
        stackmem.shell(f"echo {name} >> log.txt")
    return found


@stackmem.step
def main(n: int) -> dict:
    """Double a number in five languages."""
    luck = random.random()
    found = double_each(n)
    stackmem.keep("found", str(found))
    lines = stackmem.shell("sort log.txt").stdout.split()
    return {"found": found, "same": luck == random.Random(0).random() or bool(luck), "log": lines,
            "said": stackmem.ask("Is that right?")}
''',
    "parts/a.apl": """
inputs: [{name: n, description: A number.}]
main:
- {name: Write, tool: shell, command: "echo apl >> log.txt; echo {{ n * 2 }}", register: twice}
- {name: Call, tool: run_program, path: t.step.py, inputs: {n: "{{ n | int }}"}, register: tripled}
""",
    "parts/s.sexp": '(task-content (shell (command "echo sexp >> log.txt")))\n(list n (* n 2))',
    "parts/p.pb": "# A\nsays\n## Main($n) -> int\n### Triggers\n- T1:BGN\n### Steps\n- 01:RET twice $n\n",
    "parts/l.agent.yaml": "name: kid\nprompt: Double n.\npayload: {n: 0}\n",
    "parts/t.step.py": "import stackmem\n\n@stackmem.step\ndef main(n: int) -> int:\n"
    "    stackmem.shell('echo t.step.py >> log.txt')\n    return 3 * n\n",
}  # fmt: skip
REPLIES = [
    call("run_program", path="all", inputs={"n": 21}),
    {"text": '`Step["Main:01:RET"]` `Return[42]`\nyld return'},
    {"text": '{"taskComplete": true, "payloadChangeRequest": {"newElements": {"twice": 42}}}'},
    {"text": "Yes."},
    pop("All doubled."),
]
CHAT = """
import os, signal, sys
from pathlib import Path
from tests.run.people import Scripted, talk
from types import SimpleNamespace
left, root = int(sys.argv[2]), Path(sys.argv[1])
stage = SimpleNamespace(root=root, runs=Path(sys.argv[4]), work=Path(sys.argv[5]))
def observe(event, state):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
talk(stage, Scripted("Double 21."), sys.argv[3], observe=observe, strategy="stackheap")
"""


@pytest.fixture
def trusted(stage: Stage) -> Path:
    folder = stage.root / "mine"
    for name, text in PROGRAMS.items():
        path = folder / ".stackmem/programs" / name if "/" not in name else folder / ".stackmem" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    found = read_programs(folder)
    assert found is not None
    trust(found, os.environ)
    return folder


def story(folder: Path) -> list[str]:
    """Return the kinds of the events, with what the run decided. Without interruptions and the clock."""
    place = events(folder)[0].workspace
    return [
        re.sub(r"'seed': '\w+'|'clock': [\d.]+|tree='\w*'|prompt_digest='\w*'", "?", repr(event)).replace(place, "W")
        for event in events(folder)[1:]
        if not isinstance(event, RunResumed | ClockRead)
        and not (isinstance(event, RunEnded) and event.ending == "interrupted")
    ]


def test_a_conversation_runs_a_program_of_five_languages(stage: Stage, trusted: Path) -> None:
    result = talk(stage, Scripted("Double 21."), stage.script(*REPLIES), strategy="stackheap")
    (called,) = events(result.run_dir, ProgramCalled)
    assert called.start.inputs == {"n": 21}
    assert check(Path(result.run_dir))
    replayed(result)


def check(folder: Path) -> bool:
    """Return whether the program returned the value that it has to return."""
    ends = [each.value for each in events(folder, ToolAnswered) if isinstance(each.value, dict)]
    (value,) = [
        each["arguments"]["value"] for each in ends if each.get("call") == "returned" and "all." in each["file"]
    ]
    assert value["found"] == {
        "a.apl": {"twice": {"stdout": "42", "stderr": "", "exit_code": 0}, "tripled": 63}, "s.sexp": [21, 42],
        "p.pb": 42, "l.agent.yaml": {"n": 21, "twice": 42},
    }  # fmt: skip
    assert value["log"] == ["a.apl", "apl", "l.agent.yaml", "p.pb", "s.sexp", "sexp", "t.step.py"]
    assert value["said"] == "Yes."
    return True


def killed_and_resumed(stage: Stage, after: int, whole: list[str]) -> bool:
    """Kill the conversation after an event and resume it. Returns False if it ended before."""
    before = set(stage.runs.iterdir()) if stage.runs.is_dir() else set()
    ran = stage.python(CHAT, stage.root, after, stage.script(*REPLIES), stage.runs, stage.work)
    assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
    (folder,) = set(stage.runs.iterdir()) - before
    if ran.returncode == 0:
        return False
    done = resume(folder, {}, os.environ, person=Person(port=Scripted())).result
    assert done is not None
    assert check(folder)
    assert story(folder) == whole
    replayed(done)
    return True


def random_kills(stage: Stage, many: int, seed: int) -> int:
    result = talk(stage, Scripted("Double 21."), stage.script(*REPLIES), strategy="stackheap")
    whole, last = story(Path(result.run_dir)), len(events(result.run_dir))
    source = random.Random(seed)
    return sum(killed_and_resumed(stage, source.randrange(4, last - 2), whole) for _ in range(many))


def test_a_killed_conversation_continues_inside_the_five_languages(stage: Stage, trusted: Path) -> None:
    assert random_kills(stage, 2, seed=5) == 2


@pytest.mark.campaign
@pytest.mark.timeout(1_800)
def test_fifty_kills(stage: Stage, trusted: Path) -> None:
    assert random_kills(stage, 50, seed=50) == 50
