"""What the reader says beside its call: a reply of ordinary length, so that output tokens are not nil."""

from __future__ import annotations

from .knowledge import Knowledge
from .sight import ChosenCall

_SAID = {
    "run_command": "I run the command and read its whole output before anything else, since it may say that something "
    "I rely on has changed.",
    "read_file": "I read the file itself, because nothing that I can see tells what stands there.",
    "heap_read": "Reading what was stored costs less than finding it out again by myself.",
    "push_frame": "A child with a clean conversation does that part; what it will need is stored or told.",
    "pop_frame": "The result tells how far the work is, and what others would have to find out again is stored.",
}
_OTHERWISE = "I do that now, before I go on with the units, and look at what comes back."


def said(action: ChosenCall, known: Knowledge) -> str:
    done = f"Units up to {known.done} are done." if known.done else "No unit is known to be done so far."
    why = action.why[:1].upper() + action.why[1:]
    return f"{done} {why}. {_SAID.get(action.tool, _OTHERWISE)}"
