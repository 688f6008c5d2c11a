"""The facts of a person who works with the agent: what she says, allows and stops. All of them come from outside.

That she answered a question is ``UserAnswered``, of an agent's question as of a program's.
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

Policy = Literal["frame", "flat"]
Approve = Literal["never", "writes", "commands", "all"]
Scope = Literal["once", "frame", "session"]


class SessionRules(Struct, frozen=True):
    """How a run is a conversation with a person.

    Attributes:
        policy: ``frame`` where each request is a frame below the root, ``flat`` where all of them are one conversation.
        approve: Which calls in the sandbox need the person's permission: none; those that write files; commands, too;
            or all. What leaves the sandbox needs it always.
        index: ``brief`` where the heap index shows no steps, its order those of the last writes instead, and where a
            frame that has seen the index is told of changes alone. Conversations from before that have none.
    """

    policy: Policy = "frame"
    approve: Approve = "never"
    index: Literal["brief"] | UnsetType = UNSET


class PersonSaid(Struct, frozen=True, tag=True):
    """The person made a request."""

    text: str


class PersonSteppedIn(Struct, frozen=True, tag=True):
    """The person said something while a request was worked on; the model is told before it is asked again."""

    text: str


class PersonStopped(Struct, frozen=True, tag=True):
    """The person ended the request that was worked on; what is under way is answered, and its frames are popped."""


class PersonDecided(Struct, frozen=True, tag=True):
    """The person allowed or denied a call.

    Attributes:
        scope: How long an allowance holds: for this call, until the running frame pops, or for the session.
        pattern: What else it allows where it holds longer: a command or path in which ``*`` stands for any text; empty
            is every call of that tool.
        words: What the model is told with a denial.
    """

    allow: bool
    scope: Scope = "once"
    pattern: str = ""
    words: str = ""


class WordsGiven(Struct, frozen=True, tag=True):
    """What the person said meanwhile was given to the frame that runs; after the end of a request it is the next one.

    This one follows by the rules.
    """

    text: str


class TurnEnded(Struct, frozen=True, tag=True):
    """A request of a flat conversation came to its result. This one follows by the rules.

    Attributes:
        forced: Why the harness ended it; empty where the model did.
        stored: As in ``FramePopped``.
    """

    result: str
    forced: str = ""
    stored: tuple[str, ...] = ()


PersonEvent = PersonSaid | PersonSteppedIn | PersonStopped | PersonDecided | WordsGiven | TurnEnded
