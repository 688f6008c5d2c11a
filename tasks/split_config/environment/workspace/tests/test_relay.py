"""relay as its users see it: a command, some files, some variables."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def relay(tmp_path):
    (tmp_path / "inbox").mkdir()

    def run(*arguments, **variables):
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **variables}
        command = [sys.executable, "-m", "relay", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    return run


def feed(folder, *items):
    (folder / "inbox" / "feed.json").write_text(json.dumps([{"id": i, "title": t, "score": s} for i, t, s in items]))


def test_defaults_are_fine(relay):
    assert relay("check").stdout == "ok\n"


def test_flags_win_over_the_environment_and_that_over_the_file(relay, tmp_path):
    (tmp_path / "relay.ini").write_text("[store]\nkeep = 5\n[fetch]\nmax_items = 6\ninbox = in\n")
    out = relay("--set", "store.keep=9", "show", RELAY_STORE_KEEP="7", RELAY_FETCH_MAX_ITEMS="8").stdout
    assert "store.keep = 9  (flag)" in out
    assert "fetch.max_items = 8  (env)" in out
    assert "fetch.inbox = in  (file)" in out


def test_items_are_passed_on_once(relay, tmp_path):
    feed(tmp_path, ("a", "First", 2), ("b", "Second", 3.25))
    assert relay("run").stdout == "2 new, 0 seen, 0 skipped\n"
    assert relay("run").stdout == "0 new, 2 seen, 0 skipped\n"
    assert (tmp_path / "outbox.txt").read_text() == "   2.0  First  [a]\n   3.2  Second  [b]\n"


def test_bad_settings_are_all_named(relay):
    done = relay("--set", "store.keep=0", "--set", "notify.format=xml", "run")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "store.keep: 0 is not between 1 and 10000 (flag)",
        "notify.format: 'xml' is not text or json (flag)",
    ]


def test_the_token_is_masked(relay):
    assert "notify.token = ********89  (env)" in relay("show", RELAY_NOTIFY_TOKEN="0123456789").stdout
