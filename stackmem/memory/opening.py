"""A frame's own block of its first message: what it is for, what it was given, the heap index as of its push."""

from __future__ import annotations

from stackmem.core.budgets import Budgets
from stackmem.core.state import Frame


def opening(frame: Frame, budgets: Budgets, listed: str = "", *, task: str = "", registers: bool = True) -> str:
    """The block.

    Args:
        listed: The heap index; empty where the prompt shows none.
        task: The run's, shown in a frame without registers.
        registers: Whether there are any.

    """
    lines = [f"FRAME {frame.name!r}, depth {frame.depth} of {budgets.depth}"]
    if registers:
        lines += _registers(frame)
    if frame.verify:
        lines.append(f"VERIFY (run when you pop): {frame.verify}")
    if frame.context:
        lines += ["", "CONTEXT", frame.context]
    if frame.task or not registers:
        lines += ["", "TASK", frame.task or task]
    lines += [f"heap {name!r} does not exist yet" for name in frame.missing]
    if listed:
        lines += ["", listed]
    return "\n".join(lines)


def _registers(frame: Frame) -> list[str]:
    own = frame.registers
    lines = [f"R0 INTENT: {own.intent}", f"R1 RETURN: {own.return_spec}"]
    return [*lines, f"R3 BUDGET: {own.constraint}"] if own.constraint else lines


def prompted(word: str, frame: Frame, budgets: Budgets) -> str:
    """The block of a sub-agent or a branch, of which there is only the prompt; elsewhere the task."""
    if frame.task:
        return f"TASK\n{frame.task}"
    return f"{word} {frame.name!r}, depth {frame.depth} of {budgets.depth}\n\n{frame.context or frame.registers.intent}"
