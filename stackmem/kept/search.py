"""Searches a conversation and the earlier ones about the same folder."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from pathlib import Path

from stackmem.core.conversation.recall import RecalledPassage, best_of, passages_of
from stackmem.core.state import State
from stackmem.errors import StackmemError
from stackmem.run.request import read_request
from stackmem.trace.open_run import Run

from .find import kept_sessions

MAX_CONVERSATIONS = 10


def search_conversations(run_dir: Path, state: State, query: str) -> str:
    """Return the passages that fit best in this conversation and the most recent others about its folder.

    Conversations that cannot be read are left out. A text that several of them contain, such as the beginning of a
    fork, is found once, in the newest.
    """
    texts: dict[str, RecalledPassage] = {}
    earlier = 0
    with suppress(StackmemError, OSError):
        subject = Path(read_request(run_dir).subject)
        others = (path for path, about in kept_sessions(run_dir.parent) if about == subject and path != run_dir)
        for path in reversed(list(islice(others, MAX_CONVERSATIONS))):
            with suppress(StackmemError, OSError):
                for passage in passages_of(Run(path).state):
                    texts.pop(passage.text, None)
                    texts[passage.text] = RecalledPassage(f"{path.name[:13]}: {passage.source}", passage.text)
                earlier += 1
    for passage in passages_of(state):
        texts.pop(passage.text, None)
        texts[passage.text] = passage
    searched = f"this conversation and {earlier} other{'s' if earlier != 1 else ''}" if earlier else "this conversation"
    return best_of(list(texts.values()), query, searched)
