import os
import threading
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.settings.options import OPTIONS
from stackmem.settings.settings_files import MAX_FILE_BYTES, line_of, user_path
from tests.run.settings_places import Places


@pytest.fixture
def places(tmp_path) -> Places:
    return Places(tmp_path)


@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if not option.project])
@pytest.mark.parametrize("file", ["stackmem.toml", "pyproject.toml"])
def test_a_project_that_widens_its_reach_is_refused_with_the_flag(places, name, file):
    head = "" if file == "stackmem.toml" else "[project]\nname = 'x'\n[tool.stackmem]\n"
    places.project(f"{head}max_steps = 5\n{name} = 'x'\n", file)
    line = head.count("\n") + 2
    assert places.refusal(flags={name: None}) == (
        f"{file}:{line}: {name} cannot be set by a project; use {OPTIONS[name].flag}, {OPTIONS[name].variable} "
        "or your own configuration file"
    )


@pytest.mark.parametrize("key", ["mounts", "mount", "env", "environment", "path"])
def test_profile_settings_are_refused_elsewhere(places, key):
    places.project(f"{key} = ['/']")
    assert f"stackmem.toml:1: {key} cannot be set by a project; use --profile" in places.refusal()
    places.project("").user(f"{key} = ['/']")
    assert f"config.toml:1: {key} belongs in a sandbox profile" in places.refusal()


@pytest.mark.parametrize("key", ["plugins", "tool_servers", "mcp_servers", "api_key", "tool", "", "MAX_STEPS"])
def test_an_unknown_key_is_refused_in_both_files(places, key):
    places.project(f'"{key}" = 1')
    assert places.refusal().startswith(f"stackmem.toml:1: no setting '{key}'; ")
    places.project("").user(f'"{key}" = 1')
    assert places.refusal().startswith("~/.config/stackmem/config.toml:1: no setting ")


def test_a_key_that_would_play_with_the_terminal_is_shown_escaped(places):
    message = places.project('"\u202e" = 1').refusal()
    assert message.startswith(r"stackmem.toml:1: no setting '\u202e'; ")


def test_a_near_key_is_suggested(places):
    assert places.project("max-step = 1").refusal() == "stackmem.toml:1: no setting 'max-step'; did you mean max_steps?"


def test_a_value_of_an_unknown_key_is_not_repeated(places):
    assert "hunter2" not in places.project("api_key = 'hunter2'").refusal()


def test_a_project_names_models_and_no_scripts(places):
    assert places.project("model = 'anthropic/x'").resolve().settings.model == "anthropic/x"
    message = places.project("model = ' script:evil.yaml'").refusal()
    assert message == "stackmem.toml:1: a project can name a model, but not a script; use --model"
    assert places.project("").user("model = 'script:mine.yaml'").resolve().settings.model == "script:mine.yaml"


def test_a_project_sets_model_strategy_limits_and_checks(places):
    places.project(
        "[tool.stackmem]\nmodel = 'demo'\nstrategy = 'full'\ncheck = 'make'\nmax_usd = 'none'\ncommand_seconds = 5\n",
        "pyproject.toml",
    )
    found = places.resolve()
    assert (found.settings.strategy, found.settings.check, found.settings.max_usd) == ("full", "make", None)
    assert (found.settings.command_seconds, found.value("strategy").source) == (5.0, "pyproject.toml:3")


