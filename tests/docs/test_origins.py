"""Tests the script that compares each language with its origin's examples: its inputs and its output."""

from pathlib import Path

import pytest

from scripts import origins

STEPS = "# A\n## Main\n### Steps\n- 01:RET\n"


@pytest.fixture
def found(tmp_path: Path) -> dict[str, origins.Row]:
    files = {
        "examples/good.pb": STEPS,
        "examples/broken.pb": "# A\n## Main\n### Steps\n- 01:JMP 09\n",
        "examples/none.pb": "no agent\n",
        "examples/tool": f"#!/usr/bin/env pb\n{STEPS}",
        "examples/notes.txt": STEPS,
        "tests/data/left.pb": STEPS,
        "README.md": f"text\n\n````markdown\n{STEPS}````\n\n```markdown\n## Main\n```\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return {row.path: row for row in origins.rows("playbook", tmp_path)}


def test_programs_are_known_by_name_by_first_line_and_in_documents(found):
    examples = {"examples/broken.pb", "examples/good.pb", "examples/none.pb", "examples/tool"}
    assert set(found) == {"README.md#1", *examples, "tests/data/left.pb"}


def test_a_row_says_what_keeps_a_program_from_loading_and_what_the_linter_finds(found):
    assert found["examples/good.pb"] == ("examples/good.pb", "", (), ())
    assert found["examples/broken.pb"].errors == ("playbook/unknown-line",)
    assert found["examples/none.pb"].halted == "Missing Agent"


def test_the_table_ends_with_its_counts(found):
    told = origins.table(list(found.values()))
    assert "| `examples/none.pb` | no | no | Missing Agent, playbook/missing-agent |" in told
    assert told.endswith(
        "5 programs: 4 load, 3 lint without an error, 3 without a finding\n"
        "1 in test folders: 1 load, 1 lint without an error, 1 without a finding"
    )
    examples = [row for path, row in found.items() if path.startswith("examples")]
    assert origins.table(examples).endswith("4 programs: 3 load, 2 lint without an error, 2 without a finding")


DEMO = '''"""A demo."""
TASK = """
(defatom user:plan (params (goal str) (context optional str)) (instructions "{{goal}} {{context}}"))
"""
MAIN = f"""; plans
(let ((plan (user:plan (goal "{GOAL}")))) plan)"""
OTHER = "(not a workflow)"
'''


def test_the_workflows_of_a_script_are_one_program_and_patterns_in_documents_are_none(tmp_path):
    files = {
        "src/scripts/demo.py": DEMO,
        "src/scripts/test_demo.py": DEMO,
        "src/other.py": DEMO,
        "docs/adr.md": "```sexp\n(let ((x 1)) (car 1 2))\n```\n\n  ```sexp\n  (let ((x <expr>)) x)\n  ```\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert origins.rows("sexp", tmp_path) == [
        ("docs/adr.md.sexp", "Static Fault", ("sexp/arity",), ("sexp/unused",)),
        ("src/scripts/demo.py.sexp", "", (), ()),
    ]


def test_the_responses_in_documents_on_loop_agents_stand_in_agents_that_have_what_they_name(tmp_path: Path) -> None:
    ask = '{"nextStep": {"subAgents": [{"name": "a", "message": "m"}, {"name": "a", "message": "n"}]}}'
    call = '{"nextStep": {"type": "Actions", "actions": [{"name": "Send", "params": {}}]}}'
    blocks = [ask, call, '{"nextStep": {"type": "Dance"}}', '{"a": 1}', '{"nextStep": ...}']
    text = "".join(f"```json\n{block}\n```\n" for block in blocks)
    for name in ("packages/AI/Agents/docs/guide.md", "packages/UI/other.md", "packages/AI/Agents/tests/notes.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    rows = {row.path.partition("#")[2]: row[1:] for row in origins.rows("loop_agent", tmp_path)}
    assert rows == {
        "1.agent.yaml": ("", (), ()),
        "2.agent.yaml": ("", (), ()),
        "3.agent.yaml": ("Invalid Agent", ("agent/bad-example",), ()),
        "5.agent.yaml": ("", (), ("agent/bad-example",)),
    }
