"""Asks the model, once for each request of the user, which of the user's words must outlive the request.

Rule 1: The answer can only quote the user's message. Pasted code and quoted lines in it do not count, so data never
    becomes an entry.
Rule 2: The question has no tools and no history: it costs its own text, the entries so far and the message.
Rule 3: A failed or unusable answer changes nothing and is not repeated.

This applies only if the session's rules contain the question (``SessionRules.upkeep``).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import UNSET
from msgspec.structs import replace

from stackmem.core.compaction import model_request
from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.limits import spent_limit
from stackmem.core.log import Log
from stackmem.core.messages import Message, Text, Usage, View
from stackmem.core.person_facts import WordsAsked
from stackmem.core.requests import AskWords
from stackmem.core.state import Session, State
from stackmem.core.text import clip_chars

from .standing import StandingChange, active, add, own_words, quotes

QUESTION = (
    "A user talks with a coding agent. Find the words of the message below that must also apply to later requests: a "
    "standing rule, a correction of an entry, a decision, a lasting preference. What to do now is not one of them.\n"
    "Answer with at most three lines, each KIND: WORDS. KIND is rule, correction, decision or preference; a correction "
    "of entry R2 is `correction R2`. Copy WORDS exactly from the message. If there are none, answer: none"
)
_MESSAGE_CHARS = 4_000
_REPLY_TOKENS = 300
_MIN_WORDS = 3
_ENTRIES = 3
_LINE = re.compile(r"^[\s*-]*(rule|correction|decision|preference)(?:\s+R(\d{1,6}))?\s*:\s*(.{1,1000})$", re.I | re.M)


def waits_for_question(session: Session, text: str) -> str:
    """Return the text of a new request that the model must be asked about. Empty if it must not."""
    asks = session.rules.upkeep is not UNSET and len(own_words(text).split()) >= _MIN_WORDS
    return text if asks else ""


def question(state: State, session: Session) -> AskWords | None:
    """Return the question about the last request of the user, or None."""
    if not session.unasked or session.rules.upkeep is UNSET or spent_limit(state) is not None:
        return None
    entries = "\n".join(entry.line for entry in active(session.standing).values())
    message = (
        f"ENTRIES SO FAR\n{entries or 'none'}\n\nMESSAGE\n{clip_chars(own_words(session.unasked), _MESSAGE_CHARS)}"
    )
    view = View(session.rules.upkeep, (), Log([Message("user", (Text(message),))]))
    request = replace(model_request(state, view), expects="text", reply_tokens=_REPLY_TOKENS, announced=())
    return AskWords(request)


def fact_of_reply(answer: ModelReplied | ModelFailed, scrub: Callable[[str], str]) -> WordsAsked:
    """Return the text of a reply. After a failure it is empty, and ``detail`` says why."""
    if isinstance(answer, ModelFailed):
        used = Usage() if answer.usage is UNSET else answer.usage
        return WordsAsked("", used, answer.prompt_digest, f"{answer.kind}: {answer.detail}")
    text = "\n".join(part.text for part in answer.parts if isinstance(part, Text) and part.text.strip())
    return WordsAsked(scrub(text), answer.usage, answer.prompt_digest, reply_id=answer.reply_id)


def take(state: State, session: Session, event: WordsAsked) -> State:
    """Return the state with the quoted words as entries."""
    own, changes = own_words(session.unasked), session.standing
    for kind, number, words in list(_LINE.findall(event.text))[:_ENTRIES]:
        passage = words.strip().strip("\"'`“”„")
        is_stored = any(quotes(passage, entry.text) for entry in active(changes).values())
        if not quotes(passage, own) or is_stored:
            continue
        replaced = int(number) if number and int(number) in active(changes) else 0
        entry = StandingChange(0, session.requests, session.requests, passage, kind.lower(), "upkeep", replaced)
        changes = add(changes, entry).changes
    return replace(state.with_cost(event), session=replace(session, standing=changes, unasked=""))
