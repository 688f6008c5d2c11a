"""The data of a run's page: plain values in the page's encoding."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from .files import PageFileChange
from .heap import Lane
from .texts import Ref

PageFact = list[Any]
"""A kind and its values: ``["result", ref, failed, exit code]``, ``["pushed", frame]``, …"""


class PageFrame(Struct):
    """One frame. ``first`` and ``last`` are steps; ``last`` is None while it is open."""

    id: str
    name: str
    parent: int  # index of its parent; -1 for the root
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
    # ``ok``, ``failed`` (its verify command failed), ``forced``, or ``open``; for the root, the run's outcome
    outcome: str = "open"


class PageStep(Struct, array_like=True):
    """One reply of the model and its consequences."""

    frame: int  # index of its frame
    at: float  # seconds since the run's first record, without pauses of the run
    prompt: int  # tokens of the whole prompt; ``read`` came from the cache, ``written`` were written to it
    read: int
    written: int
    output: int
    turns: int  # characters of all turns of all frames before it
    usd: float | None  # including the summaries written after it; None if the price is unknown
    stop: str
    ranges: list[int]  # the prompt, see ``prompts``; empty if it cannot be rendered
    reply: list[int]  # numbers of parts
    facts: list[PageFact]  # events until the next reply
    files: list[PageFileChange]  # file changes in the workspace
    broke: str = ""  # why the cache had less of this prompt than of the last one; empty if it did not


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
    # how much of the trace is read, and how the run ended, if the outcome is ``reading``; else empty
    reading: str = ""
    result: Ref = 0
    wall_seconds: float = 0.0
    forked: str = ""
    frame: str = ""  # id of the parallel frame that the run is; otherwise empty
    estimated: bool = False  # tokens are characters / 2.5: the model reports neither usage nor its cache
    simulated: int = 0  # if the cache is simulated, the shortest prefix that it keeps, in tokens; else 0
    unrendered: str = ""  # why prompts cannot be shown or differ from those sent; else empty
    files_missing: str = ""  # why file changes cannot be shown
    torn_bytes: int = 0
    heap_chars: int = 0
    # for each strategy that the page can compare with: characters of its tools, its system prompt, and texts that it
    # adds later; empty if prompts of other strategies would have the recorded ones, as for imported runs
    standing: dict[str, list[int]] = field(default_factory=dict)
    rates: list[float] = field(default_factory=list)  # of tokens read, written and replied, relative to an input token
    # average over the rendered prompts; a prompt with the whole history would have the first prompt's tokens plus
    # ``turns`` of the step at this rate
    tokens_per_char: float = 0.0
    frames: list[PageFrame] = field(default_factory=list)
    steps: list[PageStep] = field(default_factory=list)
    before: list[PageFact] = field(default_factory=list)  # events before the first reply
    stated_usd: float | None = None  # cost stated by an imported run's recording, if its price is unknown
    lanes: list[Lane] = field(default_factory=list)
    sequences: list[list[int]] = field(default_factory=list)
