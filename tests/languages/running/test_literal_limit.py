"""Files and outputs reach a program completely up to the limit, and fail beyond it."""

from __future__ import annotations

import pytest

from stackmem.core.errors import UsageError
from tests.languages.running.test_run import Desk, desk, language  # noqa: F401 - fixtures

MIB = 1024 * 1024


@pytest.mark.parametrize(("chars", "failed"), [(MIB, ""), (MIB + 1, "too_large")])
def test_a_file_up_to_the_setting_is_read_whole(desk: Desk, chars: int, failed: str) -> None:  # noqa: F811
    desk.flags["literal_mib"] = "1"
    desk.write("x" * chars, "big.txt")
    result = desk.run("tolerate read big.txt")
    assert result.value[0] == failed
    assert not failed or "over 1,048,576 bytes" in result.value[1]


def test_an_output_beyond_the_setting_fails_and_names_the_limit(desk: Desk) -> None:  # noqa: F811
    desk.flags["literal_mib"] = "1"
    result = desk.run(f"tolerate shell head -c {MIB + 1} /dev/zero | tr '\\0' x")
    assert result.value == [
        "too_large",
        "stdout is 1,048,577 bytes, the limit is 1,048,576; write it to a file instead",
    ]


@pytest.mark.parametrize("spelled", ["0", "1001", "x", "1.5"])
def test_a_limit_that_is_none_is_refused(desk: Desk, spelled: str) -> None:  # noqa: F811
    desk.flags["literal_mib"] = spelled
    with pytest.raises(UsageError, match="literal"):
        desk.run("say x")
