"""The day of the terminal, as far as it applies, in an editor: one session, each prompt with a text that answers it."""

import asyncio
import os
from base64 import b64encode
from pathlib import Path

from acp.schema import ImageContentBlock

from stackmem import replay
from stackmem.run.run_folder import is_run
from tests.doors.chat.day import REPLIES, SHOT, prepare
from tests.stage import Stage

from .test_acp import Client, arguments, editor, text

PROMPTS = (
    ("!echo from-the-user > b.txt; cat b.txt", "from-the-user\n"),
    ("What is in @a.txt?", "Seen one."),
    ("And @src/total.py:2-3", "Seen two."),
    ("line\n" * 200, "Seen three."),
    ("image", "Seen four."),
    ("/plan", "plan mode is on"),
    ("Plan it", "2. Say so"),
    ("/accept", "Step said."),
    ("Run early", "Denied then."),
    ("Run it now", "Ran it."),
    ("/permissions", "(your answer)"),
    ("Read the skill", "Skill read."),
    ("/greet Ada", "Hello from the command."),
    ("/hooks", "before_tool"),
    ("Do the forbidden", "Refused then."),
    ("Start a job", "Job started."),
    ("/jobs", "no jobs are running"),  # a turn of an editor ends its jobs
    ("Stop the job", "Job stopped."),
    ("/remember Always use tabs in Makefiles", "(kept as R1)"),
    ("# Never edit b.txt", "(kept as R2)"),
    ("/memory", "by you]"),
    ("/forget 1", "R1"),
    ("/context", "next prompt: about"),
    ("/search warmly", "warmly"),
    ("/cost", "tokens: "),
    ("Write c", "Wrote c."),
    ("/diff", "c.txt, added"),
    ("/apply c.txt", "applied to"),
    ("This is undone", "Words of the undone."),
    ("/undo", "undone: This is undone"),
    ("/redo", "redone"),
    ("/rewind", "/rewind N goes back"),
    ("/rename day", "renamed; continue with"),
)


def test_the_day_in_an_editor(stage: Stage):
    folder = stage.root / "mine"
    prepare(stage.root, folder, Path(os.environ["XDG_CONFIG_HOME"], "stackmem"))
    client = Client("allow_once", "reject_once", "allow_always", "allow_once")
    line = [*arguments(stage, *REPLIES), "--approve", "commands", "--vision", "on"]

    async def play() -> None:
        async with editor(stage, client, line) as (agent, process):
            session = (await agent.new_session(cwd=str(folder))).session_id
            for words, shown in PROMPTS:
                before = len(client.words())
                prompt = text(words)
                if words == "image":
                    data = b64encode(SHOT).decode()
                    prompt.append(ImageContentBlock(type="image", data=data, mime_type="image/png"))
                await agent.prompt(session_id=session, prompt=prompt)
                assert shown in client.words()[before:], (words, client.words()[before:])
            fork = (await agent.fork_session(cwd=str(folder), session_id=session)).session_id
            await agent.prompt(session_id=fork, prompt=text("/memory"))
            process.stdin.close()
            assert await process.wait() == 0

    asyncio.run(asyncio.wait_for(play(), 200))
    assert (folder / "c.txt").read_text() == "c\n"
    assert all(replay(path) for path in stage.runs.iterdir() if is_run(path))
