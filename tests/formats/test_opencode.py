"""opencode's database and its export give the same session. A hostile database is refused and changes no file."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from stackmem.core.errors import UsageError
from stackmem.core.pricing import cost_usd
from stackmem.foreign import databases
from stackmem.formats.import_ import facts_of, import_file, read_sessions
from stackmem.formats.recordings.opencode import read_opencode
from stackmem.formats.recordings.session import RecordedReply, RecordedSession, RecordedSummary
from stackmem.models.catalog import lookup
from tests.doors.gateway.clients import provider
from tests.doors.gateway.clients.spelling import OUTPUT
from tests.doors.gateway.clients.table import CLIENTS, place_of, run

Json = dict[str, Any]
INSTALLED = Path(os.environ.get("STACKMEM_CLIENTS", "/nonexistent"))
SCHEMA = """
CREATE TABLE `session` (`id` text PRIMARY KEY, `project_id` text NOT NULL, `parent_id` text, `slug` text NOT NULL,
  `directory` text NOT NULL, `title` text NOT NULL, `version` text NOT NULL, `cost` real DEFAULT 0 NOT NULL,
  `revert` text, `model` text, `time_created` integer NOT NULL, `time_updated` integer NOT NULL);
CREATE TABLE `message` (`id` text PRIMARY KEY, `session_id` text NOT NULL, `time_created` integer NOT NULL,
  `time_updated` integer NOT NULL, `data` text NOT NULL,
  CONSTRAINT `fk` FOREIGN KEY (`session_id`) REFERENCES `session`(`id`) ON DELETE CASCADE);
CREATE TABLE `part` (`id` text PRIMARY KEY, `message_id` text NOT NULL, `session_id` text NOT NULL,
  `time_created` integer NOT NULL, `time_updated` integer NOT NULL, `data` text NOT NULL,
  CONSTRAINT `fk` FOREIGN KEY (`message_id`) REFERENCES `message`(`id`) ON DELETE CASCADE);
