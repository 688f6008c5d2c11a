"""``rlm:TURNS``: the newest turns; all others are in a variable of a Python program, and code looks at them.

The run offers the program ``history``. It runs code of the model in the sandbox, with the whole conversation in the
variable ``context``, and returns what the code prints. ``llm_query`` asks a model about a slice, and ``rlm_query``
gives a task to a child that can call the program as well. As under ``window``, the shown turns move ``step`` at a time.

Parameters: ``turns`` (10), ``step`` (10).

Source: "Recursive Language Models" (arXiv 2512.24601, 2025). There the variable contains the user's prompt; the REPL
keeps its variables between calls, and all of its calls and shortened outputs stay in the conversation.
"""

from __future__ import annotations

from stackmem.core.strategy import StrategyProgram
from stackmem.memory.shared.linear import Linear, OneConversation, Rules, newest_shown
from stackmem.memory.shared.parameters import Count, Partial
from stackmem.memory.shared.parameters import parameters as parse

_TEXT = '''"""Runs Python code over the history of the conversation."""
import contextlib
import io

import stackmem

MAX_CHARS = 8_000


@stackmem.step
def history(code: str) -> str:
    """Run code over the conversation and return what it prints."""
    printed = io.StringIO()
    names = {
        "context": stackmem.conversation(), "llm_query": stackmem.ask, "llm_query_batched": stackmem.ask_all,
        "rlm_query": stackmem.work,
    }
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "code", "exec"), names)
    text = printed.getvalue()
    more = len(text) - MAX_CHARS
    return text if more <= 0 else f"{text[:MAX_CHARS]}\\n[{more:,} more characters were printed]"
'''
_SCHEMA = '{"additionalProperties":false,"properties":{"code":{"type":"string"}},"required":["code"],"type":"object"}'
PROGRAM = StrategyProgram(
    "history", "Runs Python code over the conversation, in the variable context.", "python", _TEXT, _SCHEMA
)


class Recursive(OneConversation, frozen=True):
    """A conversation whose past is in a program's variable."""

    @property
    def program(self) -> StrategyProgram:
        return PROGRAM


def _head(linear: Linear) -> str:
    """Return a line about the turns that are not shown."""
    hidden = linear.past[: linear.cut.dropped]
    if not hidden:
        return ""
    chars = sum(exchange.chars for exchange in hidden)
    return (
        f"[Steps up to {hidden[-1].step:,} are no longer shown: {chars:,} characters, which the variable `context` of "
        "the program `history` contains.]"
    )


def rlm(parameters: str) -> Recursive:
    options = parse("rlm", parameters, (Count("turns", 10), Count("step", 10)))
    rules = Rules(Partial(newest_shown, tuple(options.counts.values())), _head)
    return Recursive(options.name, rules, prompt="full+recursive")
