"""Tests the script that compares each language with its origin's examples: its inputs and its output."""

import sqlite3
import subprocess
from pathlib import Path

import pytest

from scripts import origin_replies, origins

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


REPLIES = {
    "# A\nsays\n## Main\n### Steps\n01:RET\n": "program",
    "```\n# A\n## Main\n### Steps\n01:JMP 9\n```": "program",
    '`Step["Main:01:QUE"]` `Say("hi")`\nyld user': "seed",
    '`Step["Main:01:QUE"]` `Var[$x is, 1]`\nyld user': "seed",
    'yld? yes, it waits\n`Step["Main:01:YLD"]` yld for meeting 100': "later",
    '# recap: begin\nawait self.Step("Main:01:QUE")\nawait self.Yield("call")': "python",
    'await self.Step("Main:01:QUE")\nif x: pass': "python",
    "{}": "other",
}


def test_the_replies_of_a_history_are_sorted_and_counted(tmp_path, capsys):
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-C", tmp_path, *arguments], check=True, capture_output=True)

    git("init", "-q")
    folder = tmp_path / ".llm_cache"
    folder.mkdir()
    (tmp_path / "a.pb").write_text(STEPS, encoding="utf-8")
    for number, text in enumerate(REPLIES):
        base = sqlite3.connect(folder / "cache.db")
        base.execute("create table if not exists Cache (value, mode)")
        base.execute("insert into Cache values (?, ?)", (text, 1))
        base.execute("insert into Cache values (?, ?)", (b"cos\nsystem\n", 4))
        base.commit()
        base.close()
        if number % 4 == 3:
            git("add", "-A")
            git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", str(number))
    git("rm", "-qr", ".llm_cache")
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "without the cache")
    assert {text: origin_replies.kind_of(text) for text in REPLIES} == REPLIES
    assert origin_replies.main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "program files: 1 of 1 load",
        "programs by models: 2 of 2 load",
        "replies by the seed's contract: 1 of 2 are read, 0 in a new way",
        "replies by the later contract, back-ticked: 1 of 1 are read",
        "replies by the later contract, Python: 1 of 2 are read",
        "of these two, older runs read 0; 1 other texts",
    ]
