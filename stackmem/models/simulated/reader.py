"""``sim/bounded-reader``: a deterministic agent whose only memory is its prompt.

It measures what a memory strategy keeps visible and what that costs. It does not measure intelligence: it reads every
visible line without fail, understands nothing but the grammar of the worlds (``lines.py``), and follows one fixed
policy (``policy.py``). Two strategies differ in its hands by what they show, by the steps that showing it costs, and
by what is lost; whether a real model would store and push as well is another question.

Usage is estimated: characters / 2.5 of the prompt, uncached, and of the reply; what a provider's cache makes of the
prompts is for ``stackmem.measure.cache`` to say.
"""

from __future__ import annotations

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import ReplyPart, Text, ToolCall, Usage, View
from stackmem.core.requests import AskModel

from .knowledge import Knowledge
from .offered import offered
from .oracle import Remembered
from .policy import decide
from .reading import Reading
from .sight import ReaderSight
from .summarising import compaction_wanted, summary
from .words import said

CHARS_PER_TOKEN = 2.5


class BoundedReader:
    """The model; it holds nothing between two replies, but for the ``oracle``.

    The oracle never forgets what any of its prompts has shown, for as long as it lives: the upper bound of what memory
    can be worth. It is the one variant that is no function of the request, so a run of it that is resumed in another
    process begins with what is visible there.

    Args:
        variant: One of ``VARIANTS``.
        window_tokens: A longer prompt fails as at a provider.

    """

    def __init__(self, variant: str = "nesting", window_tokens: int = 200_000) -> None:
        self._variant = variant
        self._window_tokens = window_tokens
        self._reading = Reading()
        self._remembered = Remembered() if variant == "oracle" else None

    def reply(self, request: AskModel) -> ModelReplied | ModelFailed:
        known = self._reading.of(request.view)
        tokens = _prompt_tokens(request.view, known)
        if tokens > self._window_tokens:
            return ModelFailed(
                "window", f"the prompt has about {tokens:,} tokens, the window of this model is {self._window_tokens:,}"
            )
        wanted = compaction_wanted(request.view.messages[-1]) if len(request.view.messages) else None
        if wanted is not None:
            return _answered(request, tokens, (Text(summary(known, wanted)),))
        if self._remembered is not None:
            known = self._remembered.with_all(known)
        action = decide(ReaderSight(known, offered(request.view.tools), self._variant))
        text = said(action, known)
        call = ToolCall(f"call_{request.facts}", action.tool, action.arguments)
        return _answered(request, tokens, (Text(text), call))


def _prompt_tokens(view: View, known: Knowledge) -> int:
    standing = len(view.system) + sum(len(one.name) + len(one.description) + len(one.schema) for one in view.tools)
    return int((standing + known.chars) / CHARS_PER_TOKEN)


def _answered(request: AskModel, tokens: int, parts: tuple[ReplyPart, ...]) -> ModelReplied:
    output = sum(len(one.name) + len(str(one.arguments)) for one in parts if isinstance(one, ToolCall))
    output += sum(len(one.text) for one in parts if isinstance(one, Text))
    return ModelReplied(
        parts=parts,
        stop="call" if any(isinstance(part, ToolCall) for part in parts) else "end",
        usage=Usage(uncached=tokens, output=max(1, int(output / CHARS_PER_TOKEN)), estimated=True),
        reply_id=f"reply_{request.facts}",
    )
