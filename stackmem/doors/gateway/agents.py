"""Starts an agent behind the gateway: sets its environment and arguments, and waits for its end."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from stackmem.doors.listening.token import TOKEN_HEADER
from stackmem.errors import UsageError

from .serving import TOKEN_VARIABLE, ServedGateway

_LOCAL = "127.0.0.1,localhost,::1"


def agent_environ(environ: Mapping[str, str], url: str, token: str) -> dict[str, str]:
    """Return the environment for an agent, with the addresses that SDKs read and the gateway exempt from proxies.

    The token travels only in environment variables, because other users of the machine can read command lines.
    """
    given = dict(environ)
    for name in ("NO_PROXY", "no_proxy"):
        given[name] = ",".join(filter(None, (environ.get(name, ""), _LOCAL)))
    return given | gateway_variables(url) | {TOKEN_VARIABLE: token}


def gateway_variables(url: str) -> dict[str, str]:
    """Return the variables that point SDKs and most agents to a gateway."""
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_BASE": url,
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_BASE": f"{url}/v1",
    }


def agent_command(command: Sequence[str], url: str) -> list[str]:
    """Return the command to start. Codex ignores these variables, so it gets settings that name one with the token."""
    if PurePath(command[0]).stem != "codex":
        return list(command)
    brings = f'env_http_headers={{"{TOKEN_HEADER}"="{TOKEN_VARIABLE}"}}'
    provider = f'{{name="stackmem",base_url="{url}/v1",env_key="OPENAI_API_KEY",wire_api="responses",{brings}}}'
    settings = ["-c", "model_provider=stackmem", "-c", f"model_providers.stackmem={provider}"]
    return [command[0], *settings, *command[1:]]


def run_agent(command: Sequence[str], environ: Mapping[str, str], served: ServedGateway) -> int:
    """Start the agent, wait for it, and return its exit code; 128 plus the number of a signal that killed it.

    The gateway ignores Ctrl-C while the agent runs, because the terminal sends it to both.
    """
    try:
        agent = subprocess.Popen(
            agent_command(command, served.bare), env=agent_environ(environ, served.url, served.token)
        )
    except OSError as error:
        raise UsageError(f"{command[0]} cannot be started ({error.strerror}); pass a command after --") from error
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGQUIT)}
    ended = signal.signal(signal.SIGTERM, lambda *_: agent.terminate())
    try:
        code = agent.wait()
    finally:
        for number, handler in (*before.items(), (signal.SIGTERM, ended)):
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code
