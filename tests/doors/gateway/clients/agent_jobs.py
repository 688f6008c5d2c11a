"""The agents that work on the scripted jobs: how each starts and continues one."""

from __future__ import annotations

from msgspec import Struct

from tests.doors.gateway.clients.job import AGAIN, BEGIN, MAIN, RESUME, TITLE
from tests.doors.gateway.clients.table import CLIENTS, Client

NAMED = {client.name: client for client in CLIENTS}


class JobClient(Struct, frozen=True):
    """An agent with a job.

    Attributes:
        command: Starts the job; ``resume`` continues it; empty if the agent cannot. ``{task}`` is the prompt.
        sessions: Where it keeps its session files, below its home; empty if it keeps none.
        agents: How many sub-agents its job starts.
        unsaved: How replies begin that its files do not contain, such as a compaction.
        is_linked: Whether its resumed session can be recognized.
        typed: For an agent that reads its prompts from stdin, the lines for the start and for the resume.
        git: It works in a repository, and asks for messages of its commits.
    """

    client: Client
    command: tuple[str, ...]
    resume: tuple[str, ...] = ()
    sessions: str = ""
    agents: int = 2
    unsaved: tuple[str, ...] = ()
    is_linked: bool = True
    typed: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    git: bool = False


_CLAUDE = ("{bin}/claude", "-p", "{task}", "--dangerously-skip-permissions", "--autocompact", "100000", "--model")
_CODEX = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
          "-c", "model_auto_compact_token_limit=100000", "-m")  # fmt: skip
_OPENCODE = ("{bin}/opencode", "run", "--model")
_GEMINI = ("{bin}/gemini", "--model", "gemini-3.8-flash", "--yolo", "-p", "{task}")
_AIDER = (
    "{bin}/aider", *(word for word in NAMED["aider"].command[1:] if word != "--no-git"),
    "--edit-format", "diff", "--max-chat-history-tokens", "600", *(f"part_{number}.txt" for number in range(1, 8)),
)  # fmt: skip


def _claude(model: str) -> JobClient:
    command = (*_CLAUDE, model)
    return JobClient(
        NAMED["claude-code"], command, (*command, "--continue"), ".claude/projects/*/*.jsonl", unsaved=("<analysis>",)
    )


def _codex(model: str) -> JobClient:
    started = ("{bin}/codex", "exec", *_CODEX, model, "{task}")
    resumed = ("{bin}/codex", "exec", "resume", "--last", *_CODEX, model, "{task}")
    return JobClient(NAMED["codex"], started, resumed, ".codex/sessions/*/*/*/*.jsonl")


def _opencode(model: str) -> JobClient:
    command = (*_OPENCODE, f"anthropic/{model}", "{task}")
    return JobClient(
        NAMED["opencode"],
        command,
        (*_OPENCODE[:2], "--continue", *command[2:]),
        ".local/share/opencode/opencode.db",
        unsaved=(TITLE,),
    )


JOBS = {
    "claude-code": _claude("claude-sonnet-5-5"),
    "claude-code-4": _claude("claude-haiku-4-5"),
    "codex": _codex("gpt-5.6-sol"),
    "codex-tools": _codex("gpt-5.4"),
    "opencode": _opencode("claude-sonnet-5-5"),
    "opencode-4": _opencode("claude-haiku-4-5"),
    "gemini-cli": JobClient(
        NAMED["gemini-cli"],
        _GEMINI,
        (*_GEMINI, "--resume", "latest"),
        ".gemini/tmp/*/chats/session-*.jsonl",
    ),
    "aider": JobClient(
        NAMED["aider"],
        _AIDER,
        (*_AIDER, "--restore-chat-history"),
        agents=0,
        is_linked=False,
        git=True,
        typed=(
            (BEGIN, *(f"Step {number}, please." for number in range(2, len(MAIN) + 2))),
            (RESUME, *(f"Check {number}, please." for number in range(2, len(AGAIN) + 2))),
        ),
    ),
    "mini-swe-agent": JobClient(
        NAMED["mini-swe-agent"],
        NAMED["mini-swe-agent"].command,
        agents=0,
        is_linked=False,
        sessions=".config/mini-swe-agent/last_mini_run.traj.json",
    ),
}
