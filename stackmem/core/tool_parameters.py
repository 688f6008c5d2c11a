"""Parameters that several tools have, each described once.

A description says what the name and the type do not; a parameter that needs none has none. What has a budget names it
as ``at most N``.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from .entries import StoreEntry

Name = Annotated[str, Meta(description="Letters, digits, _ . - /; at most {{name_chars}}.")]
Objective = Annotated[
    str, Meta(description="R0: what to do and how to verify it; at most {{intent_chars}} characters.")
]
PointedObjective = Annotated[
    str,
    Meta(description="R0: what to do and how to verify it, naming chunks; at most {{intent_chars}} characters."),
]
Context = Annotated[str, Meta(description="Paths, constraints, pointers; at most {{context_chars}} characters.")]
ReturnSpec = Annotated[str, Meta(description="R1: what the result must report; at most {{return_chars}} characters.")]
Constraint = Annotated[
    str,
    Meta(
        description="R3: limits to enforce, like 'steps=20 tokens=30k seconds=120', or free text; "
        "at most {{constraint_chars}} characters."
    ),
]
Verify = Annotated[
    str,
    Meta(
        description="A command run at the pop; its exit code is stamped on the result; "
        "at most {{verify_chars}} characters."
    ),
]
Store = Annotated[
    tuple[StoreEntry, ...],
    Meta(description="Chunks to store in this step, all or none; existing names are overwritten."),
]
Prompt = Annotated[
    str,
    Meta(description="What to do and how to verify it, where things are, what to report; at most 4,000 characters."),
]
Result = Annotated[
    str, Meta(description="The result; at most {{result_chars}} characters, the root's {{root_result_chars}}.")
]
PointedResult = Annotated[
    str,
    Meta(description="Chunk names, not data; at most {{result_chars}} characters, the root's {{root_result_chars}}."),
]
ChunkLine = Annotated[
    str, Meta(description="Its line in the index: what a reader will find; at most {{description_chars}} characters.")
]
Source = Annotated[
    str, Meta(description="Workspace file that it describes; once that changes, the index marks the chunk STALE.")
]
