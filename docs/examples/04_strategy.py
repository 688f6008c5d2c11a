"""Write a memory strategy and run it with a script.

``masked`` renders one conversation, like ``full``, but replaces old tool results with their length. It edits earlier
messages, so it declares that its prefix is not stable. It also omits thinking blocks, because providers sign them
over the messages before them.
"""

import tempfile
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

import stackmem
from stackmem.core.heap import Heap
from stackmem.core.log import Log
from stackmem.core.messages import Text, Thinking, View
from stackmem.core.requests import Effect
from stackmem.core.state import Reply, Result, State, Turn
from stackmem.core.tools import END_RUN, ListFiles, ReadFile, RunCommand, Tool, WriteFile
from stackmem.memory.shared.constants import run_constants
from stackmem.memory.shared.conversation import Conversation, extend, rolling_breakpoints
from stackmem.memory.shared.parameters import Count
from stackmem.memory.shared.parameters import parameters as parse


class Masked(Struct, frozen=True):
    """A strategy that masks old results. ``keep`` is the number of newest results that stay whole."""

    keep: int = 2
    name: str = "masked"
    tools: tuple[Tool, ...] = (ReadFile, WriteFile, ListFiles, RunCommand, END_RUN)
    prompt: str = "full"
    prefix_stable: bool = False

    def render(self, state: State) -> View:
        start, frame = state.begun, state.running
        opening = (Text(run_constants(start)), Text(f"TASK\n{frame.task}"))
        conversation = Conversation(Log(), opening, Heap(), Heap(), self.news)
        results = [turn.step for turn in frame.turns if isinstance(turn, Result)]
        first_whole = results[-self.keep] if len(results) >= self.keep else 0
        for turn in frame.turns:
            conversation = extend(conversation, self.masked(turn, first_whole))
        messages = conversation.close().messages
        return View(start.system, start.tools, messages, rolling_breakpoints(messages, len(messages[-1].parts)))

    def masked(self, turn: Turn, first_whole: int) -> Turn:
        if isinstance(turn, Result) and turn.step < first_whole:
            return replace(turn, text=f"[{len(turn.text)} characters left out; ask again if you need them]")
        if isinstance(turn, Reply):
            return replace(turn, parts=tuple(part for part in turn.parts if not isinstance(part, Thinking)))
        return turn

    def news(self, shown: Heap, heap: Heap) -> str:
        return ""

    def upkeep(self, state: State) -> Effect | None:
        return None


def masked(parameters: str) -> Masked:
    """Parse the parameters after the colon in ``--strategy masked:3``. The canonical name is ``masked:keep=3``."""
    chosen = parse("masked", parameters, (Count("keep", 2),))
    return Masked(chosen.counts["keep"], chosen.name)


plugin = stackmem.Plugin(strategies={"masked": masked})  # what an installed package offers

SCRIPT = """\
replies:
  - {call: read_file, args: {path: note.txt}}
  - {call: run_command, args: {command: wc -c note.txt}}
  - {call: write_file, args: {path: done.txt, content: "twenty\\n"}, expect: {contains: a note of some sort}}
  - call: pop_frame
    args: {result: The note has 20 characters; done.txt says so.}
    expect: {contains: characters left out, absent: a note of some sort}
"""

if __name__ == "__main__":
    stackmem.STRATEGIES["masked"] = masked  # only for this process
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "project")
        project.mkdir()
        Path(project, "note.txt").write_text("a note of some sort\n")
        script = Path(folder, "script.yaml")
        script.write_text(SCRIPT)
        result = stackmem.solve(
            project,
            "Count the characters of note.txt.",
            model=f"script:{script}",
            strategy="masked",
            check="grep -q twenty done.txt",
            runs_dir=Path(folder, "runs"),
            sandbox_dir=Path(folder, "work"),
        )
        print(f"{result.outcome} in {result.steps} steps with {result.strategy}: {result.result}")
        print(f"replayed: {stackmem.replay(result.run_dir).prompts} prompts equal")

    if result.outcome != "solved":
        raise SystemExit(f"not solved: {result}")
