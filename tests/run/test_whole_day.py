"""One conversation with everything that is recorded: images, hooks, skills, parallel frames, jobs and a web search."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path
from random import Random

import pytest

from stackmem import replay
from stackmem.core.conversation.hook_facts import HookRan
from stackmem.core.facts import ChunkRead, NoticeGiven, ToolReturned
from stackmem.core.network import SearchBill
from stackmem.core.parallel.facts import FrameReturned, FramesMerged
from stackmem.core.person_facts import PersonAttached
from stackmem.review.kept.pack import pack, unpack
from stackmem.run.resume import resume
from stackmem.run.run_folder import TRACE, frame_parent, is_run
from stackmem.trace.images import images_of
from tests.conftest import CAMPAIGN
from tests.groups import together
from tests.providers.image_rules import png
from tests.providers.search_server import KEY, SearchServer
from tests.providers.server import Answer, Block, says
from tests.providers.test_web_search import CLAUDE
from tests.stage import Stage, call, command, events, mounted, pop
from tests.workspace.test_skills import write

from .test_web_search import stream

KILLS = 40 if CAMPAIGN else 3
SHOT = png(80, 60)
PLAN = (
    ("checkpoint: pop_frame was not made yet", pop("Saw it.")),
    ("Do a.", call("read_file", path="shot.png")),
    ("Do b.", command("cat a.txt")),
    ("Do everything", call("web_search", query="how to round")),
    ("Round once, at the end.", call("heap_read", name="skill/review")),
    ("Look for tabs.", call("run_command", command="echo job-output; sleep 600", background=True)),
    ("[job 1 is running", command("echo forbidden")),
    ("hook-says-no", together("a", "b")),
    ("2 frames returned", call("stop_job", job=1)),
    ("[image: shot.png", pop("Saw it.")),
    ("words of the file", pop("Read it.")),
)
"""Marks in the last message, and the call that answers it. Any other message ends the request."""


def answer(raw: bytes) -> bytes:
    """Answer a request by its last message, so that a process that was killed and continued gets the same replies."""
    messages = json.loads(raw)["messages"]
    last = json.dumps(messages[-1])
    made = next((made for mark, made in PLAN if mark in last), None)
    if made is None:
        return stream(says("All done."))
    block: Block = {"type": "tool_use", "id": f"toolu_{len(messages)}", "name": made["call"], "input": made["args"]}
    return stream(Answer((block,), "tool_use"))


def prepared(stage: Stage) -> Path:
    folder = stage.root / "mine"
    folder.mkdir()
    (folder / "a.txt").write_text("words of the file\n")
    (folder / "shot.png").write_bytes(SHOT)
    write(folder / ".claude/skills", "review", "How to review here.", "Look for tabs.")
    hooks = Path(os.environ["XDG_CONFIG_HOME"], "stackmem", "hooks.toml")
    hooks.parent.mkdir(parents=True)
    refuses = "if grep -q forbidden; then echo hook-says-no >&2; exit 2; fi"
    hooks.write_text(f"[[before_tool]]\ncommand = {json.dumps(refuses)}\ntools = ['run_command']\n")
    return folder


def arguments(folder: Path) -> list[object]:
    return [
        "chat", folder, "-p", "Do everything with @shot.png", "--model", "claude-sonnet-5-5", "--strategy", "stackheap",
        "--parallel-frames", "2", "--extra-tools", "web_search", "--network", "list", "--allow", "docs.example",
        "--approve", "never", "--vision", "on",
    ]  # fmt: skip


def runs(stage: Stage) -> list[Path]:
    return sorted(path for path in stage.runs.iterdir() if is_run(path))


@mounted
def test_a_conversation_with_everything_replays_here_and_packed_elsewhere(stage: Stage, tmp_path: Path):
    folder = prepared(stage)
    with SearchServer(CLAUDE, then=answer) as server:
        process = stage.start(*arguments(folder), env={"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url})
        printed, said = process.communicate(timeout=500)
    assert (process.returncode, server.refused) == (0, []), said
    assert "All done." in printed
    run, *frames = runs(stage)
    (attached,) = events(run, PersonAttached)
    assert images_of(run)(attached.images[0].digest) == SHOT
    assert [event.search.searches for event in events(run, ToolReturned) if isinstance(event.search, SearchBill)] == [1]
    assert [event.name for event in events(run, ChunkRead)] == ["skill/review"]
    assert [event.outcome for event in events(run, HookRan)] == ["passed", "refused"]
    assert [event.ending for event in events(run, FrameReturned)] == ["popped", "popped"]
    assert len(events(run, FramesMerged)) == 1
    assert "Jobs of the parent frame go on there, and this frame cannot reach them: 1 `echo job-output" in next(
        event.text for event in events(frames[0], NoticeGiven) if event.code == "jobs:lost"
    )
    assert any(event.images for event in events(frames[0], ToolReturned))
    assert events(run, ToolReturned)[-1].text.startswith("[job 1 ended: ")
    shutil.rmtree(folder)
    assert (replay(run).parallel, [replay(frame).outcome for frame in frames]) == (2, ["finished"] * 2)
    pack(run, tmp_path / "x.zip")
    assert replay(unpack(tmp_path / "x.zip", tmp_path / "far")).parallel == 2


@mounted
@pytest.mark.parametrize("seed", range(KILLS))
def test_a_kill_at_random_in_it_loses_nothing(stage: Stage, seed: int):
    folder = prepared(stage)
    after = Random(seed).randrange(3, 45)
    with SearchServer(CLAUDE, CLAUDE, then=answer) as server:
        environ = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url}
        process = stage.start(*arguments(folder), env=environ)
        while process.poll() is None and not (stage.runs.is_dir() and stage.written() >= after):
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        kept = {run: (run / TRACE).read_bytes() for run in runs(stage) if (run / TRACE).exists()}
        run = runs(stage)[0]
        done = resume(run, {"yes": ""}, {**os.environ, **stage.environ(environ)})
    assert done.outcome == "finished", done.failure
    assert len(events(run, FramesMerged)) == 1
    for path, lines in kept.items():
        assert (path / TRACE).read_bytes().startswith(lines[: lines.rfind(b"\n") + 1])
    assert replay(run).parallel == 2
    assert all(frame_parent(frame.name) == run.name for frame in runs(stage)[1:])
