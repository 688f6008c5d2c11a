"""The kept words in the terminal conversation and in an editor: commands, their answers, and the list."""

from pathlib import Path

import pytest

from stackmem.core.person_facts import PersonSaid
from stackmem.doors.acp.turns import command_of
from stackmem.doors.acp.updates import Shown, updates
from stackmem.doors.chat.chat import ChatScreen
from stackmem.doors.chat.commands import COMMANDS, IN_EDITORS, Look
from stackmem.doors.chat.pasted_images import PastedImages
from stackmem.doors.chat.person import TerminalPerson
from stackmem.run.ports import Left
from stackmem.trace.open_run import Run
from tests.run.people import Scripted, replayed, talk
from tests.stage import Stage


class Editor:
    """A line editor that returns fixed lines."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.images = PastedImages()

    def ask(self, prompt: str, *, draft: str = "", confirms: bool = False) -> str | None:
        return self.lines.pop(0) if self.lines else None


def _never(line: str) -> bool:
    assert line
    return False


def person(*lines: str) -> tuple[TerminalPerson, list[str]]:
    commands: list[str] = []
    return TerminalPerson(ChatScreen(color=False), Editor(*lines), commands.append, _never, Path.cwd()), commands


@pytest.mark.parametrize("line", ["/remember use tabs", "# use tabs", "/forget 1", "/remember"])
def test_a_line_that_changes_the_kept_words_is_passed_to_the_run(line):
    user, commands = person(line)
    assert (user.request(), commands) == (line, [])


def test_other_commands_stay_commands():
    user, commands = person("/memory", "/remembers")
    with pytest.raises(Left):
        user.request()
    assert commands == ["/memory", "/remembers"]


def test_lines_typed_while_the_agent_works_are_separated_from_such_a_line():
    user, commands = person()
    for line in ("one", "two", "# use tabs", "three", "/forget 1", "/quit", "four"):
        user.editor.on_line(line)
    assert [user.request() for _ in range(5)] == ["one\ntwo", "# use tabs", "three", "/forget 1", "four"]
    assert commands == ["/quit"]


@pytest.fixture
def talked(stage: Stage):
    said = []
    script = stage.script({"text": "Done."}, {"text": "Done."})
    requests = ("# use tabs", "From now on, write in German.", "/forget 9", "Next.")
    states = []
    result = talk(stage, Scripted(*requests), script, observe=lambda event, state: states.append((event, state)))
    return result, states, said


def test_a_conversation_keeps_words_lists_them_and_replays(talked):
    result, _, said = talked
    assert replayed(result) == 2
    folder = Path(result.run_dir)
    look = Look(lambda *texts: said.extend(texts), lambda *texts: said.extend(texts), str)
    state = Run(folder).state
    assert look("/memory", "", state, folder)
    assert [line.partition(" [stored 20")[0] for line in said] == [
        "STANDING R1, rule from the start: use tabs",
        "STANDING R2, rule from request 1: From now on, write in German.",
    ]
    assert [line.rpartition(" by ")[2] for line in said] == ["you]", "its wording]"]
    said.clear()
    assert look("/search", "German", state, folder)
    assert "--- the user, request 1\nFrom now on, write in German." in said[0]
    said.clear()
    assert look("/context", "", state, folder)
    assert said[0].startswith("the run has ended") or said[-1].startswith("next prompt: about ")
    said.clear()
    assert look("/search", "", state, folder)
    assert said == ["missing words: /search WORDS"]


def test_a_search_also_finds_earlier_conversations_about_the_folder(stage: Stage):
    said: list[str] = []
    talk(stage, Scripted("The port of the staging host is 4711."), stage.script({"text": "Noted."}))
    result = talk(stage, Scripted("Go on."), stage.script({"text": "Done."}))
    look = Look(lambda *texts: said.extend(texts), lambda *texts: said.extend(texts), str)
    folder = Path(result.run_dir)
    assert look("/search", "staging port", Run(folder).state, folder)
    assert said[0].startswith("found in this conversation and 1 other for 'staging port'")
    assert "T" in said[0].partition("--- 20")[2][:12]
    assert ": the user, request 1\nThe port of the staging host is 4711." in said[0]


def test_the_user_is_told_what_is_kept_in_the_terminal_and_in_the_editor(talked):
    _, states, said = talked
    screen = ChatScreen(color=False)
    screen.say = lambda *texts: said.extend(texts)
    sent, before = [], None
    for event, state in states:
        screen(event, state)
        if before is not None and isinstance(event, PersonSaid):
            sent += updates(event, before, state, Shown("/mine", lambda *_: None))
        before = state
    told = [
        "kept as R1", "STANDING R2, rule from request 1: From now on, write in German. (/forget 2 removes it)",
        "R9 is not a kept entry; kept: R1, R2",
    ]  # fmt: skip
    assert [" ".join(line.split()) for line in said if " ".join(line.split()) in told] == told
    assert next(line for line in said if "the next prompt" in line).startswith("(")
    assert [each["content"]["text"].strip("()\n") for each in sent] == [text.strip("()") for text in told]


def test_editors_offer_the_commands_and_pass_the_kept_words_on():
    assert {"remember", "forget", "memory", "search"} <= IN_EDITORS.keys() & COMMANDS.keys()
    assert command_of("/remember use tabs") == ("", "")
    assert command_of("/forget 1") == ("", "")
    assert command_of("/memory") == ("memory", "")


def test_the_kept_words_are_exported_between_two_marks_of_agents_md(talked, tmp_path: Path):
    result, _, said = talked
    folder, state = Path(result.run_dir), Run(Path(result.run_dir)).state
    look = Look(lambda *texts: said.extend(texts), lambda *texts: said.extend(texts), str)
    agents = tmp_path / "AGENTS.md"
    agents.write_text("# Project\n\nRun make.\n")
    agents.chmod(0o640)
    assert look("/memory", f"export {agents}", state, folder)
    once = agents.read_text()
    assert once.startswith("# Project\n\nRun make.\n\n<!-- stackmem: words of the user -->\n- use tabs\n")
    assert "- From now on, write in German.\n<!-- end of the words of the user -->\n" in once
    agents.write_text(f"{once}\nLast line.\n")
    assert look("/memory", f"export {agents}", state, folder)
    assert agents.read_text() == f"{once}\nLast line.\n"
    assert agents.stat().st_mode & 0o777 == 0o640
    assert said == [f"wrote 2 kept words to {agents}"] * 2
    assert [path.name for path in tmp_path.iterdir() if "AGENTS" in path.name] == ["AGENTS.md"]


def test_an_export_follows_no_link_and_names_its_faults(talked, tmp_path: Path):
    result, _, said = talked
    folder, state = Path(result.run_dir), Run(Path(result.run_dir)).state
    look = Look(lambda *texts: said.extend(texts), lambda *texts: said.extend(texts), str)
    mine = tmp_path / "mine.txt"
    mine.write_text("kept")
    link, torn = tmp_path / "AGENTS.md", tmp_path / "torn.md"
    link.symlink_to(mine)
    torn.write_text("<!-- stackmem: words of the user -->\n- use tabs\n")
    for rest in (f"export {link}", f"export {torn}", "exports", f"export {tmp_path}"):
        assert look("/memory", rest, state, folder)
    assert mine.read_text() == "kept"
    assert len(said) == 4
    assert "without <!-- end" in said[1]
    assert "not 'exports'" in said[2]