"""
"""The columns of version 1.18.33, without those that an import does not need."""


def user(at: int, *parts: Json) -> Json:
    return {"info": {"role": "user", "time": {"created": at}}, "parts": [*parts]}


def reply(at: int, *parts: Json, **info: Any) -> Json:
    used = {"input": at % 97, "output": 2, "reasoning": 1, "cache": {"read": 5, "write": 7}}
    whole = {"role": "assistant", "modelID": "claude-sonnet-5-5", "cost": 0, "tokens": used,
             "time": {"created": at, "completed": at + 5}, **info}  # fmt: skip
    return {
        "info": whole,
        "parts": [{"type": "step-start"}, *parts, {"type": "step-finish", "tokens": used, "cost": 0}],
    }


def call(name: str, at: int, session: str = "", exit_code: int = 0) -> Json:
    inside = {"sessionId": session, "parentSessionId": "ses_1"} if session else {"exit": exit_code}
    state = {"status": "completed", "input": {"command": name}, "output": f"{name} done", "metadata": inside,
             "time": {"start": at, "end": at + 1}}  # fmt: skip
    return {"type": "tool", "callID": f"call_{name}", "tool": "task" if session else "bash", "state": state}


def said(text: str) -> Json:
    return {"type": "text", "text": text}


def exported(name: str, parent: str | None, *messages: Json) -> Json:
    """Return a session in the form of an export, with the ids that opencode adds."""
    copies = deepcopy(messages)
    for number, one in enumerate(copies, 1):
        one["info"] |= {"id": f"msg_{name}_{number}", "sessionID": name}
        for place, part in enumerate(one["parts"], 1):
            part |= {"id": f"prt_{name}_{number}_{place}", "messageID": one["info"]["id"], "sessionID": name}
    return {"info": {"id": name, "parentID": parent, "title": f"title of {name}", "version": "1.18.33",
                     "directory": "/w"}, "messages": list(copies)}  # fmt: skip


MAIN = exported(
    "ses_1", None, user(1_000, said("count")), reply(2_000, said("I look."), call("ls", 2_001, exit_code=2)),
    reply(3_000, call("first", 3_001, "ses_2")), reply(5_000, call("again", 5_001, "ses_2")),
    user(6_000, {"type": "compaction", "auto": True, "tail_start_id": "msg_ses_1_4"}),
    reply(6_500, said("So far: 2."), summary=True), user(6_600, said("Continue.")), reply(7_000, said("Two.")),
)  # fmt: skip
SUB = exported(
    "ses_2", "ses_1", user(3_100, said("look here")), reply(3_200, said("one")),
    user(5_100, said("look there")), reply(5_200, call("cat", 5_201)), reply(5_300, said("two")),
)  # fmt: skip
LOST = exported("ses_3", "ses_1", user(4_000, said("aside")), reply(4_100, said("hm")))
EMPTY = exported("ses_4", None)


def store(database: sqlite3.Connection, *sessions: Json) -> None:
    for session in sessions:
        info = session["info"]
        database.execute(
            "INSERT INTO session VALUES (?, 'p', ?, 's', ?, ?, ?, 0, NULL, NULL, ?, 0)",
            (info["id"], info["parentID"], info["directory"], info["title"], info["version"], len(info["id"])),
        )
        for one in session["messages"]:
            data = {name: value for name, value in one["info"].items() if name not in ("id", "sessionID")}
            row = (one["info"]["id"], info["id"], data["time"]["created"], json.dumps(data))
            database.execute("INSERT INTO message VALUES (?, ?, ?, 0, ?)", row)
            for part in one["parts"]:
                data = {name: part[name] for name in part if name not in ("id", "messageID", "sessionID")}
                row = (part["id"], one["info"]["id"], info["id"], json.dumps(data))
                database.execute("INSERT INTO part VALUES (?, ?, ?, 0, 0, ?)", row)


def created(path: Path, *sessions: Json, more: str = "") -> Path:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.executescript(SCHEMA)
        store(database, *sessions)
        database.executescript(more)
    return path


def turns(session: RecordedSession) -> list[Any]:
    return [msgspec.to_builtins(one) for one in facts_of(session)]


def kept(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_a_database_and_an_export_give_the_same_session(tmp_path: Path) -> None:
    alone = exported("ses_1", None, *(one for number, one in enumerate(MAIN["messages"]) if number not in (2, 3)))
    created(tmp_path / "opencode.db", alone, EMPTY)
    (stored,) = read_sessions(tmp_path / "opencode.db")
    (tmp_path / "export.json").write_text(json.dumps(alone))
    (whole,) = read_sessions(tmp_path / "export.json")
    assert turns(stored) == turns(whole)
    assert (stored.origin, stored.id, stored.name) == ("opencode 1.18.33", "ses_1", "title of ses_1")
    assert [one.kept_replies for one in whole.turns if isinstance(one, RecordedSummary)] == [0]
    first = next(whole.replies())
    assert [(one.text, one.failed, one.exit_code, one.at) for one in first.answers] == [("ls done", True, 2, 2.002)]


def test_sessions_of_sub_agents_are_frames_of_the_session_that_called_them(tmp_path: Path) -> None:
    main, lost = read_sessions(created(tmp_path / "opencode.db", SUB, LOST, MAIN, EMPTY))
    assert (main.id, lost.id) == ("ses_1", "ses_3")  # no call names ses_3
    calls = [answer.child for one in main.turns if isinstance(one, RecordedReply) for answer in one.answers]
    assert [one and (one.task, len(one.turns)) for one in calls] == [None, ("look here", 1), ("look there", 2)]
    assert [one.kept_replies for one in main.turns if isinstance(one, RecordedSummary)] == [1]
    assert sum(one.usage.output for one in main.replies()) == 7 * 3
    export = read_opencode(MAIN, "file")
    assert [one.parts for one in export.replies()] == [
        one.parts for one in main.turns if isinstance(one, RecordedReply)
    ]
    assert export.left_out == [
        "2 conversations of sub-agents, which are not part of an export; import the file opencode.db to get them"
    ]
    assert main.left_out == []


def test_one_session_of_many_is_imported_by_its_id(tmp_path: Path) -> None:
    created(tmp_path / "opencode.db", MAIN, SUB, LOST, EMPTY)
    (one,) = import_file(tmp_path / "opencode.db", None, tmp_path / "runs", "ses_2")
    assert (one.session, one.steps, one.frames) == ("ses_2", 3, 0)
    for missing in ("ses_4", "ses_5"):  # without a reply; unknown
        with pytest.raises(UsageError, match=f"does not contain a session '{missing}' with a reply"):
            import_file(tmp_path / "opencode.db", None, tmp_path / "runs", missing)
    assert len(import_file(tmp_path / "opencode.db", "opencode", tmp_path / "runs")) == 2


def test_the_log_of_a_running_and_of_a_killed_opencode_is_read_and_no_file_changes(tmp_path: Path) -> None:
    live, killed, copied = (tmp_path / name for name in ("live", "killed", "copied"))
    for folder in (live, killed, copied):
        folder.mkdir()
    created(live / "opencode.db")
    with closing(sqlite3.connect(live / "opencode.db", isolation_level=None)) as writer:
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        store(writer, MAIN, SUB)
        for name in ("", "-wal"):
            shutil.copy(live / f"opencode.db{name}", copied)
        shutil.copytree(live, killed, dirs_exist_ok=True)
        for folder in (live, killed, copied):
            before = kept(folder)
            (session,) = read_sessions(folder / "opencode.db")
            assert len(list(session.replies())) == 7
            after = kept(folder)
            if folder is live:  # the connections of one process share this file
                after["opencode.db-shm"] = before["opencode.db-shm"]
            assert after == before
        writer.execute("BEGIN")
        store(writer, LOST)
        assert len(read_sessions(live / "opencode.db")) == 1  # not committed


WRITER = """
import json, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
number = 0
while True:
    number += 1
    database.execute("BEGIN")
    for name in ("a", "b"):
        data = json.dumps({"role": "assistant", "modelID": "m", "time": {"created": number}})
        key = f"{number:06}{name}"
        database.execute("INSERT INTO message VALUES (?, 'ses_1', ?, 0, ?)", (key, number, data))
        text = json.dumps({"type": "text", "text": f"{number} " + "x" * 3000})
        database.execute("INSERT INTO part VALUES (?, ?, 'ses_1', 0, 0, ?)", (key, key, text))
    database.execute("COMMIT")
    print(number, flush=True)