@pytest.mark.parametrize(
    "line",
    ["max_steps = '5'", "max_steps = 5.0", "max_steps = true", "max_steps = 1979-05-27", "max_steps = [5]",
     "max_steps = {}", "[max_steps]", "[[max_steps]]", "max_steps.x = 1", "max_usd = nan", "max_usd = -inf",
     "model = 1", "model = ''", "check = ['make']", "check = '''\n\n'''", "depth = -1", "max_steps = 0x" + "f" * 9_000],
    ids=lambda line: line[:20],
)  # fmt: skip
def test_a_value_of_the_wrong_type_is_refused_with_its_line(places, line):
    message = places.project(f"# one\n\n{line}\n").refusal()
    assert message.startswith("stackmem.toml:3: ")
    assert "; write " in message
    assert len(message) < 250


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("max_steps =\n", "stackmem.toml:1:12: not TOML: invalid value; "),
        ("a = 1\nb = = 2", "stackmem.toml:2:5: not TOML: "),
        ("depth = 1\ndepth = 2", "stackmem.toml:"),
        ("a = '''\n\n", "stackmem.toml:3: not TOML: "),
        ("a=" + "[" * 50_000, "stackmem.toml: nested too deeply; "),
        ("max_steps = " + "1" * 9_000, "stackmem.toml: not TOML: a number in it has too many digits; "),
        ("\n" + "a." * 100_000 + "a = 1", "stackmem.toml:2: more than 250 dots; "),
        ("# " + "x" * MAX_FILE_BYTES, "stackmem.toml is larger than "),
    ],
)
def test_broken_toml_is_refused_with_its_place(places, text, start):
    assert places.project(text).refusal().startswith(start)


def test_undecodable_bytes_are_refused_with_their_position(places):
    (places.repository / "stackmem.toml").write_bytes(b"# ok\n# \xff")
    assert places.refusal() == "stackmem.toml:2:3: byte 0xff is not UTF-8; save it as UTF-8"


def test_a_byte_order_mark_and_windows_line_ends_are_read(places):
    (places.repository / "stackmem.toml").write_bytes(b"\xef\xbb\xbf# hi\r\nmax_steps = 5\r\n")
    assert places.resolve().value("max_steps").source == "stackmem.toml:2"


def test_a_pipe_or_folder_in_place_of_a_file_is_refused_and_not_waited_for(places):
    os.mkfifo(places.repository / "stackmem.toml")
    asked: list[str] = []
    asking = threading.Thread(target=lambda: asked.append(places.refusal()), daemon=True)
    asking.start()
    asking.join(100)
    assert asked == ["stackmem.toml cannot be read (it is a FIFO, not a regular file); make it readable or remove it"]
    (places.repository / "stackmem.toml").unlink()
    (places.repository / "stackmem.toml").mkdir()
    assert places.refusal() == "stackmem.toml cannot be read (Is a directory); make it readable or remove it"


def test_a_link_to_nothing_or_to_itself_is_refused(places):
    link = places.repository / "stackmem.toml"
    link.symlink_to("missing")
    assert places.refusal() == "stackmem.toml is a broken link; fix or remove it"
    link.unlink()
    link.symlink_to(link)
    assert places.refusal().startswith("stackmem.toml cannot be read (")


@pytest.mark.parametrize("broken", [b"[project\n", b"\xff\xfe", b"x" * (MAX_FILE_BYTES + 5), b"a." * 100_000 + b"a=1"])
def test_a_pyproject_that_does_not_name_us_is_not_judged(places, broken):
    (places.repository / "pyproject.toml").write_bytes(broken)
    assert not places.resolve().is_given("max_steps")


def test_a_pyproject_that_names_us_without_a_table_says_nothing(places):
    places.project("[project]\nname = 'stackmem'\n[tool.other]\nmax_steps = 3", "pyproject.toml")
    assert not places.resolve().is_given("max_steps")


def test_a_pyproject_whose_table_is_none_is_refused(places):
    message = places.project("[tool]\nstackmem = 5", "pyproject.toml").refusal()
    assert message == "pyproject.toml: tool.stackmem is not a table; write the settings below [tool.stackmem]"


def test_two_files_in_one_folder_are_refused(places):
    places.project("max_steps = 5").project("[tool.stackmem]\nmax_steps = 5", "pyproject.toml")
    assert places.refusal().startswith("stackmem.toml and [tool.stackmem] in pyproject.toml both contain settings; ")


