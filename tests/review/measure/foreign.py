"""Flat runs as an import creates them: a thought and a call in each step, and its result."""

from stackmem.core.facts import ModelReplied, RunEnded, ToolReturned
from stackmem.core.messages import Text, ToolCall, Usage
from stackmem.review.measure.moments import moments
from tests.build import started

TEN = Usage(output=10)


def flat(replies, usage=TEN):
    """Return the moments of a run whose steps are (thought, command, result)."""
    events = [started(strategy="full", task="Mend the shop.")]
    for number, (thought, command, result) in enumerate(replies):
        call = ToolCall(f"c{number}", "bash", {"command": command})
        events += [ModelReplied((Text(thought), call), "call", usage), ToolReturned(result)]
    events.append(RunEnded("interrupted", ""))
    return tuple(moments((float(at), event) for at, event in enumerate(events)))
