"""Python programs for the tests, and ways to run them."""

import json
import random
import re
import signal
from pathlib import Path
from typing import Any

from stackmem.core.facts import ClockRead, RunEnded, RunResumed
from tests.stage import Stage, events

ALL = '''
"""Uses every kind of effect."""
import datetime, os, random, time, uuid
import stackmem


@stackmem.step
def look(topic: str) -> str:
    """Ask the model about a topic."""
    return stackmem.ask(f"About {topic}.", name="look")


@stackmem.step
def main(topic: str, most: int = 2) -> dict:
    """Look at a topic."""
    print("begins with", topic)
    stackmem.write_file("out/topic.txt", topic)
    ran = stackmem.shell("cat out/topic.txt; echo more >> out/log.txt; exit 3")
    said = [look(f"{topic} {number}") for number in range(most)]
    who = stackmem.ask_user("Who?", ["Ann", "Bob"])
    stackmem.keep("note", said[0], "what was said")
    both = stackmem.ask_all(["One?", "Two?"], name="both")
    try:
        stackmem.read_file("missing.txt")
    except stackmem.EffectFailed as failed:
        kind = failed.kind
    random_ones = [random.random(), random.Random().random(), os.urandom(4).hex(), str(uuid.uuid4())]
    times = [time.time(), time.monotonic(), datetime.datetime.now().isoformat(), str(datetime.date.today())]
    stackmem.shell(f"echo '{random_ones}' {hash('text')} {list({'a', 'b', 'c'})} > out/random.txt")
    return {
        "said": said, "who": who, "code": ran.exit_code, "kind": kind, "both": both, "random": random_ones,
        "times": times, "heap": stackmem.recall("note"), "chunks": stackmem.chunks(),
        "files": stackmem.list_files("out"),
        "log": stackmem.read_file("out/log.txt"), "sets": list({"x", "y", "z", "w"}),
    }
'''
REPLIES = "replies: [{text: first}, {text: second}, {text: third}, {text: fourth}, {text: fifth}, {text: sixth}]\n"

RUN = """
import os, signal, sys
from pathlib import Path
from stackmem.languages.running.prepare import ProgramArguments, prepare_program
from stackmem.run.opened import Person
from stackmem.languages.running.run import run_program
left, said = int(sys.argv[2]), iter(["Ann"] * 50)
def observe(event, state):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
import json
from types import SimpleNamespace
from stackmem.languages.running import python_process
if len(sys.argv) > 5:
    python_process.os = SimpleNamespace(urandom=bytes)
asked = ProgramArguments(sys.argv[1], inputs=json.loads(sys.argv[3]))
ready = prepare_program(asked, {"model": sys.argv[4]}, os.environ, Path.cwd())
run_program(ready, os.environ, Person(lambda question: next(said), observe=observe))
"""


def program(stage: Stage, text: str, name: str = "main.step.py", replies: str = REPLIES) -> Path:
    """Write a program and the script of its model."""
    folder = stage.root / "program"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    (stage.root / "play.yaml").write_text(replies, encoding="utf-8")
    return folder / name


def run(
    stage: Stage, text: str, *more: str, replies: str = REPLIES, name: str = "main.step.py"
) -> tuple[dict[str, Any], str]:
    """Run a program. Returns its result and what was printed."""
    path = program(stage, text, name, replies)
    model = f"script:{stage.root / 'play.yaml'}"
    ran = stage.call("run", str(path), "--model", model, "--json", *more)
    assert ran.stdout.strip(), ran.stderr
    return json.loads(ran.stdout), ran.stderr


def killed(stage: Stage, path: Path, after: int, inputs: dict[str, Any], *more: str) -> Path:
    """Return the run that was killed right after that many events, unless it ended before.

    With one more word, its random numbers have a fixed seed.
    """
    before = set(stage.runs.iterdir()) if stage.runs.is_dir() else set()
    ran = stage.python(RUN, path, after, json.dumps(inputs), f"script:{stage.root}/play.yaml", *more)
    assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
    (folder,) = set(stage.runs.iterdir()) - before
    return folder


def story(folder: Path) -> list[str]:
    """Return the events of a run without interruptions and readings of the clock."""
    return [
        repr(event)
        for event in events(folder)
        if not isinstance(event, RunResumed | ClockRead)
        and not (isinstance(event, RunEnded) and event.ending == "interrupted")
    ]


def same_shape(one: list[str], other: list[str]) -> bool:
    """Return whether two runs had the same events, apart from random numbers, times and digests."""

    def shape(text: str) -> str:
        return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32,}|\d+\.\d+|\d{10}|T\d\d:\d\d:\d\d[.\d]*", "?", text)

    return [shape(each) for each in one[1:]] == [shape(each) for each in other[1:]]


def moments(many: int, seed: int, last: int) -> list[int]:
    return sorted(random.Random(seed).sample(range(2, last), many))
