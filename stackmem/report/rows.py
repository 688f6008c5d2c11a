"""What a page holds of a run: values only, spelled as the page reads them."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from .files import PageFileChange
from .heap import Lane
from .texts import Ref

PageFact = list[Any]
"""A kind and what there is to say: ``["result", ref, failed, exit code]``, ``["pushed", frame]``, …"""


class PageFrame(Struct):
    """One frame. ``first`` and ``last`` are steps; ``last`` is None while it is open."""

    id: str
    name: str
    parent: int  # index of its parent, -1 of the root
    depth: int
    first: int
    last: int | None = None
    intent: Ref = 0
    returns: Ref = 0
    constraint: Ref = 0
    context: Ref = 0
    verify: str = ""
    result: Ref | None = None
    forced: str = ""
    verified: str = ""
    # ``ok``, ``failed`` (its verify command did), ``forced``, or ``open``; of the root, that of the run
    outcome: str = "open"


class PageStep(Struct, array_like=True):
    """One reply of the model and what came of it."""

    frame: int  # index of the frame it was asked in
    at: float  # seconds since the run's first record, without the time it was stopped
    prompt: int  # tokens of the whole prompt; then how many of them were read from the cache, and written to it
    read: int
    written: int
    output: int
    turns: int  # characters of all turns of all frames before it
    usd: float | None  # with the summaries that were written after it; None where the price is unknown
    stop: str
    ranges: list[int]  # the prompt, see ``prompts``; empty where it cannot be rendered
    reply: list[int]  # numbers of parts
    facts: list[PageFact]  # what followed, until the next reply
    files: list[PageFileChange]  # what changed in the workspace
    broke: str = ""  # why the cache held less of this prompt than of the last one; empty where it did not


class RunPage(Struct):
    """One run."""

    id: str
    task: Ref
    task_name: str
    model: str
    strategy: str
    isolation: str
    version: str
    started: float
    window_tokens: int
    outcome: str = "running"
    ending: str = ""
    # how far the trace is read and how the run ended, where the outcome is ``reading``; empty elsewhere
    reading: str = ""
    result: Ref = 0
    wall_seconds: float = 0.0
    forked: str = ""
    estimated: bool = False  # tokens are characters / 2.5: the model reports no usage, nor what its cache held
    simulated: int = 0  # where the cache is a simulation, the shortest prefix that it keeps, in tokens; else 0
    unrendered: str = ""  # why prompts cannot be shown, or differ from those sent; empty where all is as it was
    files_missing: str = ""  # why changes of files cannot be shown
    torn_bytes: int = 0
    heap_chars: int = 0
    # of the prompts rendered. A prompt with the whole history would have had the tokens of the first prompt, and
    # ``turns`` of the step at this rate
    tokens_per_char: float = 0.0
    frames: list[PageFrame] = field(default_factory=list)
    steps: list[PageStep] = field(default_factory=list)
    before: list[PageFact] = field(default_factory=list)  # what happened before the first reply
    stated_usd: float | None = None  # what the recording of an imported run says it cost, if no price is known for it
    lanes: list[Lane] = field(default_factory=list)
    sequences: list[list[int]] = field(default_factory=list)
