"""Builders of task folders."""

from pathlib import Path

TOML = 'schema_version = "1.4"\n[task]\nname = "somebody/small"\n[environment]\nnetwork_mode = "no-network"\n'


def make_task(folder: Path, toml: str = TOML, instruction: str = "Do it.\n", test: str = "exit 0\n") -> Path:
    (folder / "tests").mkdir(parents=True)
    (folder / "task.toml").write_text(toml, encoding="utf-8")
    (folder / "instruction.md").write_text(instruction, encoding="utf-8")
    (folder / "tests" / "test.sh").write_text(test, encoding="utf-8")
    return folder
