"""The hook that checks the subjects of commits."""

import subprocess
from pathlib import Path

import pytest

from tests.house.sources import ROOT


def check(subject: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    message = tmp_path / "message"
    message.write_text(f"{subject}\n\nWhy.\n# a comment of git\n", "utf-8")
    command = [str(ROOT / ".githooks" / "commit-msg"), str(message)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "subject",
    ["heap: refuse a double free", "Rewrite the README", "Merge branch 'x'", f"a: {'b' * 69}", "docs: fix ü" * 6],
)
def test_a_short_imperative_subject_is_accepted(subject: str, tmp_path: Path) -> None:
    assert check(subject, tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("subject", "reason"),
    [
        ("", "empty"),
        ("heap: refuse a double free.", "period"),
        (f"heap: refuse {'x' * 70}", "longer than 72"),
        ("heap: refused a double free", "not an imperative"),
        ("Fixing the heap", "not an imperative"),
    ],
)
def test_other_subjects_are_refused_with_the_reason(subject: str, reason: str, tmp_path: Path) -> None:
    refused = check(subject, tmp_path)
    assert refused.returncode == 1
    assert reason in refused.stderr
