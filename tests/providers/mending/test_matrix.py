"""The table of servers and oddities in docs/models.md is what the situations result in."""

import pytest

from tests.providers.mending.matrix import KINDS, MENDED, NOT_SENT, REFUSED, SERVERS, WORKS, Server, table
from tests.stage import ROOT


def test_the_table_in_the_documents_is_what_was_played() -> None:
    text = (ROOT / "docs" / "models.md").read_text("utf-8")
    assert table() in text, "run python -m tests.providers.mending.matrix and copy its table into docs/models.md"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.name)
def test_no_oddity_ends_in_another_way(server: Server, kind: str) -> None:
    assert KINDS[kind](server) in {WORKS, MENDED, NOT_SENT, REFUSED}


def test_there_are_twelve_servers_and_ten_kinds() -> None:
    assert (len(SERVERS), len(KINDS)) == (12, 10)
