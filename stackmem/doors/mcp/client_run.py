"""A run whose replies are tool calls of another agent. It has no model and no sandbox.

The run follows the usual path: the machine's rules decide, the loop records, and replay verifies. The folder is
read, never changed. A call is answered only after the events behind the answer are recorded and synced as
``--fsync`` requires.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from msgspec import Struct, json
from msgspec.structs import replace

from stackmem.core.budgets import Budgets, Limits
from stackmem.core.errors import UsageError
from stackmem.core.facts import ModelReplied, RunStarted
from stackmem.core.messages import Text, ToolCall, ToolResult, ToolSpec, Usage, View
from stackmem.core.requests import AskModel
from stackmem.core.strategy import budgets_of
from stackmem.core.text import fill, mark_cut, whole, whole_value
from stackmem.core.tool_schemas import prompt_slots
from stackmem.core.version import VERSION
from stackmem.foreign.private import UnusableKey
from stackmem.memory import open_strategy
from stackmem.run.assemble import scrubber_of
from stackmem.run.companion.kept_heap import KEEP, HeapKeeper, HeapStore, heap_store
from stackmem.run.companion.keys import signing_key
from stackmem.run.in_memory import NoHistory
from stackmem.run.interrupts import Interrupts
from stackmem.run.opened import Opened, Person, RunPlaces
from stackmem.run.perform import World
from stackmem.run.plan import tool_specs
from stackmem.run.ports import Left
from stackmem.run.prepare import must_be_text
from stackmem.run.prompts import prompt_text
from stackmem.run.run_folder import TRACE, new_run
from stackmem.run.stored_request import StoredRequest, write_request
from stackmem.settings.directories import runs_dir
from stackmem.settings.frame_key import frame_key
from stackmem.settings.settings import Settings, resolve
from stackmem.trace.signatures import Signer
from stackmem.trace.store import TraceWriter
from stackmem.workspace.secrets import Scrubber, scrub_value
from stackmem.workspace.workspace import WatchedFolder

from .frame_marks import FrameMarks

STRATEGY = "stackheap:index=delta,tools=memory"
MODEL = "client"
"""Recorded as the model name of such a run."""
_TASK = "Memory of an agent with tools of its own, which works in {folder}."
_NO_WINDOW_TOKENS = 1_000_000_000
"""Effectively unlimited: the conversation belongs to the agent, so no window of ours may close a frame."""
_MAX_BYTES = 1 << 20


class ClientPlan(Struct, frozen=True):
    """Settings of a client's run, and the tools it is offered."""

    folder: Path
    settings: Settings
    runs_dir: Path
    budgets: Budgets
    tools: tuple[ToolSpec, ...]
    system: str  # instructions for the agent
    store: HeapStore | None = None  # storage of a heap that outlives the run; None if it does not


def plan_client_run(folder: str, flags: Mapping[str, object], environ: Mapping[str, str], cwd: Path) -> ClientPlan:
    """Prepare a client's run; raise all errors before the server starts."""
    path = (cwd / os.path.expanduser(folder)).resolve()
    must_be_text(str(path), "the folder's path")
    if not path.is_dir():
        raise UsageError(f"{folder} is not a folder; pass the folder that the agent works in")
    resolved = resolve(flags, environ, cwd)
    settings = resolved.settings
    name = settings.heap if resolved.is_given("heap") else KEEP
    store = None if name is None else heap_store(name, path, cwd, environ)
    strategy = open_strategy(STRATEGY)
    budgets = budgets_of(strategy, settings.budgets)
    slots = prompt_slots(budgets, settings.command_seconds)
    tools = tool_specs(strategy.tools, tuple(slots.items()))
    system = fill(prompt_text(strategy.prompt), slots)
    if store is not None:
        store.read()  # fail on an unreadable heap before the first call
    return ClientPlan(path, settings, runs_dir(settings, cwd, environ), budgets, tools, system, store)


class ClientAnswer(Struct, frozen=True):
    """The result of a call; ``failed`` if it was refused."""

    text: str
    failed: bool = False


class _Waiting(Struct):
    call: ToolCall
    answer: Future[ClientAnswer]


