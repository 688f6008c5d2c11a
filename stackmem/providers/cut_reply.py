"""The usage of a reply that was cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import Usage, View
from stackmem.models.tokens import estimated_usage

from .connection import Connection


class CutReply(Struct):
    """Usage of a reply that was cut: the server worked on it, but reports no tokens."""

    pieces: int = 0  # pieces received so far; servers send about one per token

    def counted(self, events: Iterable[str]) -> Iterator[str]:
        """Pass the events through while counting them."""
        for event in events:
            self.pieces += '"delta"' in event and '"prompt_progress"' not in event
            yield event

    def ended(
        self,
        answer: ModelReplied | ModelFailed,
        connection: Connection,
        view: View,
        error: BaseException | None = None,
    ) -> ModelReplied | ModelFailed:
        """Return the attempt's result, with estimated tokens if it was cut while the server was working."""
        answer = connection.in_time(answer)
        if not isinstance(answer, ModelFailed) or answer.kind != "timeout":
            return answer
        import httpx2

        silent = error is not None and isinstance(error.__cause__ or error, httpx2.ReadTimeout)
        if not (self.pieces or connection.expired or silent):
            return answer
        prompt = estimated_usage(ModelReplied((), "end", Usage()), view).usage
        return replace(answer, usage=replace(prompt, output=self.pieces))
