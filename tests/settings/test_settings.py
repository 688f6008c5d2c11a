import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.budgets import Budgets, Limits
from stackmem.core.errors import UsageError
from stackmem.run.limits import first_limits
from stackmem.settings.option_values import ValuePlace, read_value
from stackmem.settings.options import FOR_TESTS, OPTIONS, TASK_OPTIONS
from stackmem.settings.settings import Settings, resolve
from tests.run.settings_places import Places


@pytest.fixture
def places(tmp_path) -> Places:
    return Places(tmp_path)


SOURCES = ["--max-steps", "STACKMEM_MAX_STEPS", "stackmem.toml:1", "~/.config/stackmem/config.toml:1", "task.toml"]


@pytest.mark.parametrize("silent", range(6))
def test_the_first_source_that_says_something_holds(places, silent):
    if silent <= 2:
        places.project("max_steps = 3")
    if silent <= 3:
        places.user("max_steps = 4")
    found = places.resolve(
        flags={"max_steps": "1" if silent == 0 else None},
        environ={"STACKMEM_MAX_STEPS": "2"} if silent <= 1 else {},
        task={"max_steps": 5 if silent <= 4 else None},
    )
    value = found.value("max_steps")
    assert (value.value, value.source) == [*zip(range(1, 6), SOURCES, strict=True), (200, "default")][silent]
    assert found.settings.max_steps == value.value
    assert found.is_given("max_steps") == (silent < 5)
    assert found.is_chosen("max_steps") == (silent < 4)


def test_the_table_and_the_settings_agree_on_every_name_and_default():
    settings = Settings()
    assert {name: getattr(settings, name) for name in settings.__struct_fields__} == {
        option.name: option.default for option in OPTIONS.values()
    }


def test_the_defaults_of_the_settings_are_those_of_the_machine(places):
    found = places.resolve()
    assert found.settings.budgets == Budgets()
    assert first_limits(found, "human", None) == Limits(usd=5.0)


def test_every_default_is_a_value_that_its_own_row_accepts():
    place = ValuePlace("test", folder=Path("/"), home="/", textual=False)
    for option in OPTIONS.values():
        if option.default not in (None, ()):
            assert read_value(option, option.default, place) == option.default


def test_a_flag_that_was_not_given_says_nothing(places):
    found = places.user("apply = true\ninclude = ['a']").resolve(flags={"apply": None, "include": [], "model": None})
    assert (found.settings.apply, found.settings.include) == (True, ("a",))


def test_a_flag_that_says_no_overrides_a_file_that_says_yes(places):
    assert places.user("apply = true").resolve(flags={"apply": False}).settings.apply is False


@pytest.mark.parametrize("name", [option.name for option in OPTIONS.values() if option.none_means])
def test_none_takes_back_what_a_file_says(places, name):
    by_kind = {"texts": '["x"]', "address": '"http://h"', "count": "2000", "amount": "2000"}
    value = '"low"' if name == "effort" else by_kind.get(OPTIONS[name].kind, '"x"')
    places.user(f"{name} = {value}")
    empty = () if OPTIONS[name].kind == "texts" else None
    assert getattr(places.resolve().settings, name) != empty
    found = places.resolve(environ={OPTIONS[name].variable: "none"})
    assert getattr(found.settings, name) == empty
    assert found.is_given(name)


@pytest.mark.parametrize("name", ["strategy", "isolation", "fsync", "command_seconds", "heap_chars", "depth", "apply"])
def test_none_is_no_absence_where_a_setting_has_none(places, name):
    if name in ("isolation", "fsync", "strategy"):
        assert getattr(places.resolve(flags={name: "none"}).settings, name) == "none"
    else:
        assert places.refusal(flags={name: "none"}).startswith(f"{OPTIONS[name].flag} is 'none'; write ")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("max_steps", "1_000", 1000), ("max_steps", "1,000,000", 1_000_000), ("max_steps", " 7 ", 7),
        ("max_usd", "0.5", 0.5), ("max_usd", "2", 2.0), ("max_usd", "1e-2", 0.01), ("heap_chars", "0", 0),
        ("heap_chars", "1000000", 1_000_000), ("depth", "0", 0), ("apply", "YES", True), ("yes", "0", False),
        ("include", ".venv:data", (".venv", "data")), ("model", " demo ", "demo"),
        ("check", "make test\nmake lint", "make test\nmake lint"), ("base_url", "https://h:8/v1", "https://h:8/v1"),
    ],
)  # fmt: skip
def test_a_variable_is_read_as_the_kind_of_its_setting(places, name, text, value):
    found = getattr(places.resolve(environ={OPTIONS[name].variable: text}).settings, name)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("max_steps", "0"), ("max_steps", "-1"), ("max_steps", "1.5"), ("max_steps", "1e3"), ("max_steps", "ten"),
        ("max_steps", "1,0"), ("max_steps", "１"), ("max_steps", "0x10"), ("max_steps", "9" * 30),
        ("max_steps", "9" * 9_000), ("max_steps", "1000000001"), ("max_usd", "0"), ("max_usd", "nan"),
        ("max_usd", "inf"), ("max_usd", "1e999"), ("max_usd", "-0.1"), ("max_usd", "5$"), ("command_seconds", "0"),
        ("heap_chars", "1000001"), ("heap_chars", "-1"), ("window_tokens", "999"), ("isolation", "docker"),
        ("isolation", "Auto"), ("network", "on"), ("apply", "maybe"), ("base_url", "localhost:8000"),
        ("base_url", "file:///etc/passwd"), ("base_url", "http://"), ("base_url", "http://h:x"), ("include", "a::b"),
        ("model", ""), ("model", "   "), ("model", "a\x1b[2J"), ("model", "a\nb"), ("model", "x" * 10_001),
        ("model", "\udcff"), ("check", "a\0b"), ("prompt", "~other/p"), ("runs_dir", ""),
    ],
)  # fmt: skip
def test_a_value_that_is_not_accepted_is_refused_with_its_place_and_what_is(places, name, text):
    message = places.refusal(environ={OPTIONS[name].variable: text})
    assert message.startswith(f"{OPTIONS[name].variable} ")
    assert message.endswith(f"; write {OPTIONS[name].accepts}")
    assert len(message) < 300
    assert message.isprintable()


