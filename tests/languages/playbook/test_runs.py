"""Complete runs in a sandbox: a run stopped while a function waits leaves no processes and can be resumed."""

from __future__ import annotations

import json
import os
from pathlib import Path

from stackmem.languages.running.prepare import ProgramArguments, prepare_program
from stackmem.languages.running.run import run_program
from stackmem.run.opened import Person
from stackmem.run.replays.replay import replay_run
from stackmem.run.resume import resume

TEXT = """# A
```python
@playbook
def f(n: int):
    open("made.txt", "a").write("x")
    return Ask("how many?")
```
## P
### Steps
- 01:QUE f(2)
- 02:YLD call
- 03:RET
## Ask($q)
### Steps
- 01:YLD user
- 02:RET
"""
REPLIES = (
    '`Step["P:01"]` `$r = f(2)`\n`Step["P:02"]` yld call',
    '`Step["Ask:01"]` `Say($q)`\nyld user',
    '`Var[$n, 7]`\n`Step["Ask:02"]` `Return[$n]`',
    '`Step["P:03"]` `Return[$r]`',
)


def test_a_run_that_stops_while_a_function_waits_is_resumed(tmp_path: Path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "main.pb").write_text(TEXT, "utf-8")
    script = tmp_path / "script.yaml"
    script.write_text(json.dumps({"replies": [{"text": text} for text in REPLIES]}), "utf-8")
    flags = {"runs_dir": str(tmp_path / "runs"), "sandbox_dir": str(tmp_path / "work"), "model": f"script:{script}"}
    ready = prepare_program(ProgramArguments(str(tmp_path / "here" / "main.pb")), flags, os.environ, tmp_path)
    stopped = run_program(ready, dict(os.environ), Person(lambda _: None))
    assert (stopped.run.outcome, stopped.said) == ("input_needed", ("how many?",))
    folder = Path(stopped.run.run_dir)
    assert "made.txt" in os.listdir(stopped.run.workspace)
    again = resume(folder, {}, dict(os.environ), person=Person(lambda _: "seven"))
    assert (again.outcome, again.result.result) == ("finished", "7")
    assert replay_run(folder) is not None
