"""The effects of other agents' tools, according to the declared table."""

import pytest

from stackmem.core.messages import ToolCall
from stackmem.review.measure.foreign_tools import does, runs_tests, shows_failure


def call(name, command=None):
    return ToolCall("c", name, {} if command is None else {"command": command})


@pytest.mark.parametrize(
    ("name", "command", "kind"),
    [
        ("open", "open a.py 3", "reads"),
        ("edit", "edit 1:1\nx\nend_of_edit", "writes"),
        ("bash", "cat a.py", "reads"),
        ("bash", "cd src && grep -rn name .", "reads"),
        ("bash", "git diff", "reads"),
        ("bash", "cat > a.py <<'EOF'\nx\nEOF", "writes"),
        ("bash", "sed -i 's/a/b/' a.py", "writes"),
        ("bash", "sed -n 1,20p a.py", "reads"),
        ("bash", "python a.py 2>&1", "runs"),
        ("bash", "python a.py > /dev/null", "runs"),
        ("bash", "pytest -x", "runs"),
        ("bash", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git add -A", "ends"),
        ("shell", None, "runs"),
        ("submit", None, "ends"),
        ("think", None, "notes"),
        ("str_replace_editor", "view", "reads"),
        ("str_replace_editor", "str_replace_editor view /a.py", "reads"),
        ("str_replace_editor", "create", "writes"),
        ("run_command", "cat > a.py", "runs"),
        ("nobody_knows_it", "cat a.py", "runs"),
    ],
)
def test_a_call_does_what_the_table_and_its_command_say(name, command, kind):
    assert does(call(name, command)) == kind


def test_a_command_may_be_a_list_and_arguments_anything():
    assert does(ToolCall("c", "shell", {"command": ["cat", "a.py"]})) == "reads"
    assert does(ToolCall("c", "bash", [1])) == "runs"
    assert does(ToolCall("c", "bash", None, malformed="{")) == "runs"


@pytest.mark.parametrize(
    "command",
    ["pytest tests", "python -m unittest", "mvn -q test", "go test ./...", "./manage.py test app", "python test_it.py"],
)
def test_a_test_runner_is_known_by_its_name(command):
    assert runs_tests(call("bash", command))


@pytest.mark.parametrize("command", ["cat test_it.py", "ls tests", "python it.py"])
def test_reading_a_test_or_running_a_program_is_no_test(command):
    assert not runs_tests(call("bash", command))


@pytest.mark.parametrize(
    "text",
    ["x\nTraceback (most recent call last):\n", "3 failed, 2 passed", "bash: javac: command not found", "E   assert"],
)
def test_a_failure_shows_in_the_text(text):
    assert shows_failure(text)


@pytest.mark.parametrize("text", ["", "5 passed", "0 failed", "File created successfully"])
def test_success_shows_no_failure(text):
    assert not shows_failure(text)
