import json
from pathlib import Path

import pytest

from scripts.configuration import options_table
from stackmem.cli.commands.config import config_json, config_rows, config_text
from stackmem.settings.options import OPTIONS
from stackmem.settings.settings import resolve
from tests.house.sources import ROOT

SECRETS = {"API_TOKEN": "correct-horse", "STACKMEM_MAX_TOKENS": "123456789"}


def shown(flags=None, environ=SECRETS):
    return config_rows(resolve(flags or {}, environ, Path("/nowhere")), environ)


def row(rows, name):
    return next(row for row in rows if row.name == name)


def test_every_setting_is_shown_with_its_source():
    rows = shown({"max_steps": "7"})
    assert [row.name for row in rows] == list(OPTIONS)
    assert row(rows, "max_steps")[1:] == (7, "7", "--max-steps")
    assert row(rows, "max_tokens")[1:] == (123_456_789, "123,456,789", "STACKMEM_MAX_TOKENS")
    assert row(rows, "model")[1:] == (None, OPTIONS["model"].default_text, "default")
    assert len(config_text(rows).splitlines()) == len(OPTIONS)


def test_none_defaults_are_explained():
    assert row(shown({"max_usd": "none"}), "max_usd").text == "none (no limit)"
    assert row(shown({"include": ["none"]}), "include").text == "none (no ignored files)"


@pytest.mark.parametrize(
    "flags",
    [
        {"base_url": "http://me:hunter22@host/v1"},
        {"base_url": "http://hunter22@host/v1"},
        {"base_url": "http://host/v1?key=hunter22"},
        {"base_url": "http://host/v1#hunter22"},
        {"base_url": "http://a@b:hunter22@host/"},
        {"check": "KEY=correct-horse make"},
        {"include": ["a", "correct-horse"]},
        {"runs_dir": "/runs/correct-horse"},
        {"model": "-".join(("sk", "ant", "abcdefghijklmnop" * 2))},
    ],
)
def test_no_secret_is_shown(flags):
    rows = shown(flags)
    for text in (config_text(rows), config_json(rows)):
        assert "[secret" in text
        assert not any(secret in text for secret in ("hunter22", "correct-horse", "abcdefghijklmnop"))


def test_a_refused_address_does_not_show_its_login():
    with pytest.raises(Exception, match=r"--base-url is 'ftp://\[secret\]@host/'; write an address") as raised:
        shown({"base_url": "ftp://me:hunter22@host/"})
    assert "hunter22" not in str(raised.value)


def test_a_value_stays_on_its_line_and_cannot_play_with_the_terminal():
    rows = shown({"check": "make\n\tx\u202e", "runs_dir": "/r/\udcff"})
    assert row(rows, "check").text == r"make\n\tx\u202e"
    assert all(line.isprintable() for line in config_text(rows).splitlines())
    assert config_json(rows).encode("utf-8")


def test_programs_get_plain_values():
    found = {row["name"]: row["value"] for row in json.loads(config_json(shown({"include": ["a"], "max_usd": "2"})))}
    assert (found["include"], found["max_usd"], found["apply"], found["model"]) == (["a"], 2.0, False, None)


def test_the_page_on_configuration_holds_the_table_of_options():
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    table = page.split("<!-- options -->\n")[1].split("\n<!-- end of options -->")[0]
    assert table == options_table(), "run: python scripts/configuration.py"


def test_values_do_not_break_table_columns():
    assert {line.count("|") for line in options_table().splitlines()} == {7}


@pytest.mark.parametrize("option", OPTIONS.values(), ids=OPTIONS)
def test_the_help_of_a_flag_is_sentences_and_names_the_default(option):
    assert option.says.endswith(".")
    assert option.help_text.endswith(f" Default: {option.default_text}.")
