"""Splits a recorded session into its conversations, because each of them has its own prompt and its own cache.

Subagents are conversations. A compaction that happened ends a conversation: it is answered by the summary, and the next
conversation begins with the summary. The format may name it, or the provider's count shows it: a prompt that is much
shorter than the one before, after a text for the model.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from stackmem.formats.recordings.session import (
    RecordedReply,
    RecordedSession,
    RecordedSummary,
    RecordedText,
    RecordedTurn,
)

_SHRUNK = 0.6
"""A prompt below this share of the last one follows a compaction."""


def conversations(session: RecordedSession) -> Iterator[RecordedSession]:
    """Yield the conversations of a session that contain a reply: the main one first, then those of its subagents."""
    for each in (session, *session.children()):
        for part in _between_compactions(each):
            if any(isinstance(turn, RecordedReply) for turn in part.turns):
                yield part


def is_timed(session: RecordedSession) -> bool:
    """Return whether the recording states when its replies came."""
    replies = list(session.replies())
    return bool(replies) and all(reply.at is not None for reply in replies)


def _between_compactions(session: RecordedSession) -> Iterator[RecordedSession]:
    task, began, turns = session.task, session.began, list[RecordedTurn]()
    prompts: dict[str, int] = {}  # tokens of the last prompt of each model, because small models do side jobs
    for turn in session.turns:
        if isinstance(turn, RecordedSummary):
            summary_text = "\n".join(part.text for part in turn.reply.parts if hasattr(part, "text"))
            yield replace(session, task=task, began=began, turns=[*turns, replace(turn.reply, answers=[])])
            task, began, turns, prompts = summary_text, turn.at, [], {}
            continue
        if isinstance(turn, RecordedReply):
            texts = _last_texts(turns)
            if texts and 0 < turn.usage.prompt < _SHRUNK * prompts.get(turn.model, 0):
                summary = "\n".join(text.text for text in texts)
                yield replace(session, task=task, began=began, turns=turns[: -len(texts)])
                task, began, turns = summary, texts[0].at, []
            prompts[turn.model] = turn.usage.prompt or prompts.get(turn.model, 0)
            turn = replace(turn, answers=[replace(answer, child=None) for answer in turn.answers])  # noqa: PLW2901
        turns.append(turn)
    yield replace(session, task=task, began=began, turns=turns)


def _last_texts(turns: list[RecordedTurn]) -> list[RecordedText]:
    """Return the texts after the last reply."""
    texts = list[RecordedText]()
    for turn in reversed(turns):
        if not isinstance(turn, RecordedText):
            break
        texts.insert(0, turn)
    return texts
