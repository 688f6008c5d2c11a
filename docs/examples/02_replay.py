"""Verify a run against the rules, then walk through its events.

``replay`` reads the trace alone: no model is asked, no command runs.
"""

import tempfile
from collections import Counter
from pathlib import Path

import stackmem
from stackmem.core.facts import ModelReplied

with tempfile.TemporaryDirectory() as folder:
    result = stackmem.solve(
        "tasks/calculator", model="demo", runs_dir=Path(folder, "runs"), sandbox_dir=Path(folder, "work")
    )

    # Every recorded fact is compared with what the rules derive, every prompt with its recorded digest.
    found = stackmem.replay(result.run_dir)
    print(f"{found.events} events hold, {found.prompts} prompts are equal, outcome {found.outcome}")

    # A record is an event with its place and time; the reader checks the chain of digests as it goes.
    records = list(stackmem.TraceReader(Path(result.run_dir, "trace.jsonl")))
    for kind, count in Counter(type(record.event).__name__ for record in records).most_common():
        print(f"{count:>4} {kind}")

    # Any figure of a run is a fold over its events: here the tokens of its replies.
    tokens = sum(record.event.usage.total for record in records if isinstance(record.event, ModelReplied))
    state = stackmem.fold(record.event for record in records)
    print(f"{tokens:,} tokens, {len(state.popped)} frames popped, {len(state.heap.chunks)} chunks left on the heap")

if found.prompts != result.steps or tokens != state.usage.total:
    raise SystemExit("the replay tells another story than the run")
