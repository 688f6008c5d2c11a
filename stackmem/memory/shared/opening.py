"""A frame's own block of its first message: its purpose, its context, and the heap index at its push.

In the frame of a user's request the earlier requests come first, each as a separate part. The next request begins with
the same parts and one more, so the provider's cache can read them.
"""

from __future__ import annotations

import re

from stackmem.core.budgets import Budgets
from stackmem.core.messages import Text
from stackmem.core.state import Frame

_NEXT_EXCHANGE = re.compile(r"\n(?=REQUEST \d|STANDING R\d)")


def first_parts(constants: str, frame: Frame, own: str) -> tuple[Text, ...]:
    """Return the first parts of a frame's first message, with its own block last."""
    if not (frame.request and frame.context):
        return (Text(constants), Text(own))
    earlier = f"EARLIER IN THIS CONVERSATION\n{frame.context}"
    return (Text(constants), *map(Text, _NEXT_EXCHANGE.split(earlier)), Text(own))


def opening(frame: Frame, budgets: Budgets, listed: str = "", *, task: str = "", registers: bool = True) -> str:
    """Return the block of a frame.

    Args:
        listed: The heap index, or empty if the prompt does not show it.
        task: Text of the run's task, shown in a frame without registers.
        registers: Whether the frame has registers.
    """
    if frame.request:
        return request_opening(frame, listed)
    lines = [f"FRAME {frame.name!r}, depth {frame.depth} of {budgets.depth}"]
    if registers:
        lines += _registers(frame)
    if frame.verify:
        lines.append(f"VERIFY (run when you pop): {frame.verify}")
    if frame.standing:
        lines += ["", frame.standing]
    if frame.context:
        lines += ["", "CONTEXT", frame.context]
    if frame.task or not registers:
        lines += ["", "TASK", frame.task or task]
    lines += [f"heap {name!r} does not exist yet" for name in frame.missing]
    if listed:
        lines += ["", listed]
    return "\n".join(lines)


def request_opening(frame: Frame, listed: str = "") -> str:
    """Return the block of a user's request: the heap index, earlier requests that may matter, then the request."""
    before = [text for part in (listed, frame.related) if part for text in (part, "")]
    return "\n".join([*before, "REQUEST", frame.task])


def task_opening(frame: Frame, listed: str) -> str:
    """Return the block of a root in a strategy with short first prompts, which mention frames only once there is
    one.
    """
    lines = (f"heap {name!r} does not exist yet" for name in frame.missing)
    return request_opening(frame, listed) if frame.request else "\n".join(["TASK", frame.task, *lines, "", listed])


def small_opening(frame: Frame, listed: str) -> str:
    """Return the block of a root for a small model: the task, and the heap index unless the heap is empty."""
    return task_opening(frame, listed if frame.opened.chunks else "").rstrip()


def _registers(frame: Frame) -> list[str]:
    own = frame.registers
    lines = [f"R0 INTENT: {own.intent}"]
    if own.return_spec:  # in a forked run, a sub-agent's frame has none
        lines.append(f"R1 RETURN: {own.return_spec}")
    return [*lines, f"R3 CONSTRAINT: {own.constraint}"] if own.constraint else lines


def prompt_opening(word: str, frame: Frame, budgets: Budgets) -> str:
    """Return the block of a sub-agent or a branch, which has only its prompt; for other frames the task.

    A frame with registers, from a run forked from a strategy with registers, shows them.
    """
    if frame.request:
        return request_opening(frame)
    if frame.task:
        return f"TASK\n{frame.task}"
    if frame.registers.return_spec:
        return opening(frame, budgets)
    head = f"{word} {frame.name!r}, depth {frame.depth} of {budgets.depth}"
    return "\n\n".join(filter(None, (head, frame.standing, frame.context)))
