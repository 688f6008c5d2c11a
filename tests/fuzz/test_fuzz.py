"""Every reader of foreign bytes accepts its input or refuses it with a message.

CI tries the seeds, the corpus and a fixed few further inputs, without watching lines. A campaign searches for ten
minutes of processor time per target, guided by line coverage, and resumes where it was stopped.
"""

from pathlib import Path
from random import Random

import pytest

from tests.campaigns import LONG, Campaign
from tests.conftest import CAMPAIGN
from tests.fuzz.corpus import LONGEST_BYTES, MAX_INPUTS, kept_corpus
from tests.fuzz.loop import MAX_BYTES, Fuzzer, Lines, Target
from tests.fuzz.mutations import mutated
from tests.fuzz.targets import TARGETS

INPUTS = 12
"""Further inputs in CI, in addition to the seeds and the corpus."""
SECONDS = 600 if CAMPAIGN else 1
"""Processor seconds in campaigns, in pieces of one second."""


@LONG
@pytest.mark.parametrize("name", sorted(TARGETS))
def test_whatever_it_is_given_a_reader_takes_it_or_refuses_it_in_words(tmp_path: Path, name: str):
    fuzzer = Fuzzer(TARGETS[name], tmp_path / "place", kept_corpus(name), guided=CAMPAIGN)
    assert fuzzer.by_seeds, "the seeds reach no watched line, so the search would have no guidance"
    campaign = Campaign(f"fuzzing {name}", SECONDS, saved_every=1)
    before = campaign.progress.counts.get("inputs", 0)
    for number in campaign:
        if CAMPAIGN:
            fuzzer.go_on(Random(number), seconds=1.0)
        else:
            fuzzer.go_on(Random(number), inputs=INPUTS)
        if CAMPAIGN:
            lines = fuzzer.lines
            found = {"lines reached": len(lines.reached), "lines": lines.there_are(), "faults": len(fuzzer.faults)}
            campaign.progress.counts = {"inputs": before + fuzzer.tried, **found}
        told = "\n\n".join(f"{fault.data!r}\n{fault.trace}" for fault in fuzzer.faults.values())
        assert not fuzzer.faults, told


def test_the_corpus_stays_small_and_belongs_to_targets():
    for name in TARGETS:
        kept = kept_corpus(name)
        assert len(kept) <= MAX_INPUTS
        assert all(len(data) <= LONGEST_BYTES for data in kept)
    known = {name.replace(" ", "-") for name in TARGETS}
    assert {path.stem for path in (Path(__file__).parent / "corpus").glob("*.json")} <= known


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_every_module_that_a_target_watches_is_there(name: str):
    Lines(TARGETS[name].watched)


def test_a_module_that_is_gone_is_named():
    with pytest.raises(ValueError, match="starts with languages/yaml;"):
        Lines(("models/", "languages/yaml"))


def a_reader(data: bytes, place: Path) -> None:
    """Fails on a ``!`` after ``ab``; only a search that has reached ``ab`` finds it."""
    if data[:1] == b"a" and data[1:2] == b"b" and b"!" in data[2:]:
        raise KeyError(data)
    if data == b"no":
        raise ValueError(data)


def test_a_planted_fault_is_found_and_its_input_made_small(tmp_path: Path):
    target = Target("planted", a_reader, lambda: [b"xx!yz", b"ayy"], ("core/errors",), (ValueError,), (b"ab", b"!"))
    fuzzer = Fuzzer(target, tmp_path / "place")
    fuzzer.go_on(Random(1), inputs=1_200)
    (fault,) = fuzzer.faults.values()
    assert (fault.kind, fault.data) == ("KeyError", b"ab!")


def test_what_reaches_a_line_first_is_kept(tmp_path: Path):
    fuzzer = Fuzzer(TARGETS["result of an MCP tool"], tmp_path / "place")
    before = len(fuzzer.kept)
    fuzzer.try_one(fuzzer.seeds[0])
    assert len(fuzzer.kept) == before
    fuzzer.try_one(b'{"content": [{"type": "audio", "data": "aGk", "mimeType": "a/b"}, {"type": "text", "text": "{"}]}')
    assert len(fuzzer.lines.reached) >= fuzzer.by_seeds


def test_the_same_chance_makes_the_same_inputs_and_none_too_long():
    seeds = [b'{"a": [1, {"b": "c"}]}\n{"d": 2.5}', b"(if a b)", b""]
    made = [[mutated(seed, chance, seeds) for seed in seeds for _ in range(200)] for chance in (Random(5), Random(5))]
    assert made[0] == made[1]
    assert len(set(made[0])) > 400
    assert max(map(len, made[0])) < 40 * MAX_BYTES
