"""Holds a sub-agent to the dollars and the seconds of its definition, each time that it is asked.

Rule 1: what it asks of others counts, and they are held to it, too.
Rule 2: it is looked at before each turn, each batch of a loop and each wait; what is under way is not cut off.
Rule 3: where no price is known, dollars cannot be held; the person is told once. Those of the agent that is run are the
        run's own, see ``language.Language.settings``.
"""

from __future__ import annotations

from msgspec import Struct

from stackmem.languages.effects import Say, Wait
from stackmem.languages.questions import ReadSpending, Spending

from .definition import Limits
from .session import Doing, Ended, Session


class Watch(Struct, frozen=True):
    """An agent's limits, and what the run had used when it was asked."""

    name: str
    limits: Limits
    before: Spending


def watch(session: Session) -> Doing:
    """Begin to hold a sub-agent to its limits, where it has such."""
    limits = session.agent.limits
    if session.depth and (limits.usd is not None or limits.seconds is not None):
        before: Spending = yield ReadSpending(limits.seconds is not None)
        session.watches = (*session.watches, Watch(session.agent.name, limits, before))


def refuse_overspent(session: Session, wait_seconds: float = 0.0) -> Doing:
    """Look at what was used; a wait that would outlast the seconds has used them.

    Raises:
        Ended: An agent, or one that waits for it, has used what it may.

    """
    watches: tuple[Watch, ...] = session.watches
    if not watches:
        return
    now: Spending = yield ReadSpending(any(each.limits.seconds is not None for each in watches))
    for each in watches:
        usd, seconds = each.limits.usd, each.limits.seconds
        used = now.seconds - each.before.seconds
        if seconds is not None and (used >= seconds or (wait_seconds and used + wait_seconds >= seconds)):
            waits = f", and was to wait {wait_seconds:,.1f} more" if wait_seconds else ""
            raise Ended("Limit Reached", f"{each.name} has used {used:,.1f} of its {seconds:,.1f} seconds{waits}")
        if usd is not None and now.usd is not None:
            spent = now.usd - (each.before.usd or 0.0)
            if spent >= usd:
                raise Ended("Limit Reached", f"{each.name} has used {spent:.4f} of its {usd:.4f} USD")
        elif usd is not None and session.turn > 1 and each.name not in session.family.unpriced:
            session.family.unpriced.add(each.name)
            yield Say(f"{each.name} cannot be held to its {usd:.4f} USD: the price of the model is not known.")


def pause(session: Session, seconds: float) -> Doing:
    """Wait, if the time is there."""
    yield from refuse_overspent(session, seconds)
    yield Wait(seconds)