"""


def test_a_database_that_is_written_meanwhile_is_read_at_one_moment_also_after_a_kill(tmp_path: Path) -> None:
    path = created(tmp_path / "opencode.db", exported("ses_1", None, user(0, said("go")), reply(0, said("ok"))))
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    try:
        counts = []
        for _ in range(8):
            writer.stdout.readline()
            (session,) = read_sessions(path)
            replies = list(session.replies())[1:]
            assert len(replies) % 2 == 0
            assert all(one.parts for one in replies)
            counts.append(len(replies))
        assert counts == sorted(counts)
        assert counts[-1] > counts[0]
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    (session,) = read_sessions(path)
    assert len(list(session.replies())) > counts[-1]


def torn_index(path: Path) -> Callable[[], None]:
    """Change one of the two headers of the log's index, as between a writer's two writes. Return what completes it."""
    shared = Path(f"{path}-shm")

    def write(value: int) -> None:
        with shared.open("r+b") as file:
            file.seek(8)
            file.write(bytes([value]))

    value = shared.read_bytes()[8]
    write(value ^ 1)
    return lambda: write(value)


@pytest.mark.parametrize("completed", [True, False])
def test_a_half_written_index_of_the_log_is_read_again_or_in_a_copy(tmp_path: Path, monkeypatch, completed) -> None:
    path = created(tmp_path / "opencode.db", exported("ses_1", None, user(0, said("go")), reply(0, said("ok"))))
    with subprocess.Popen(
        [sys.executable, "-c", f"{WRITER}    sys.stdin.read()", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        complete, pauses = torn_index(path), list[float]()
        # only the reader's own clock, because other threads of the test process may sleep, too
        clock = SimpleNamespace(sleep=lambda pause: (pauses.append(pause), completed and complete()))
        monkeypatch.setattr(databases, "time", clock)
        before = sorted((each.name, each.read_bytes()) for each in tmp_path.iterdir())
        (session,) = read_sessions(path)
        after = sorted((each.name, each.read_bytes()) for each in tmp_path.iterdir())
        writer.kill()
    assert len(list(session.replies())) == 3
    assert len(pauses) == (1 if completed else 3)
    assert completed or after == before


CYCLE = (
    exported("ses_1", "ses_2", reply(1_000, call("down", 1_001, "ses_2"))),
    exported("ses_2", "ses_1", reply(1_100, call("up", 1_101, "ses_1"))),
)


def test_sessions_that_start_each_other_are_read_once(tmp_path: Path) -> None:
    created(tmp_path / "opencode.db", *CYCLE)
    (session,) = read_sessions(tmp_path / "opencode.db")
    assert len(list(session.replies())) == 2


HOSTILE: dict[str, tuple[str, str]] = {
    "a view": (
        "ALTER TABLE part RENAME TO real_part; CREATE VIEW part AS WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT "
        "n + 1 FROM c) SELECT n AS id, n AS message_id, n AS session_id, n AS data FROM c;",
        "part is a view, not a table",
    ),
    "a virtual table": ("DROP TABLE part; CREATE VIRTUAL TABLE part USING fts5(data);", "part is a virtual table"),
    "another schema": ("ALTER TABLE message RENAME COLUMN data TO content;", "no such column: data"),
    "no table": ("DROP TABLE session;", "it has no table session"),
    "text that is not JSON": ("UPDATE part SET data = '{';", "is not valid JSON"),
    "a list": ("UPDATE message SET data = '[]';", "is not a JSON object"),
    "bytes": ("UPDATE message SET data = zeroblob(100);", "is not a JSON object"),
    "text that is not UTF-8": ("UPDATE part SET data = CAST(x'7b22ff' AS TEXT);", "Could not decode"),
    "a wrong type": ("UPDATE message SET data = '{\"role\": 7}';", "does not match its format"),
    "a computed column": (
        "DROP TABLE part; CREATE TABLE part (id, message_id, session_id, "
        "data AS (hex(zeroblob(400000000))));  INSERT INTO part VALUES ('p', 'msg_ses_1_1', 'ses_1');",
        "too big|not authorized|prohibited",
    ),
}


@pytest.mark.parametrize(("more", "reason"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_database_is_refused_in_a_sentence(tmp_path: Path, more: str, reason: str) -> None:
    created(tmp_path / "opencode.db", MAIN, more=more)
    with pytest.raises(UsageError, match=reason):
        read_sessions(tmp_path / "opencode.db")


def test_triggers_never_run_and_deep_json_is_refused(tmp_path: Path) -> None:
    trigger = "CREATE TRIGGER t AFTER UPDATE ON part BEGIN DELETE FROM message; END;"
    assert len(read_sessions(created(tmp_path / "opencode.db", MAIN, more=trigger))) == 1
    deep = "[" * 100_000 + "]" * 100_000
    created(tmp_path / "deep.db", MAIN, more=f"UPDATE part SET data = '{deep}';")
    with pytest.raises(UsageError, match="is not valid JSON"):
        read_sessions(tmp_path / "deep.db")


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _scrambled(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(100)
        file.write(os.urandom(path.stat().st_size - 100))


def _only_the_start(path: Path) -> None:
    path.write_bytes(databases.SQLITE_START)


@pytest.mark.parametrize("damage", [_cut, _scrambled, _only_the_start])
def test_a_damaged_database_is_refused_in_a_sentence(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    path = created(tmp_path / "opencode.db", MAIN, SUB, LOST)
    damage(path)
    with pytest.raises(UsageError, match="cannot be read as a database of opencode"):
        read_sessions(path)


def test_links_and_pipes_next_to_a_database_are_refused_and_their_targets_are_safe(tmp_path: Path) -> None:
    path = created(tmp_path / "opencode.db", MAIN)
    target = tmp_path / "target"
    target.write_text("keep")
    for suffix in ("-shm", "-wal", "-journal"):
        beside = tmp_path / f"opencode.db{suffix}"
        for make in (lambda to: to.symlink_to(target), lambda to: os.link(target, to), os.mkfifo):
            make(beside)
            with pytest.raises(UsageError, match="is a link or not a regular file"):
                read_sessions(path)
            beside.unlink()
    assert target.read_text() == "keep"
    (tmp_path / "named.db").symlink_to(path)  # the user may name a link to a database
    assert len(read_sessions(tmp_path / "named.db")) == 1


def test_a_database_with_too_much_text_or_work_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = created(tmp_path / "opencode.db", MAIN, LOST)
    monkeypatch.setattr(databases, "MAX_TEXT_BYTES", 3_000)
    with pytest.raises(UsageError, match="or one session with --session ID"):
        read_sessions(path)
    (one,) = import_file(path, None, tmp_path / "runs", "ses_3")
    assert one.session == "ses_3"
    monkeypatch.setattr(databases, "_MAX_STEPS", 10)
    monkeypatch.setattr(databases, "_STEPS_AT_ONCE", 10)
    with pytest.raises(UsageError, match="interrupted"):
        read_sessions(path)


def test_a_finished_mini_swe_agent_ends_as_finished_and_its_last_call_did_not_fail(tmp_path: Path) -> None:
    given = json.dumps({"command": "cd /w && echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"})
    call = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": given}}
    messages = [
        {"role": "user", "content": "count"}, {"role": "assistant", "content": "Done.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "not executed", "extra": {"returncode": -1}},
        {"role": "exit", "content": "", "extra": {"exit_status": "Submitted", "submission": ""}},
    ]  # fmt: skip
    for status, ending, failed in (("Submitted", "popped", False), ("LimitsExceeded", "interrupted", True)):
        value = {"trajectory_format": "mini-swe-agent-1.1", "messages": messages, "info": {"exit_status": status}}
        (tmp_path / "run.traj.json").write_text(json.dumps(value))
        (session,) = read_sessions(tmp_path / "run.traj.json")
        assert facts_of(session)[-1].event.ending == ending
        assert [answer.failed for one in session.replies() for answer in one.answers] == [failed]


@pytest.mark.campaign
def test_opencode_itself_exports_what_its_database_contains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = next(one for one in CLIENTS if one.name == "opencode")
    place = place_of(client, INSTALLED)
    if place is None:
        pytest.skip("opencode is not installed; run scripts/clients.sh and set STACKMEM_CLIENTS to its folder")
    filled = provider.filled
    monkeypatch.setattr(provider, "filled", lambda tool, given: filled(
        tool, given | ({"subagent_type": "general"} if "subagent_type" in given else {})))  # fmt: skip
    found = run(client, "full", INSTALLED, tmp_path)
    home = tmp_path / "home"
    path = home / ".local/share/opencode/opencode.db"
    (stored,) = read_sessions(path)
    (child,) = stored.children()
    for session in (stored, child):
        export = tmp_path / f"{session.id}.json"
        with export.open("wb") as file:  # into a pipe, opencode may write only the first 64 KiB
            subprocess.run(
                [str(place / "opencode"), "export", session.id], cwd=tmp_path / "work", stdout=file, check=True,
                env={"PATH": os.environ["PATH"], "HOME": str(home), **client.variables}, timeout=60,
            )  # fmt: skip
        (whole,) = read_sessions(export)
        for reply in (one for one in session.turns if isinstance(one, RecordedReply)):
            for answer in reply.answers:
                answer.child = None
        assert turns(session) == turns(whole)
    usage = [one.usage for session in (stored, child) for one in session.replies()]
    side = sum(one.kind == "side" for one in found.asked)  # the database does not contain the request for a title
    assert sum(one.output for one in usage) + side * OUTPUT == found.billed[3]
    assert sum(one.cache_read for one in usage) == found.billed[1]


def test_the_cost_includes_the_compaction(tmp_path: Path) -> None:
    place = tmp_path / "export.json"
    place.write_text(json.dumps(MAIN))
    (found,) = import_file(place, None, tmp_path / "runs")
    row = lookup("claude-sonnet-5-5")
    assert row is not None
    assert row.price is not None
    assert found.cost_usd == round(cost_usd(found.usage, row.price), 6)
