"""Filler prose around the facts: sentences of a handbook, a runbook or a comment that contain no needed fact.

No sentence contains an equals sign or starts like a line of the world's own grammar.
"""

from __future__ import annotations

import textwrap
from random import Random

COLUMNS = 110

PEOPLE = (
    "Marta Lindqvist", "Tom Okafor", "Ines Caldeira", "Yusuf Demir", "Hannah Weiss", "Priya Raman", "Jonas Brandt",
    "Aiko Tanabe", "Luis Ferrer", "Olga Petrenko", "Samuel Mbeki", "Claire Dubois",
)  # fmt: skip
TEAMS = (
    "the payments team", "platform operations", "the data office", "release management", "the claims desk",
    "site reliability", "the integration team", "customer accounts", "the warehouse group", "internal audit",
)  # fmt: skip
PLACES = ("Rotterdam", "Leipzig", "Porto", "Dublin", "Gdansk", "Lyon", "Turin", "Malmo")
PARTS = (
    "the nightly export", "the settlement job", "the gateway", "the document store", "the partner feed",
    "the reporting cube", "the session cache", "the archive", "the address service", "the scheduler",
)  # fmt: skip
_SENTENCES = (
    "{person} raised this with {team} in the review of {month}, and it was agreed to leave {part} as it is.",
    "{Part} was moved to {place} two years ago, which is why its clocks and its names follow the older convention.",
    "Where {part} and {part2} disagree, {team} decides; write to them before anything is switched over.",
    "The figures in this section were checked against {part} by {person} and are kept here for {team}.",
    "A restart of {part} takes about {n} minutes, and {team} wants to hear of it a day ahead.",
    "Earlier drafts named another owner; since {month} it is {person}, with {person2} standing in.",
    "Exceptions were granted for {place} and {place2} and expire when {part} is replaced.",
    "Nothing in {part} depends on the order of the columns, but {part2} does, and {team} has been bitten by it.",
    "The load test of {month} ran for {n} hours with {n2} clients, and {part} was never the slowest piece.",
    "Old tickets refer to this as the {place} procedure; {person} keeps the list of those that are still open.",
    "If {part} is quiet for more than {n} minutes, that is a finding for {team}, and no reason to go on.",
    "{person} asked that {part} keep its name, because the monitors of {team} look for it by that name.",
    "Copies that were made for {place} before {month} are out of date, and {team} has been told so twice.",
    "The contract with the supplier of {part} runs until {month} and covers {n2} hours of work a year.",
)
_MONTHS = ("January", "February", "March", "April", "June", "July", "September", "October", "November")


def sentence(rng: Random) -> str:
    part, part2 = rng.sample(PARTS, 2)
    person, person2 = rng.sample(PEOPLE, 2)
    location, place2 = rng.sample(PLACES, 2)
    return rng.choice(_SENTENCES).format(
        person=person, person2=person2, team=rng.choice(TEAMS), part=part, part2=part2,
        Part=part[0].upper() + part[1:], place=location, place2=place2, month=rng.choice(_MONTHS),
        n=rng.randrange(3, 60), n2=rng.randrange(60, 900),
    )  # fmt: skip


def paragraph(rng: Random, chars: int, mark: str = "") -> str:
    """Return about ``chars`` characters of wrapped prose with ``mark`` before each line."""
    sentences: list[str] = []
    length = 0
    while length < chars:
        sentences.append(sentence(rng))
        length += len(sentences[-1]) + 1
    return "\n".join(textwrap.wrap(" ".join(sentences), COLUMNS, initial_indent=mark, subsequent_indent=mark))


def document(title: str, rng: Random, sections: list[tuple[str, list[str]]], chars: int) -> str:
    """Return a document: sections with a heading, about ``chars`` characters of prose, and their own lines."""
    out = [f"# {title}", "", f"Kept by {rng.choice(PEOPLE)} for {rng.choice(TEAMS)}.", ""]
    for heading, lines in sections:
        before = rng.randrange(chars // 3, chars) if chars > 3 else 0
        text = [paragraph(rng, before), "\n".join(f"- {line}" for line in lines), paragraph(rng, chars - before)]
        out += [f"## {heading}", "", *(piece + "\n" for piece in text if piece)]
    return "\n".join(out).rstrip("\n") + "\n"
