"""Imperfect readers: the effect of each dial, and the same random draws for all."""

import random

import pytest

from stackmem.core.errors import UsageError
from stackmem.lab.simulated import PERFECT, SETTINGS, BoundedReader, ReaderDials, read_dial
from stackmem.lab.simulated.dials import luck
from stackmem.models.registry import open_model
from tests.lab.simulated.test_simulated_policy import PLANNED, RUNNER, SPEC, TASK, asking, exchanged, ran, tools
from tests.providers.views import user

ALWAYS = ReaderDials(long=1.0, noticed=0.0)
NOTICED = ReaderDials(long=1.0, noticed=1.0)
FULL = 128_000 * 2.5


def call(dials: ReaderDials, *pairs, chars: float = FULL, strategy: str = "full"):
    """Return the reader's call for a prompt of this many characters."""
    messages = (TASK, user("x" * int(chars)), *exchanged(*pairs))
    return BoundedReader(dials=dials).reply(asking(*messages, tools=tools(strategy))).parts[-1]


def test_a_perfect_reader_misses_nothing_at_any_length():
    assert not PERFECT.misses("a.b", "v", "1.0", 1e9, changed=True)
    assert not PERFECT.loses("a.b", "v")
    assert PERFECT.summarizes("a.b", "v")


@pytest.mark.parametrize(("tokens", "changed", "share"), [(0, False, 0), (64_000, False, 0.15), (64_000, True, 0.3),
                                                          (128_000, False, 0.3), (1e7, False, 0.9)])  # fmt: skip
def test_misses_grow_with_the_length_and_where_a_fact_has_changed(tokens, changed, share):
    dials = SETTINGS["harsh"]
    missed = [dials.misses("a.b", "v", f"{use}.0", tokens, changed=changed) for use in range(4_000)]
    assert sum(missed) / 4_000 == pytest.approx(share, abs=0.03)


def test_whoever_misses_at_one_length_misses_at_any_greater_one():
    dials = SETTINGS["middle"]
    for use in map(str, range(200)):
        shorter, longer = (dials.misses("a.b", "v", use, tokens, changed=False) for tokens in (1e5, 5e5))
        assert longer or not shorter


def test_luck_hangs_on_its_words_alone():
    assert luck("a", "b") == luck("a", "b") != luck("ab", "")
    drawn = [luck(str(number)) for number in range(2_000)]
    assert sum(drawn) / 2_000 == pytest.approx(0.5, abs=0.02)
    assert 0 <= min(drawn) < max(drawn) < 1


def test_a_miss_that_nobody_notices_gives_the_unit_a_wrong_value():
    asked = call(ALWAYS, PLANNED, RUNNER, SPEC).arguments["command"]
    assert asked.startswith("./work do 1 ")
    assert asked != "./work do 1 env.runner=nox spec.a=x1"
    assert call(PERFECT, PLANNED, RUNNER, SPEC).arguments["command"] == "./work do 1 env.runner=nox spec.a=x1"


def test_a_miss_that_is_noticed_costs_one_look():
    pairs = (PLANNED, RUNNER, SPEC)
    looks = []
    while len(looks) < 5:
        asked = call(NOTICED, *pairs).arguments
        if asked.get("command", "").startswith("./work do"):
            break
        looks.append(asked)
        pairs = (*pairs, ran(asked["command"], "env.runner = nox") if "command" in asked else SPEC)
    assert 1 <= len(looks) <= 2
    assert asked == {"command": "./work do 1 env.runner=nox spec.a=x1"}


def test_what_is_lost_is_handed_to_no_child_and_stored_in_no_chunk():
    task = user("RUN", "FRAME 'root', depth 0 of 5\n\nTASK\nDo units 1 to 40.")
    known = exchanged(RUNNER, SPEC, ran("./work do 1 env.runner=nox", "done unit 1"))
    texts = {
        lost: str(BoundedReader(dials=ReaderDials(lost=lost)).reply(
            asking(task, *known, tools=tools("stackheap"))).parts[-1].arguments)
        for lost in (0.0, 1.0)
    }  # fmt: skip
    assert "spec.a = x1" in texts[0.0]
    assert "x1" not in texts[1.0]
    assert "nox" not in texts[1.0]


@pytest.mark.parametrize(("share", "kept"), [(None, 39), (1.0, 300), (0.5, 150), (0.0, 0)])
def test_a_summary_keeps_its_share_of_the_facts(share, kept):
    facts = "\n".join(f"topic.item{number} = {random.Random(number).randrange(10**6)}" for number in range(300))
    request = user("COMPACTION REQUEST (kind: summary; at most 100,000 characters)")
    messages = (user("Do units 1 to 8.\ndone unit 1"), *exchanged(("read_file", {"path": "a"}, facts)), request)
    (text,) = BoundedReader(dials=ReaderDials(summary=share)).reply(asking(*messages, tools=tools("full"))).parts
    assert text.text.count("topic.item") == pytest.approx(kept, abs=0 if kept in (39, 300, 0) else 25)


def test_dials_are_named_with_the_model():
    assert read_dial(PERFECT, "lost=0.1") == ReaderDials(lost=0.1)
    assert read_dial(SETTINGS["mild"], "summary=0.5") == ReaderDials(0.02, 0.02, 0.9, 0.5)
    assert read_dial(PERFECT, "middle") == SETTINGS["middle"]
    assert read_dial(PERFECT, "flat") is None
    for spelled in ("flat+middle", "lost=0.1+long=0.3", "harsh"):
        assert open_model(f"sim/bounded-reader:{spelled}", {}).name == f"sim/bounded-reader:{spelled}"


@pytest.mark.parametrize(("spelled", "says"), [("lost=2", "a number from 0 to 1, not '2'"),
                                               ("long=x", "a number from 0 to 10, not 'x'"),
                                               ("summary=nan", "a number from 0 to 1"),
                                               ("flat+loud", "no variant 'loud'; use some of nesting")])  # fmt: skip
def test_a_dial_that_is_none_is_refused_with_the_way_out(spelled, says):
    with pytest.raises(UsageError, match=says):
        open_model(f"sim/bounded-reader:{spelled}", {})
