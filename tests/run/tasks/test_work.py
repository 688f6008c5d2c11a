"""The program of a world answers any input with text, and accepts exactly what was planned."""

from hypothesis import given
from hypothesis import strategies as st

from stackmem.run.tasks import work
from tests.lab.worlds.worlds import FAMILIES, do, made, right

WORDS = st.lists(
    st.sampled_from(
        ["plan", "do", "probe", "status", "log", "audit", "1", "2", "999999", "0", "-1", "1-10", "10-1", "1-99", "٣",
         "env.runner", "env.runner=make-test", "fix.timeout", "=", "a.b=c", "a.b=\udc80", "--help", ""],
    )
    | st.text(max_size=20),
    max_size=6,
)  # fmt: skip
TEXTS = st.text(max_size=200) | st.binary(max_size=60).map(lambda raw: raw.decode("latin-1"))


@given(st.sampled_from(FAMILIES), st.lists(WORDS, max_size=4))
def test_no_words_raise_and_what_is_said_is_ascii(family: str, calls: list[list[str]]):
    files = dict(made(family, 20).files)
    for words in calls:
        text, code = work.run(files, words)
        assert text.isascii()
        assert text.endswith("\n")
        assert code in (0, 1, 2)
        assert "was changed" not in text


@given(TEXTS, TEXTS, WORDS)
def test_no_files_raise(plan: str, journal: str, words: list[str]):
    files = {work.PLAN: plan, work.JOURNAL: journal}
    text, code = work.run(files, words)
    assert (code, ".work/plan is missing or was changed" in text) == (2, True)
    files = {**made("ledger", 20).files, work.JOURNAL: journal}
    assert work.run(files, words)[1] in (0, 1, 2)
    assert 0 <= work.verdict(files, {"units": ["a", "b"], "repeats": 1})[0] < 1


def test_the_same_files_and_words_give_the_same_answer():
    world = made("env_trap", 30)
    one, other = dict(world.files), dict(world.files)
    for command in world.commands:
        words = command.split()[1:]
        assert work.run(one, words) == work.run(other, words)
    assert one == other


def test_a_value_given_twice_differently_or_in_another_form_is_refused():
    files = dict(made("ledger", 20).files)
    assert work.run(files, ["do", "1", "ledger.total=1", "ledger.total=2"]) == (
        "failed unit 1: ledger.total is given twice\n", 1,
    )  # fmt: skip
    assert work.run(files, ["do", "1", "total"]) == (
        "failed unit 1: 'total' is not of the form topic.item=value\n", 1,
    )  # fmt: skip
    assert files == made("ledger", 20).files


def test_more_values_than_needed_do_no_harm():
    world = made("ledger", 20)
    files = dict(world.files)
    values = {**right(world, 1), "more.than": "needed"}
    assert work.run(files, do(1, values).split()[1:])[1] == 0
    assert work.run(files, ["status"]) == (f"done units 1-1\nnext unit 2 of {len(world.commands)}\n", 0)


def test_a_unit_that_was_done_is_done_again_without_effect():
    world = made("ledger", 20)
    files = dict(world.files)
    work.run(files, do(1, right(world, 1)).split()[1:])
    before = dict(files)
    assert work.run(files, ["do", "1"]) == ("it was done before; nothing has changed\ndone unit 1\n", 0)
    assert files == before


def test_at_most_ten_units_are_planned_by_one_call():
    files = dict(made("ledger", 60).files)
    assert work.run(files, ["plan", "1-11"])[1] == 1
    text, code = work.run(files, ["plan", "1-10"])
    assert (code, text.count("\n")) == (0, 10)
    assert work.run(files, ["plan", "51-60"])[0].count("\n") == 1 + len(made("ledger", 60).commands) - 51
