"""The command that ``stackmem examples NAME`` prints has the inputs that the example needs."""

from pathlib import Path

import pytest

from stackmem.core.errors import UsageError
from stackmem.languages.commands.examples import command, description_of, flags_of, shipped_examples


@pytest.mark.parametrize(
    ("name", "flags"),
    [("sexp/count-words", "--input most:=10"), ("playbooks/report", "--input topic=memory"),
     ("playbooks/plain", "--input day=Monday --say tests"), ("apl/tic-tac-toe", ""), ("apl/pr-triage", "")],
)  # fmt: skip
def test_the_flags_are_those_of_the_table(name: str, flags: str) -> None:
    assert flags_of(shipped_examples(), name) == flags


def test_files_in_the_flags_are_those_of_the_copy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "mine"
    command("loop/set-up", target)
    run = capsys.readouterr().out.splitlines()[-1]
    assert run.endswith(f"--model script:{target}/script.yaml --answers {target}/answers.yaml")
    assert (target / "answers.yaml").is_file()


def test_an_unknown_example_is_refused() -> None:
    with pytest.raises(UsageError, match="did you mean 'sexp/count-words'"):
        command("sexp/count-word", None)


def test_every_example_is_described():
    shipped = shipped_examples()
    names = [main.parent.relative_to(shipped).as_posix() for main in shipped.glob("*/*/main.*")]
    assert len(names) > 10
    assert [name for name in names if len(description_of(shipped, name).split()) < 4] == []
