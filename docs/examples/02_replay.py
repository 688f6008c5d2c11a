"""Verify a run against the rules, then go through its events.

``replay`` only reads the trace. It asks no model and runs no command.
"""

import tempfile
from collections import Counter
from pathlib import Path

import stackmem
from stackmem.core.facts import ModelReplied

with tempfile.TemporaryDirectory() as folder:
    result = stackmem.solve("calculator", model="demo", runs_dir=Path(folder, "runs"), sandbox_dir=Path(folder, "work"))

    # Compares every recorded fact with the one that the rules derive, and every prompt with its recorded digest.
    found = stackmem.replay(result.run_dir)
    print(f"{found.events} events verified, {found.prompts} prompts equal, outcome {found.outcome}")

    # A record is an event with its position and time. The reader checks the chain of digests while it reads.
    records = list(stackmem.TraceReader(Path(result.run_dir, "trace.jsonl")))
    for kind, count in Counter(type(record.event).__name__ for record in records).most_common():
        print(f"{count:>4} {kind}")

    # Every figure of a run is a fold over its events. This one sums the tokens of the replies.
    tokens = sum(record.event.usage.total for record in records if isinstance(record.event, ModelReplied))
    state = stackmem.fold(record.event for record in records)
    print(f"{tokens:,} tokens, {len(state.popped)} frames popped, {len(state.heap.chunks)} chunks left on the heap")

if found.prompts != result.steps or tokens != state.usage.total:
    raise SystemExit("the replay differs from the run")
