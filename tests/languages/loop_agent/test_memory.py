"""Memory used by loop results: in a separate process, in a complete run, and after resuming."""

import gc
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from stackmem.core.program_facts import ToolAnswered

from .seam import Clocked
from .stage import AGENT as AGENT_ON_THE_SEAM
from .stage import done, for_each

MIB = 1024
"""in kibibytes, the unit in which the system reports memory"""
CHILD = '''\
import json, os, resource, sys
from pathlib import Path

from stackmem.core.program_facts import PhaseEnded
from stackmem.settings.tools.own_tools import tool
from stackmem.languages.running.prepare import ProgramArguments, prepare_program
from stackmem.run.opened import Person
from stackmem.languages.running.run import run_program

root, count, chars = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])


@tool(parallel=True)
def fetch_page(n: int) -> str:
    """Fetch a page."""
    if n % 100 == 7:
        raise ValueError(f"no page {n}")
    return f"{n} " + "x" * chars


held = []


def tell(happened, state):
    if any(isinstance(happening, PhaseEnded) for happening in happened):
        held.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


flags = {"model": f"script:{root / 'script.yaml'}", "runs_dir": str(root / "runs"), "sandbox_dir": str(root / "work")}
asked = ProgramArguments(str(root / "here"), inputs={"items": list(range(count))}, interactive=False)
ready = prepare_program(asked, flags, dict(os.environ), root)
result = run_program(ready, dict(os.environ), Person(lambda _: None, tell))
held.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
print(json.dumps({"outcome": result.run.outcome, "steps": result.run.steps, "held": max(held)}))
'''
AGENT = """\
name: big
prompt: Fetch all.
actions: [{name: Fetch, tool: fetch_page, parallel: true}]
payload: {items: []}
"""


def held(count: int, chars: int, root: Path) -> int:
    """Return the peak memory of a run in kibibytes, including its end and its patch."""
    loop = {"collectionPath": "items", "maxIterations": count, "executionMode": "parallel", "maxConcurrency": 16,
            "continueOnError": True, "action": {"name": "Fetch", "params": {"n": "item"}}}  # fmt: skip
    replies = [{"nextStep": {"type": "ForEach", "forEach": loop}}, {"taskComplete": True}]
    (root / "here").mkdir(parents=True)
    (root / "here" / "main.agent.yaml").write_text(AGENT, encoding="utf-8")
    script = {"replies": [{"text": json.dumps(each)} for each in replies]}
    (root / "script.yaml").write_text(json.dumps(script), encoding="utf-8")
    (root / "child.py").write_text(CHILD, encoding="utf-8")
    command = [sys.executable, str(root / "child.py"), str(root), str(count), str(chars)]
    found = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    assert (found["outcome"], found["steps"]) == ("finished", 2)
    (place,) = (root / "work").glob("*/*/.stackmem/loop")
    files = [place / "1.jsonl", *(place / f"1.{number}.jsonl" for number in range(2, len(list(place.iterdir())) + 1))]
    rows = [json.loads(row) for file in files for row in file.open(encoding="utf-8")]
    assert [(row["index"], row["ok"]) for row in rows] == [(n, n % 100 != 7) for n in range(count)]
    assert all(row["value"] == f"{row['index']} " + "x" * chars for row in rows if row["ok"])
    return int(found["held"])


def test_eight_times_the_results_take_no_more_memory(tmp_path):
    few, many = held(60, 100_000, tmp_path / "few"), held(480, 100_000, tmp_path / "many")
    assert many - few < 20 * MIB, "40 MiB more of results passed through"


def test_a_program_that_is_taken_up_lets_the_recorded_answers_go_once_it_goes_on_live():
    loop = for_each(
        collectionPath=f"static:{list(range(40))}", action={"name": "fetch", "params": {"path": "{{item}}.txt"}}
    )  # fmt: skip
    agent = AGENT_ON_THE_SEAM.replace("tool: fetch,", "tool: read_file,").replace("tool: poll", "tool: shell")
    played = Clocked(agent, loop, done(), tool=None)
    played.tool = ToolAnswered("")
    tracemalloc.start()
    try:
        while len(played.events) < 30:
            played.tool = ToolAnswered(f"{len(played.events)} " + "x" * 1_000_000)
            played.play(len(played.events) + 1)
        played.stopped_and_resumed()
        before = tracemalloc.get_traced_memory()[0]
        played.events = played.events[:3]
        assert played.program is not None
        played.program.listen(lambda *_: None)
        gc.collect()
        freed = before - tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert freed > 20_000_000
    assert played.play().state.outcome == "finished"


@pytest.mark.campaign
def test_ten_thousand_results_of_ten_thousand_characters_take_no_more_memory_than_a_hundred(tmp_path):
    few, many = held(100, 10_000, tmp_path / "few"), held(10_000, 10_000, tmp_path / "many")
    assert many - few < 40 * MIB, "94 MiB more of results passed through"