def test_the_nearest_file_up_to_the_root_of_the_repository_holds(places):
    places.cwd = places.repository / "a" / "b"
    places.cwd.mkdir(parents=True)
    (places.home / "stackmem.toml").write_text("max_steps = 1")
    assert not places.resolve().is_given("max_steps")
    places.project("max_steps = 2")
    assert places.resolve().value("max_steps").source == "../../stackmem.toml:1"
    (places.repository / "a" / "pyproject.toml").write_text("[tool.stackmem]\nmax_steps = 3")
    assert places.resolve().value("max_steps").source == "../pyproject.toml:2"
    (places.cwd / "pyproject.toml").write_text("[project]\nname = 'nothing of ours'")
    assert places.resolve().settings.max_steps == 3


def test_outside_of_a_repository_only_the_folder_itself_counts(places):
    (places.repository / ".git").rmdir()
    places.cwd = places.repository / "below"
    places.cwd.mkdir()
    places.project("max_steps = 2")
    assert not places.resolve().is_given("max_steps")
    (places.cwd / "stackmem.toml").write_text("max_steps = 3")
    assert places.resolve().settings.max_steps == 3


def test_a_worktree_whose_git_is_a_file_is_a_repository(places):
    (places.repository / ".git").rmdir()
    (places.repository / ".git").write_text("gitdir: elsewhere")
    places.cwd = places.repository / "below"
    places.cwd.mkdir()
    assert places.project("max_steps = 2").resolve().settings.max_steps == 2


def test_the_users_own_file_may_set_everything(places):
    places.user("isolation = 'none'\nnetwork = 'host'\nbase_url = 'http://h'\ninclude = ['.venv']\nyes = true\n")
    found = places.resolve()
    assert (found.settings.isolation, found.settings.network, found.settings.yes) == ("none", "host", True)
    assert found.value("network").source == "~/.config/stackmem/config.toml:2"


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"XDG_CONFIG_HOME": "/x", "HOME": "/h"}, "/x/stackmem/config.toml"),
        ({"XDG_CONFIG_HOME": "x", "HOME": "/h"}, "/h/.config/stackmem/config.toml"),
        ({"XDG_CONFIG_HOME": "", "HOME": "/h"}, "/h/.config/stackmem/config.toml"),
        ({"HOME": "h"}, None),
        ({}, None),
    ],
)
def test_the_users_own_file_is_where_xdg_says(environ, path):
    found = user_path(environ)
    assert (str(found) if found else None) == path


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("depth = 1", 1),
        ("x = '''\ndepth = 3\n'''\ndepth = 1", 4),
        ("x = [\n'depth = 1',\n]\n# depth\n'depth' = [\n1,\n]", 5),
        ("[a]\ndepth = 1\n", None),
        ("d = 1\n[depth]\nx = 1", 2),
        ('"de\\u0070th" = 1', None),
        ("depth = 1\n" + "#" * 40_000, None),
        ("x = '''\n" + "depth\n" * 1_000 + "'''\ndepth = 1", None),
        ("", None),
    ],
)
def test_the_line_of_a_key_is_right_or_not_told(text, line):
    assert line_of(text, ("depth",)) == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[other]\ndepth = 1\n[tool.stackmem]\ndepth = 2\n", 4),
        ("[tool.stackmem]\ndepth = 2\n[other]\ndepth = 1\n", 2),
        ("[tool]\nstackmem = {depth = 1}", 2),
        ("tool.stackmem.depth = 1", 1),
        ("[tool.stackmem.depth]", 1),
    ],
)
def test_the_line_of_a_key_is_that_of_its_own_table(text, line):
    assert line_of(text, ("tool", "stackmem", "depth")) == line


LINES = st.sampled_from(
    ["depth = 1", "x = '''", "'''", "y = [", "]", "[t]", "depth.a = 1", "# depth", "z = 'depth'", ""]
)


@given(st.lists(LINES, max_size=12))
def test_a_line_that_is_told_brings_the_key(lines):
    text = "\n".join(lines)
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    line = line_of(text, ("depth",))
    assert (line is not None) == ("depth" in values)
    if line is not None:
        assert lines[line - 1].startswith("depth")
