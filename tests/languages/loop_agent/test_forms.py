"""Forms answered by a user, at a real terminal and from a file."""

import json
import os
import pty
import sys

import pytest

from stackmem.core.errors import UsageError
from stackmem.languages.running.inputs import read_answers
from tests.house.sources import ROOT

from .stage import done, play

QUESTIONS = [
    {"id": "name", "label": "Name", "required": True, "type": {"type": "text"}},
    {"id": "port", "label": "Port", "defaultValue": 8000, "type": {"type": "number", "max": 9000}},
    {"id": "start", "label": "Start", "type": {"type": "date"}},
]
FORM = {"message": "Please.", "responseForm": {"title": "New", "questions": QUESTIONS}}


def filled(*answers: str):
    played = play(FORM, done(), answers=answers)
    told = next(line for line in played.last.splitlines() if line.startswith('{"name"'))
    return json.loads(told), len(played.questions)


def test_one_answer_with_the_ids_of_questions_fills_the_form_in_whatever_order():
    given = json.dumps({"start": "2026-03-01", "name": "x", "port": 80})
    assert filled(given) == ({"name": "x", "port": 80, "start": "2026-03-01"}, 1)


def test_what_such_an_answer_leaves_out_is_empty():
    assert filled('{"name": "x"}') == ({"name": "x", "port": 8000, "start": None}, 1)


def test_what_does_not_fit_in_such_an_answer_is_asked_again():
    assert filled('{"name": "x", "port": 99999}', "81") == ({"name": "x", "port": 81, "start": None}, 2)
    assert filled('{"port": 81}', "x") == ({"name": "x", "port": 81, "start": None}, 2)
    assert filled("x", '{"port": 82, "start": "2026-03-01"}')[0] == {"name": "x", "port": 82, "start": "2026-03-01"}


@pytest.mark.parametrize("text", ['{"nobody": 1}', "{}", "{", '{"name": "x"'])
def test_any_other_text_in_braces_is_an_answer_like_any(text):
    assert filled(text, "", "")[0]["name"] == text


def test_a_date_needs_no_quotes_in_an_answers_file(tmp_path):
    (tmp_path / "a.yaml").write_text("- 2026-03-01\n- 2026-03-01 10:30:00\n- {on: 2026-03-01}\n- [a, b]\n", "utf-8")
    assert read_answers("a.yaml", tmp_path) == [
        "2026-03-01",
        "2026-03-01 10:30:00",
        '{"on": "2026-03-01"}',
        '["a", "b"]',
    ]


def test_an_answers_file_with_too_many_open_brackets_is_refused_at_the_bracket(tmp_path):
    """The time of the YAML library grows with the square of the open brackets. Found by fuzzing."""
    (tmp_path / "a.yaml").write_text("[" * 100_000, "utf-8")
    with pytest.raises(UsageError, match=r"a\.yaml is not YAML .*nested deeper than 200 levels .*column 20\d"):
        read_answers("a.yaml", tmp_path)


@pytest.mark.usefixtures("home")
def test_at_a_terminal_an_empty_line_takes_the_default_or_leaves_the_question_out(tmp_path):
    (tmp_path / "main.agent.yaml").write_text("name: former\nprompt: Ask.\n", "utf-8")
    replies = [{"text": json.dumps(each)} for each in (FORM, done())]
    replies[1]["expect"] = {"contains": ['{"name": "x", "port": 8000, "start": null}']}
    (tmp_path / "script.yaml").write_text(json.dumps({"replies": replies}), "utf-8")
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        command = ("run", "main.agent.yaml", "--model", "script:script.yaml", "--isolation", "none")
        os.execve(sys.executable, [sys.executable, "-m", "stackmem", *command], {**os.environ, "PYTHONPATH": str(ROOT)})
    said = b""
    for asked, answer in ((b"Name *", b"\n"), (b"an answer is needed", b"x\n"), (b"Port", b"\n"), (b"Start", b"\n")):
        while asked not in said or not said.endswith(b"> "):
            said += os.read(terminal, 65_536)
        said = b""
        os.write(terminal, answer)
    while b"finished" not in said:
        said += os.read(terminal, 65_536)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(terminal)
