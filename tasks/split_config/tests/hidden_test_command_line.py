"""The command line, side by side with the original: what it prints, writes and returns, byte for byte."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

HERE = Path(__file__).parent
WORKSPACE = Path(os.environ["WORKSPACE"])
APART = shlex.split(os.environ.get("APART", ""))  # holds the code under test apart from this folder and the verdict

FEEDS = {
    "a.json": json.dumps(
        [{"id": "1", "title": "Parser News", "score": 2.25}, {"id": "2", "title": "weather", "score": 9}]
    ),
    "b.json": json.dumps([{"id": "3", "title": "More news"}, {"id": "1", "title": "Parser News", "score": 2.25}]),
    "c.json": "{broken",
    "d.json": '[{"title": "no id"}]',
    "e.txt": "not looked at",
}
INI = "[store]\nkeep = 2\nPath = seen.json\n[fetch]\nkeywords = News, PARSER ,\nmin_score = 0.5\n[app]\ndebug = on\n"

# Name: arguments, variables, relay.ini (None: no such file). A case with `run` is played twice in its folder.
CASES = {
    "defaults": (["run"], {}, None),
    "show defaults": (["show"], {}, None),
    "check defaults": (["check"], {}, None),
    "a file": (["run"], {}, INI),
    "show a file": (["show"], {}, INI),
    "environment over file": (["show"], {"RELAY_STORE_KEEP": "7", "RELAY_APP_DEBUG": " Off "}, INI),
    "flags over both": (["--set", "store.keep=9", "show", "--set", "store.keep= 8 "], {"RELAY_STORE_KEEP": "7"}, INI),
    "a flag with an equals sign": (["--set", "notify.token=a=b=c", "show"], {}, None),
    "debug": (["--debug", "run"], {}, None),
    "debug set off again": (["--debug", "--set", "app.debug=0", "run"], {}, None),
    "keywords": (["--set", "fetch.keywords=weather,,", "run"], {}, None),
    "max items": (["--set", "fetch.max_items=1", "run"], {}, None),
    "min score": (["run"], {"RELAY_FETCH_MIN_SCORE": "2.25"}, None),
    "json": (["run"], {"RELAY_NOTIFY_FORMAT": " JSON ", "RELAY_NOTIFY_TOKEN": " s3cret-token "}, None),
    "other places": (["--set", "store.path=x/../s.json", "--set", "notify.outbox=o.txt", "run"], {}, None),
    "an inbox that is not there": (["--set", "fetch.inbox=nowhere", "run"], {}, None),
    "an inbox with brackets": (["--set", "fetch.inbox=in[b]ox", "run"], {}, None),
    "a short token is masked": (["show"], {"RELAY_NOTIFY_TOKEN": "12345678"}, None),
    "a long token is masked": (["show"], {"RELAY_NOTIFY_TOKEN": "123456789"}, None),
    "every problem at once": (
        ["--set", "store.keep=0", "--set", "fetch.max_items=1001", "--set", "nonsense", "--set", "a.b=c", "check"],
        {"RELAY_APP_DEBUG": "perhaps", "RELAY_FETCH_MIN_SCORE": "nan", "RELAY_STORE_PATH": " ", "RELAY_FETCH_INBOX": "",
         "RELAY_NOTIFY_OUTBOX": "\t", "RELAY_NOTIFY_FORMAT": "Xml", "RELAY_NOPE": "1", "RELAY_": "2"},
        "[extra]\nkey = 1\n[fetch]\nretries = 3\n",
    ),
    "problems stop a run": (["run"], {"RELAY_FETCH_MAX_ITEMS": "1.5", "RELAY_STORE_KEEP": "many"}, None),
    "json without a token": (["run", "--set", "notify.format=json"], {}, None),
    "one file for two things": (["check", "--set", "notify.outbox=relay.json"], {}, None),
    "the same unknown flag twice": (["--set", "x.y=1", "--set", "x.y=2", "check"], {}, None),
    "a file that is none": (["check"], {}, "no section = 1\n"),
    "a file with a twin": (["check"], {}, "[store]\nkeep = 1\nkeep = 2\n"),
    "a file with defaults": (["show"], {}, "[DEFAULT]\nkeep = 5\n[store]\npath = p.json\n"),
    "a percent sign": (["show"], {}, "[notify]\noutbox = 100%.txt\n"),
    "a named file": (["show"], {"RELAY_CONFIG": "other.ini"}, None),
    "a named file that is missing": (["check"], {"RELAY_CONFIG": "missing.ini"}, INI),
    "an empty file name": (["check"], {"RELAY_CONFIG": ""}, INI),
    "show with problems": (["show"], {"RELAY_STORE_KEEP": "x", "RELAY_CONFIG": "missing.ini"}, None),
    "no command": ([], {}, None),
    "two commands": (["show", "check"], {}, None),
    "an unknown command": (["--verbose", "run"], {}, None),
    "set without a value": (["show", "--set"], {}, None),
}  # fmt: skip


def play(package, folder, case):
    """What a case prints and leaves behind in a fresh folder."""
    arguments, variables, ini = CASES[case]
    for inbox in ("inbox", "in[b]ox"):
        (folder / inbox).mkdir(parents=True)
        for name, text in FEEDS.items():
            (folder / inbox / name).write_text(text, encoding="utf-8")
    (folder / "other.ini").write_text("[store]\nkeep = 33\n", encoding="utf-8")
    (folder / "x").mkdir()
    if ini is not None:
        (folder / "relay.ini").write_text(ini, encoding="utf-8")
    rounds = [
        subprocess.run(
            [*(APART if package == WORKSPACE else ()), sys.executable, "-P", "-B", "-m", "relay", *arguments],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(package), **variables},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        for _ in range(2 if "run" in arguments else 1)
    ]
    written = {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}
    return {"rounds": [(done.returncode, done.stdout, done.stderr) for done in rounds], "written": written}


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    def both(case):
        folder = tmp_path_factory.mktemp("case")
        return [play(package, folder / name, case) for name, package in (("old", HERE / "project"), ("new", WORKSPACE))]

    tmp_path_factory.getbasetemp()  # is made by the first who asks, which two threads at once may not be
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(CASES, pool.map(both, CASES), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_the_command_line_is_what_it_was(played, case):
    old, new = played[case]
    assert new == old


def test_the_tests_that_were_there_still_pass(tmp_path):
    shutil.copytree(WORKSPACE / "relay", tmp_path / "relay", symlinks=True)
    shutil.copytree(HERE / "project" / "tests", tmp_path / "tests")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")  # and pytest looks no further up
    command = [*APART, sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "pytest.ini"]
    done = subprocess.run(
        [*command, "tests"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout
