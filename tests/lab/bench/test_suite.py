"""Suites: the content of a TOML file, flags that override it, and refusals."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.errors import UsageError
from stackmem.lab.bench.plan import Variant
from stackmem.lab.bench.planning import numbers, split_strategies
from stackmem.lab.bench.suite import MAX_BYTES, SuiteRequest, merge, read_suite

WHOLE = """
about = "the index"
worlds = "all"
tasks = ["calculator", "./own", "beside"]
strategies = ["full"]
models = ["sim/bounded-reader"]
trials = 3
horizons = [60, 300]
noise = [1]
price = "claude-opus-5-5"
latency_seconds = 5
session = "frame"
pause_seconds = 60
keep_traces = "failed"
[settings]
isolation = "none"
max_steps = "none"
prompt = "words.md"
[[variants]]
name = "heap of 2,000"
strategy = "stackheap"
heap_chars = 2_000
[[variants]]
strategy = "stackheap:index=tail"
[[variants]]
name = "new session each"
strategy = "full"
session = "new"
"""


def read(tmp_path, text: str | bytes) -> SuiteRequest:
    path = tmp_path / "suite.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_suite(path, "/home/somebody")


def test_a_whole_suite_says_what_it_asks_for(tmp_path):
    (tmp_path / "beside").mkdir()
    assert read(tmp_path, WHOLE) == SuiteRequest(
        description="the index",
        worlds=("all",),
        tasks=("calculator", str(tmp_path / "own"), str(tmp_path / "beside")),
        strategies=("full",),
        variants=(
            Variant("heap of 2,000", "stackheap", {"heap_chars": 2_000}),
            Variant("stackheap:index=tail", "stackheap:index=tail"),
            Variant("new session each", "full", session="new"),
        ),
        models=("sim/bounded-reader",),
        trials=3,
        horizons=(60, 300),
        noise=(1,),
        price="claude-opus-5-5",
        latency_seconds=5,
        session="frame",
        pause_seconds=60,
        keep_traces="failed",
        settings={"isolation": "none", "max_steps": "none", "prompt": str(tmp_path / "words.md")},
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("wrlds = ['x']", "'wrlds' is not a key of a suite; did you mean worlds"),
        ("trials = 'three'", "Expected `int"),
        ("trials = 1.5", "Expected `int"),
        ("horizons = 60", "Expected `array"),
        ("horizons = ['60']", "Expected `float"),
        ("models = [1]", "Expected `str`"),
        ("keep_traces = 'some'", "Invalid enum value 'some'"),
        ("settings = 1", "settings is not a table"),
        ("session = 'old'", "Invalid enum value 'old'"),
        ("[[variants]]\nstrategy = 'full'\nsession = 'new'", "has its own settings, so it needs a name"),
        ("[settings]\ndepth = 'deep'", "depth is 'deep'"),
        ("[settings]\ndepth = 1_000", "depth is 1000"),
        ("[settings]\nruns_dir = '/'", "'runs_dir' is not a setting of a bench"),
        ("[settings]\nmodel = 'demo'", "'model' is not a setting of a bench"),
        ("[settings]\ncheck = 'true'", "'check' is not a setting of a bench"),
        ("variants = 1", "variants must be a list of tables"),
        ("variants = [1]", "variants must be a list of tables"),
        ("[[variants]]\nname = 'x'", "a variant has no strategy"),
        ("[[variants]]\nstrategy = 1", "a variant has no strategy"),
        ("[[variants]]\nstrategy = 'full'\nname = 2", "Expected `str`"),
        ("[[variants]]\nstrategy = 'full'\ndepth = 2", "needs a name"),
        ("[[variants]]\nstrategy = 'full'\nname = 'x'\nsandbox_dir = '/'", "'sandbox_dir' is not a setting"),
        ("worlds = [", "is not valid TOML"),
        (b"\xff", "is not valid TOML"),
        ("x = " + "[" * 20_000, "is not valid TOML"),
        ("#" * (MAX_BYTES + 1), "at most"),
    ],
)
def test_a_suite_that_cannot_be_is_one_sentence(tmp_path, text, said):
    with pytest.raises(UsageError, match=said.replace("[", r"\[")):
        read(tmp_path, text)


def test_a_suite_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(UsageError, match="name a TOML file"):
        read_suite(tmp_path / "none.toml", "")


def test_a_flag_goes_over_the_suite_and_settings_go_one_by_one(tmp_path):
    suite = read(tmp_path, WHOLE)
    asked = merge(SuiteRequest(trials=1, settings={"isolation": "auto", "depth": 2}), suite)
    assert (asked.trials, asked.models, asked.variants) == (1, suite.models, suite.variants)
    assert asked.settings == {**suite.settings, "isolation": "auto", "depth": 2}


def test_strategies_of_a_flag_replace_variants_and_tasks_replace_worlds(tmp_path):
    suite = read(tmp_path, WHOLE)
    assert merge(SuiteRequest(strategies=("full",)), suite).variants == ()
    assert merge(SuiteRequest(tasks=("calculator",)), suite).worlds == ()
    assert merge(SuiteRequest(worlds=("ledger",)), suite).tasks == ()


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (["full,stackheap"], ("full", "stackheap")),
        (["stackheap:index=tail,full"], ("stackheap:index=tail", "full")),
        (["stackheap:index=tail,descriptions=off,full"], ("stackheap:index=tail,descriptions=off", "full")),
        (["full:5,15,full"], ("full:5,15", "full")),
        (["full", "stackheap:index=delta"], ("full", "stackheap:index=delta")),
        ([" full , stackheap ,"], ("full", "stackheap")),
        (["all"], ("all",)),
        (["fulll,stackheap"], ("fulll", "stackheap")),
        (["stackheap,fulll"], ("stackheap", "fulll")),
        (["10,full"], ("10", "full")),
        ([""], ()),
    ],
)
def test_a_comma_separates_strategies_only_before_a_strategy_name(given, found):
    assert split_strategies(given) == found


@given(st.text())
def test_any_list_of_strategies_can_be_split(text):
    assert all(isinstance(name, str) and name for name in split_strategies([text]))


def test_numbers_are_read_and_anything_else_is_one_sentence():
    assert numbers("60, 300,", "--horizon") == (60.0, 300.0)
    with pytest.raises(UsageError, match="--horizon: 'sixty' is not a list of numbers"):
        numbers("sixty", "--horizon")


@pytest.mark.timeout(20)
def test_a_suite_that_is_a_pipe_or_a_folder_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "folder.toml").mkdir()
    for name in ("pipe.toml", "folder.toml"):
        with pytest.raises(UsageError, match="is not a regular file; name a TOML file"):
            read_suite(tmp_path / name, "/home/somebody")
