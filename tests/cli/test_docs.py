"""Tests for the `stackmem docs` command."""

from tests.cli.terminal import Terminal
from tests.house.sources import ROOT
from tests.stage import Stage

NO_PAGER = {"PAGER": "cat"}


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text("utf-8")


def test_into_a_pipe_goes_the_markdown_of_the_page_or_of_its_section(stage: Stage):
    assert stage.call("docs").stdout == page("index")
    assert stage.call("docs", "programs/apl").stdout == page("programs/apl")
    section = stage.call("docs", "cli#man").stdout
    assert section.startswith("## man\n")
    assert section in page("cli") + "\n"


def test_the_list_has_every_page_by_its_title(stage: Stage):
    lines = stage.call("docs", "--list").stdout.splitlines()
    assert "  chat" in {line[:6] for line in lines}
    assert [line for line in lines if line.endswith("Talk with the agent")]
    assert lines.index("Tutorials:") < lines.index("Work with the agent:") < lines.index("Look it up:")


def test_other_words_are_searched_for_and_those_that_nothing_has_are_refused(stage: Stage):
    found = stage.call("docs", "stale", "chunk").stdout.splitlines()
    assert "#" in found[0]
    assert found[-1].startswith(f"stackmem docs {found[0]} shows the first")
    assert stage.call("docs", found[0]).returncode == 0
    refused = stage.call("docs", "no-such-word-anywhere")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "stackmem docs --list" in refused.stderr


def test_a_terminal_shows_the_page_as_text(stage: Stage):
    with Terminal(stage.arguments("docs", "chat"), stage.environ(NO_PAGER), stage.elsewhere) as terminal:
        terminal.wait_for("Talk with the agent")
        terminal.wait_for("Leads to: ")
        assert "](" not in terminal.shown()
        assert terminal.end() == 0