class ClientCalls:
    """Passes a client's calls, in order, from the server to the loop, which takes them as replies."""

    def __init__(self, warn: Callable[[str], object] = lambda _: None) -> None:
        self.warn = warn  # receives what the user should know about the run
        self._coming: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._first: _Waiting | None = None
        self._under_way: _Waiting | None = None
        self._count = 0
        self._closed = ""
        self.marks = FrameMarks()
        self.client = ""  # name and version of the client that made the first call
        self._lock = threading.Lock()

    def call(self, name: str, arguments: Mapping[str, Any], client: str = "") -> Future[ClientAnswer]:
        """Queue a call. The future resolves once the result is recorded; a failed run resolves it with an error."""
        answer: Future[ClientAnswer] = Future()
        params, name, client = whole_value(dict(arguments)), whole(name), whole(client)
        with self._lock:
            if self._closed:
                answer.set_result(ClientAnswer(self._closed, failed=True))
            elif (size := len(json.encode(params))) > _MAX_BYTES:
                message = f"{name[:80]} refused: its arguments are {size:,} bytes, maximum is {_MAX_BYTES:,}"
                answer.set_result(ClientAnswer(message, failed=True))
            else:
                self._count += 1
                self.client = self.client or client
                self._coming.put(_Waiting(ToolCall(f"call-{self._count}", name[:200], params), answer))
        return answer

    def wait(self) -> bool:
        """Wait for the first call; return False if the client leaves without one."""
        self._first = self._coming.get()
        return self._first is not None

    def leave(self) -> None:
        """Handle the client's exit: answer the queued calls, then end the run."""
        self._coming.put(None)

    def close(self, reason: str) -> None:
        """Answer all pending and future calls with ``reason``."""
        with self._lock:
            self._closed = reason
            pending = [self._first, self._under_way]
            while not self._coming.empty():
                pending.append(self._coming.get())
        for waiting in pending:
            if waiting is not None and not waiting.answer.done():
                waiting.answer.set_result(ClientAnswer(reason, failed=True))

    def next_call(self, view: View, scrub: Scrubber) -> ToolCall:
        """Answer the current call from the prompt that followed it, then wait for the next call.

        Raise Left if the client has disconnected.
        """
        if self._under_way is not None:
            answer = _answer(view)
            text = answer.text if answer.failed else self.marks.marked(self._under_way.call.name, answer.text)
            self._under_way.answer.set_result(ClientAnswer(text, answer.failed))
            self._under_way = None
        waiting, self._first = self._first or self._coming.get(), None
        if waiting is None:
            raise Left
        waiting.answer.set_running_or_notify_cancel()  # an accepted call is answered even if the client cancels it
        self._under_way = waiting
        return ToolCall(
            waiting.call.id, scrub.scrub(waiting.call.name), scrub_value(waiting.call.arguments, scrub.scrub)
        )


class ClientModel(Struct, frozen=True):
    """Takes the place of a model: the client's next call is its reply."""

    calls: ClientCalls
    scrub: Scrubber

    def reply(self, request: AskModel) -> ModelReplied:
        return ModelReplied((self.calls.next_call(request.view, self.scrub),), "call", Usage())


def _answer(view: View) -> ClientAnswer:
    """Return the end of the prompt: what a model would see, without the header that precedes every frame."""
    last = view.messages[-1]
    parts = last.parts[1:] if len(view.messages) == 1 else last.parts
    texts = [part.text for part in parts if isinstance(part, Text | ToolResult)]
    return ClientAnswer("\n".join(texts), any(isinstance(part, ToolResult) and part.failed for part in parts))


@contextmanager
def open_client_run(
    plan: ClientPlan, calls: ClientCalls, environ: Mapping[str, str], interrupts: Interrupts
) -> Iterator[Opened]:
    """Open everything the run needs while it is played.

    Raises:
        UsageError: The run's folder cannot be created.
        TraceError: The trace cannot be written.
        WorkspaceError: The folder is gone.
    """
    scrubber = scrubber_of(environ)
    with ExitStack() as stack:
        workspace = WatchedFolder(plan.folder)
        stack.callback(workspace.close)
        start = _start(plan, scrubber.scrub(mark_cut(" ".join(calls.client.split()), 80)), scrubber)
        keeper = None if plan.store is None else HeapKeeper(plan.store, scrubber.scrub)
        if keeper is not None:
            start = replace(start, heap=keeper.taken_over(plan.budgets, workspace.digest))
        run = new_run(plan.runs_dir, start.task_name, "mcp")
        calls.marks.run = run.name
        try:
            calls.marks.key = frame_key(environ)
        except UnusableKey as error:
            calls.warn(f"frames that programs push will have no effect on prompts behind a gateway: {error}")
        writer = TraceWriter(run / TRACE, reserves=True)
        stack.callback(writer.close)
        flags = {"heap_chars": plan.budgets.heap_chars, "heap_chunks": plan.budgets.heap_chunks}
        request = StoredRequest(str(plan.folder), start.task, flags, str(plan.folder), "")
        write_request(request, run)
        signer = Signer(run, partial(signing_key, environ), writer.count, writer.digest)
        sync = writer.syncs(plan.settings.fsync)
        model = ClientModel(calls, scrubber)
        world = World(model, workspace, None, scrubber.scrub, sync, plan.settings.command_seconds)
        world.must_have_room = writer.must_have_room
        places = RunPlaces(run, plan.folder, run)
        yield Opened(
            start, open_strategy(STRATEGY), world, workspace, scrubber, places, NoHistory(), request, interrupts,
            Person(), writer, signer, keeper,
        )  # fmt: skip


def _start(plan: ClientPlan, client: str, scrubber: Scrubber) -> RunStarted:
    return RunStarted(
        task=scrubber.scrub(_TASK.format(folder=plan.folder)),
        task_name=plan.folder.name or "root",
        model=MODEL,
        strategy=STRATEGY,
        system=plan.system,
        tools=plan.tools,
        workspace=str(plan.folder),
        isolation=WatchedFolder.level,
        network="none",
        budgets=plan.budgets,
        limits=Limits(steps=None),
        window_tokens=_NO_WINDOW_TOKENS,
        price=None,
        checked=False,
        command_seconds=plan.settings.command_seconds,
        version=VERSION,
        several_calls="first",
        questions="end",
        client=client,
        index="escaped",
    )
