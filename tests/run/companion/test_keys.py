"""Other people's keys under names: none of them can pass for the machine's own key."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from stackmem.core.errors import UsageError
from stackmem.run.companion.keys import OWN, signing_key, trust_key, trusted_keys

KEY, OTHER = "ab" * 32, "cd" * 32


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        OWN,
        "This Machine",
        "THIS MACHINE",
        " this machine ",
        "this  machine",
        "thismachine",
        "this-machine",
        "this_machine.",
        "this\u3164machine",
        "th1s mach1ne",
        "thls rnachine",
        "\uff54\uff48\uff49\uff53 machine",
        "\U0001d42d\U0001d421\U0001d422\U0001d42c machine",
        "th\u00ecs machine",
        "th\u0456s m\u0430\u0441hin\u0435",
        "T\u0397IS MACHI\u039dE",
        "\u0422\u041dI\u0405 \u041c\u0410\u0421\u041d\u0406N\u0415",
        "th\u0131s mach\u0130ne",
        "thi\u017f machine",
        "Ann, this machine",
    ],
)
def test_no_other_key_is_trusted_under_a_name_that_reads_like_this_machines(name: str) -> None:
    with pytest.raises(UsageError, match="looks like 'this machine'"):
        trust_key(os.environ, KEY, name)
    assert trusted_keys(os.environ) == {}


@pytest.mark.parametrize(
    "name", ["", "  ", "a\nb", "a\x1b[2Kb", "th\u200bis machine", "this\u00a0machine", "\u202eenihcam siht", "a\ud800"]
)
def test_a_name_that_cannot_be_shown_as_it_is_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not a name for a key"):
        trust_key(os.environ, KEY, name)


@pytest.mark.parametrize(
    "name", ["Ann's laptop", "the machine in the office", "Jürgen", "山田", "Аня", "machine", "this host", "m5", "7"]
)
def test_ordinary_names_are_kept_as_they_are(name: str) -> None:
    trust_key(os.environ, KEY, name)
    assert trusted_keys(os.environ) == {KEY: name}


def test_a_name_that_an_older_version_accepted_is_not_shown(state: Path) -> None:
    signing_key(os.environ)
    (state / "stackmem" / "keys" / "trusted.json").write_text(json.dumps({KEY: "This machine", OTHER: "Ann"}))
    names = trusted_keys(os.environ)
    assert [names.pop(KEY), names.pop(OTHER), *names.values()] == [f"another machine ({KEY[:16]})", "Ann", OWN]
    trust_key(os.environ, KEY, None)
    assert KEY not in trusted_keys(os.environ)
