"""``stackmem evidence mine`` finds the sessions of the user's agents, and its first line is the answer."""

import json
import os

import pytest

from stackmem.core.errors import UsageError
from stackmem.lab.bench.evidence import MAX_RECORDING_BYTES
from stackmem.lab.bench.own_sessions import own_sessions
from tests.formats.foreign_runs import codex, gemini
from tests.lab.bench.claude_sessions import working


@pytest.fixture
def home(tmp_path):
    """A home folder with sessions of three agents, and files that are not sessions."""
    files = {
        ".claude/projects/-home-me-shop/one.jsonl": working("one", steps=6).text(),
        ".claude/projects/-home-me-shop/two.jsonl": working("two", steps=16, size=6_000).text(),
        ".claude/projects/-home-me-shop/two/subagents/agent-a.jsonl": working("two", steps=2).text(),
        ".claude/projects/-home-me-shop/empty.jsonl": "",
        ".claude/history.jsonl": "private",
        ".codex/sessions/2026/02/18/rollout-2026-02-18T10-30-00-s1.jsonl": codex(),
        ".codex/auth.json": "private",
        ".gemini/tmp/abc/chats/session-2026-02-18.json": json.dumps(gemini()),
        ".gemini/tmp/abc/logs.json": "[]",
    }
    for number, (name, text) in enumerate(files.items()):
        path = tmp_path / "home" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
    return tmp_path / "home"


def mine(stage, home, *more):
    variables = {"HOME": str(home), "CLAUDE_CONFIG_DIR": "", "CODEX_HOME": ""}
    return stage.call("evidence", "mine", "--jobs", "1", "--strategies", "clear_cold,mask", *more, env=variables)


def test_only_sessions_are_found_newest_first(home):
    found = own_sessions(home, {}, 50)
    assert [path.name for path in found.files] == [
        "session-2026-02-18.json", "rollout-2026-02-18T10-30-00-s1.jsonl", "two.jsonl", "one.jsonl",
    ]  # fmt: skip
    assert found.older == 0
    assert own_sessions(home, {}, 3).older == 1


def test_a_session_that_is_too_large_is_reported_and_not_left_out_silently(stage, home, tmp_path):
    large = home / ".claude/projects/-home-me-shop/large.jsonl"
    large.touch()
    os.truncate(large, MAX_RECORDING_BYTES + 1)
    ran = mine(stage, home)
    assert "large.jsonl: larger than 100,000,000 bytes" in ran.stderr
    assert "5 recordings of 5" in ran.stderr
    assert "your 4 sessions" in ran.stdout.splitlines()[0]
    studied = stage.call("evidence", str(large.parent), "--jobs", "1", "-o", str(tmp_path / "study.md"))
    assert "larger than 100,000,000 bytes" in studied.stderr


def test_links_lead_nowhere(home, tmp_path):
    project = home / ".claude/projects/-home-me-shop"
    (tmp_path / "secret.jsonl").write_text(working("secret", steps=2).text(), "utf-8")
    (project / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    assert "link.jsonl" not in [path.name for path in own_sessions(home, {}, 50).files]


def test_an_agents_folder_can_be_elsewhere(home, tmp_path):
    (home / ".claude").rename(tmp_path / "elsewhere")
    assert len(own_sessions(home, {}, 50).files) == 2
    assert len(own_sessions(home, {"CLAUDE_CONFIG_DIR": str(tmp_path / "elsewhere")}, 50).files) == 4


def test_a_home_without_sessions_is_told_where_they_would_be(tmp_path):
    with pytest.raises(UsageError, match=r"no sessions .* ~/\.claude/projects"):
        own_sessions(tmp_path, {}, 50)


def test_the_first_line_is_the_answer_and_the_rest_says_what_it_depends_on(stage, home):
    ran = mine(stage, home)
    assert ran.returncode == 0, ran.stderr
    first, *others = ran.stdout.splitlines()
    assert first == "No strategy would have been cheaper than the whole history for your 4 sessions."
    text = "\n".join(others)
    assert all(f"{agent} {count}" in text for agent, count in (("claude-code", 2), ("codex", 1), ("gemini-cli", 1)))
    assert {line.split()[0] for line in others if "1.00" in line} >= {"full", "clear_cold"}
    assert "4 recordings of 4" in ran.stderr
    assert "private" not in ran.stdout + ran.stderr
    assert not list(stage.elsewhere.iterdir())


def test_older_sessions_are_counted_and_a_page_is_written_on_request_only(stage, home, tmp_path):
    out = tmp_path / "mine.md"
    ran = mine(stage, home, "--newest", "2", "-o", out)
    assert "2 older sessions are left out; --newest N takes more" in ran.stdout
    assert "| mask middle |" in out.read_text("utf-8")
    assert [path.name for path in tmp_path.glob("mine*")] == ["mine.md"]


def test_a_cheaper_strategy_is_named_with_what_it_would_have_lost(stage, home):
    for number in range(9):
        path = home / f".claude/projects/p/long{number}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text(working(f"long{number}", steps=16, size=9_000, pause=4_000, hidden=500).text(), "utf-8")
    ran = mine(stage, home, "--newest", "9")
    first = ran.stdout.splitlines()[0]
    assert first.startswith("Cheapest for your 9 sessions: ")
    assert "of the facts used later would have left the prompt." in first
    assert "\nA few of 9 sessions decide this sum; an interval needs 75.\n" in ran.stdout
    for number in range(8):
        path = home / f".claude/projects/p/long{number}.jsonl"
        path.write_text(working(f"long{number}", steps=2, size=90).text(), "utf-8")
    assert "\nThe bills differ in 1 of 9 sessions: too few for an interval" in mine(stage, home, "--newest", "9").stdout


def test_files_that_are_not_sessions_are_named_with_the_reason(stage, home):
    (home / ".claude/projects/-home-me-shop/torn.jsonl").write_text('{"type": "summary"}\n', "utf-8")
    ran = mine(stage, home)
    assert "not read: .claude/projects/-home-me-shop/torn.jsonl" in ran.stderr
    assert ran.stdout.startswith("No strategy")


def test_options_of_a_stored_study_do_not_fit(stage, home, tmp_path):
    ran = mine(stage, home, "--rows", tmp_path / "rows.jsonl")
    assert ran.returncode == 2
    assert "stores no figures" in ran.stderr
