"""Every fact is put into words once, and no display drops a fact without listing its kind."""

from typing import get_args

import msgspec
import pytest

from stackmem.cli.screen import progress
from stackmem.core.declarations import Voice, VoiceKind
from stackmem.core.facts import Event
from stackmem.core.state import State
from stackmem.doors.acp import updates
from stackmem.formats.exports import slices
from stackmem.review.report import facts as page_facts
from stackmem.review.report.texts import Texts

HIDING = {place.__name__: place.HIDDEN for place in (progress, updates, slices, page_facts)}


def sample(kind: type) -> Event:
    """Return a fact of this type with the smallest values that its fields allow."""
    fields = {field.name: smallest(field.type) for field in msgspec.structs.fields(kind) if field.required}
    return kind(**fields)


def smallest(annotation: object) -> object:
    """Return the smallest value of an annotated type."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return sample(annotation)
    values = get_args(annotation)
    if values and isinstance(values[0], str):  # a Literal
        return values[0]
    for kind, value in ((str, "x"), (bool, True), (int, 1), (float, 1.0)):
        if annotation is kind:
            return value
    return {} if str(annotation).startswith("dict") else () if str(annotation).startswith("tuple") else None


FACTS = get_args(Event)


@pytest.mark.parametrize("kind", FACTS, ids=lambda kind: kind.__name__)
def test_each_fact_has_a_voice(kind: type) -> None:
    voice = sample(kind).voice
    assert isinstance(voice, Voice)
    assert voice.line.strip()
    assert "\n" not in voice.line
    assert voice.kind in get_args(VoiceKind)


def test_there_are_samples_of_all_facts() -> None:
    assert len(FACTS) > 40


@pytest.mark.parametrize("place", HIDING)
def test_no_display_hides_notices(place: str) -> None:
    """A new fact is a notice unless it says otherwise, so it shows up everywhere."""
    assert "notice" not in HIDING[place]
    assert HIDING[place] <= set(get_args(VoiceKind))


class Flooded(msgspec.Struct, frozen=True, tag=True):
    """A fact that no display knows."""

    depth: int

    @property
    def voice(self) -> Voice:
        return Voice("notice", "the cellar is flooded", f"{self.depth} cm of water")


def test_a_fact_that_no_display_knows_is_shown_by_its_voice() -> None:
    event, state = Flooded(30), State()
    assert progress.Progress().lines(event, state) == ["   0  the cellar is flooded -> 30 cm of water"]
    texts = Texts()
    fact = page_facts.fact_of(event, texts, {}, None)
    assert fact is not None
    assert (fact[0], fact[2]) == ("notice", "the cellar is flooded")
    shown = updates.Shown("/project", lambda _state, _path: None)
    (update,) = updates.updates(event, state, state, shown)
    assert "30 cm of water" in update["content"]["text"]