@pytest.mark.parametrize(
    "flags",
    [
        {"max_steps": 1.0}, {"max_steps": True}, {"max_usd": math.nan}, {"max_usd": [1]}, {"model": 5}, {"model": b"x"},
        {"include": [3]}, {"include": [""]}, {"include": {"a": 1}}, {"runs_dir": 3}, {"apply": 1},
        {"isolation": None, "network": 1}, {"base_url": 8000}, {"max_steps": 10**5000}, {"depth": -(10**5000)},
        {"check": object()},
    ],
    ids=lambda flags: next(iter(flags)),
)  # fmt: skip
def test_a_value_of_another_type_is_refused(places, flags):
    assert "; write " in places.refusal(flags=flags)


def test_overridden_values_are_still_checked(places):
    places.user("max_steps = -1")
    assert places.refusal(flags={"max_steps": "5"}) == (
        "~/.config/stackmem/config.toml:1: max_steps is -1; write a whole number from 1 to 1,000,000,000, "
        "or none for no limit"
    )


def test_an_unknown_variable_of_ours_is_refused_with_the_near_one(places):
    message = places.refusal(environ={"STACKMEM_MAX_STEP": "5"})
    assert message == (
        "unknown variable 'STACKMEM_MAX_STEP'; unset it, or rename it (did you mean STACKMEM_MAX_STEPS?)"
    )


def test_variables_of_others_and_those_of_the_tests_say_nothing(places):
    found = places.resolve(environ={**dict.fromkeys(FOR_TESTS, "1"), "STACK": "", "stackmem_x": ""})
    assert not any(found.is_given(name) for name in OPTIONS)


def test_an_unknown_name_among_the_flags_is_refused_with_the_near_one(places):
    assert places.refusal(flags={"max-step": 5}) == "no setting 'max-step'; did you mean max_steps?"


@pytest.mark.parametrize("name", [name for name in OPTIONS if name not in TASK_OPTIONS])
def test_a_task_sets_nothing_but_limits(places, name):
    assert places.refusal(task={name: "x"}).startswith(f"task.toml: {name!r} cannot be set by a task; ")


def test_relative_paths_start_where_they_are_written(places):
    places.cwd = places.repository / "below"
    places.cwd.mkdir()
    places.user('prompt = "p.md"\nprofile = "~/s.toml"\nruns_dir = "/r"')
    found = places.resolve(flags={"sandbox_dir": "w"}).settings
    assert found.prompt == places.own.parent / "p.md"
    assert found.profile == places.home / "s.toml"
    assert found.runs_dir == Path("/r")
    assert found.sandbox_dir == places.cwd / "w"


def test_a_missing_home_is_not_guessed(tmp_path):
    with pytest.raises(UsageError, match="starts with ~ and HOME is not set"):
        resolve({"prompt": "~/p"}, {}, tmp_path)


@given(name=st.sampled_from(sorted(OPTIONS)), raw=st.text() | st.integers() | st.floats() | st.lists(st.text()))
def test_whatever_is_given_is_a_setting_or_a_refusal(name, raw):
    option = OPTIONS[name]
    place = ValuePlace("somewhere", folder=Path("/f"), home="/h", split=":")
    try:
        value = read_value(option, raw, place)
    except UsageError as error:
        refusal = str(error)
    else:
        assert value == read_value(option, value if value is not None else "none", place)
        return
    assert refusal.isprintable()
    assert refusal.endswith(option.accepts)
