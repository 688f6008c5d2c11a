"""The tools that a run with background jobs offers to the model."""

from __future__ import annotations

from ..tools import Offer, RunCommand, Tool, tool_name
from .calls import MAX_JOB_SECONDS, KeepJob, ListJobs, ReadJob, StopJob

MAX_COMMAND_SECONDS = 600
"""Maximum time that the agent may request for one command."""
_SECONDS = f"Time limit of a long command, from 1 to {MAX_COMMAND_SECONDS}."
_JOB = (
    " With background=true it starts a job instead: a server, a watcher or a long test suite that runs on while you "
    "work. Later commands can reach its ports. It ends with this frame; a notice says when it ends earlier."
)
_LONG = (
    "Run a bash command line in the workspace. After {{command_seconds}} seconds, or after `seconds` if given, it "
    "and all its processes are killed. Returns output and errors together, clipped in the middle, and the exit code."
)
LONG_COMMANDS = Offer(RunCommand, hidden=("background",), text=_LONG, words=(("seconds", _SECONDS),))
"""``run_command`` in a conversation about the user's own folder, if the user did not set a time limit."""
_COMMANDS = {
    (True, False): LONG_COMMANDS,
    (True, True): Offer(
        RunCommand, text=_LONG + _JOB, words=(("seconds", f"{_SECONDS} A job may take {MAX_JOB_SECONDS:,}."),)
    ),
    (False, True): Offer(RunCommand, hidden=("seconds",), text=" ".join((RunCommand.__doc__ or "").split()) + _JOB),
}
JOB_TOOLS: dict[str, Tool] = {tool_name(tool): tool for tool in (ListJobs, ReadJob, StopJob, KeepJob)}
"""The tools for jobs. Only a strategy with frames offers the last one."""


def with_command_fields(tools: tuple[Tool, ...], long_commands: bool, background: bool) -> tuple[Tool, ...]:
    """Return the tools with what a run adds to ``run_command``: a time limit, and jobs."""
    if not (long_commands or background):
        return tools
    return tuple(_COMMANDS[long_commands, background] if tool is RunCommand else tool for tool in tools)


def job_tools(tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """Return the tools for jobs that go with a strategy's tools; none if it does not offer the plain command."""
    if RunCommand not in tools:
        return ()
    frames = any((tool.call if isinstance(tool, Offer) else tool).behavior.frame == "starts" for tool in tools)
    return (ListJobs, ReadJob, StopJob, KeepJob) if frames else (ListJobs, ReadJob, StopJob)
