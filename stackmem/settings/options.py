"""All settings in one table, used for parsing, flag help, error messages and docs/configuration.md.

A project file or a task must never be able to extend what a run can access, because third parties write them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Literal, NamedTuple

Kind = Literal["text", "choice", "count", "amount", "path", "texts", "switch", "address"]

PREFIX = "STACKMEM_"
YEAR_SECONDS = 366 * 24 * 3600


class Option(NamedTuple):
    """A setting. A plain tuple, because ``--help`` reads it and must not import a library."""

    name: str
    kind: Kind  # ``count`` is an integer, ``amount`` any number above ``low``, ``texts`` a list, ``switch`` a boolean
    # the default value; None means absence, as described by ``none_means``
    default: str | int | float | bool | tuple[str, ...] | None
    says: str
    none_means: str = ""  # meaning of the value ``none``; empty if ``none`` is not allowed
    project: bool = False  # whether a project file may set it
    low: int = 0  # minimum of a count; an amount must be above it
    high: int = 0
    choices: tuple[str, ...] = ()
    rule: str = ""  # description of the default, if it follows a rule that the value does not express
    separator: str = ":"  # separator of list members in a variable
    short: str = ""  # the flag's short form; empty if it has none

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        return f"{PREFIX}{self.name.upper()}"

    @property
    def accepts(self) -> str:
        """The accepted form, for error messages and the documentation."""
        forms = {
            "text": "a text",
            "choice": f"one of {', '.join(self.choices)}",
            "count": f"a whole number from {self.low:,} to {self.high:,}",
            "amount": f"a number above {self.low:,} and at most {self.high:,}",
            "path": "a path",
            "texts": "one or more names",
            "switch": "true or false",
            "address": "an address such as http://127.0.0.1:8000/v1",
        }
        return forms[self.kind] + (f", or none for {self.none_means}" if self.none_means else "")

    @property
    def default_text(self) -> str:
        match self.default:
            case _ if self.rule:
                return self.rule
            case None | ():
                return self.none_means or "none"
            case bool():
                return str(self.default).lower()
            case _:
                return f"{self.default:,}" if isinstance(self.default, int) else str(self.default).removesuffix(".0")

    @property
    def help_text(self) -> str:
        """The text next to the flag in ``--help``."""
        form = f" Takes {self.accepts}." if self.kind in {"choice", "count", "amount", "address"} else ""
        return f"{self.says}{form} Default: {self.default_text}."


LEVELS = (
    "auto",
    "bubblewrap",
    "namespaces",
    "landlock",
    "none",
    "memory",
)

_TABLE = (
    Option(
        "model", "text", None,
        "Model to use: anthropic/NAME, openai/NAME, responses/NAME, gemini/NAME, script:FILE, demo or human.",
        none_means="the default", project=True, rule="Claude if a key is set, otherwise demo",
    ),
    Option(
        "strategy", "text", "adaptive",
        "Memory strategy, which decides what the model sees: NAME, or NAME:KEY=VALUE,KEY=VALUE.",
        project=True,
    ),
    Option(
        "isolation", "choice", "auto",
        "How commands are sandboxed. auto uses bubblewrap, or otherwise namespaces, and nothing weaker. memory only "
        "runs worlds.",
        choices=LEVELS,
    ),
    Option(
        "network", "choice", "none",
        "Network of commands in the sandbox: no network, listed hosts only, or the network of the host.",
        choices=("none", "list", "host"),
    ),
    Option(
        "allow", "texts", (),
        "Hosts that commands can reach with --network list: HOST:PORT, http://HOST or https://HOST (checked per "
        "request), or registries for those that this machine's pip, npm and apt use.",
        none_means="no host", separator=" ",
    ),
    Option(
        "credentials", "texts", (),
        "Headers that are added outside the sandbox to requests to a listed host: HOST:NAME=$VARIABLE or "
        "HOST:NAME=@FILE.",
        none_means="no credentials", separator=" ",
    ),
    Option(
        "check", "text", None,
        "Command that decides, out of the agent's reach, whether the work in a folder is solved. auto uses the test "
        "command that the folder's files suggest.",
        none_means="no check", project=True,
    ),
    Option(
        "check_files", "choice", "settings",
        "Files that --check uses in their original version: its programs, start-up files and the settings of test "
        "runners, or the tests too. With left, files stay as they are and only the exit code decides.",
        choices=("left", "settings", "tests"),
    ),
    Option(
        "include", "texts", (), "Ignored files or folders to copy into the run anyway.",
        none_means="no ignored files",
    ),
    Option(
        "git", "choice", "read",
        "How much of the folder's git repository a run can see: what HEAD reaches (read), or no repository (none).",
        choices=("read", "none"),
    ),
    Option(
        "layer", "choice", "auto",
        "How a run uses a folder: through an overlay, or as a copy. auto uses an overlay if it works.",
        choices=("auto", "overlay", "copy"),
    ),
    Option(
        "instructions", "text", "auto", "The project's instructions for agents: auto, or a FILE.",
        none_means="no instructions",
        rule="AGENTS.md, otherwise CLAUDE.md, from the root of the work tree down to the folder",
    ),
    Option(
        "skills", "choice", "auto",
        "Folders with a SKILL.md, of the project and your own, that the agent can read when it needs them.",
        choices=("auto", "off"),
    ),
    Option(
        "learn", "choice", "off", "on lets the agent propose procedures as programs, which stackmem learn keeps.",
        choices=("off", "on"),
    ),
    Option(
        "programs", "texts", (), "Folders with programs that the agent can call, in addition to the project's own.",
        none_means="no programs", rule="the programs in .stackmem/programs of a trusted folder",
    ),
    Option(
        "extra_tools", "texts", (),
        "Tools in addition to those of the strategy: edit_file, search_files, heap_load, web_fetch, web_search.",
        none_means="no more tools", project=True,
        rule="edit_file for a folder (not at the small size), no more tools for a task",
    ),
    Option(
        "runs_dir", "path", None, "Directory for runs.", none_means="the default", short="-o",
        rule="./runs in a stackmem checkout, otherwise $XDG_STATE_HOME/stackmem/runs",
    ),
    Option(
        "sandbox_dir", "path", None, "Directory for the workspaces of runs.", none_means="the default",
        rule="./sandbox/work in a stackmem checkout, otherwise $XDG_STATE_HOME/stackmem/work",
    ),
    Option(
        "max_steps", "count", 200, "Number of model replies after which the run ends.", none_means="no limit",
        project=True, low=1, high=1_000_000_000,
    ),
    Option(
        "max_usd", "amount", 5.0, "Maximum cost of the model in USD, if its prices are known.", none_means="no limit",
        project=True, high=1_000_000,
    ),
    Option(
        "max_tokens", "count", None, "Maximum number of tokens in prompts and replies together.",
        none_means="no limit",
        project=True, low=1, high=1_000_000_000_000,
    ),
    Option(
        "max_seconds", "amount", None, "Maximum wall time of the run in seconds.", none_means="no limit",
        project=True, high=YEAR_SECONDS,
    ),
    Option(
        "command_seconds", "amount", 30.0, "Seconds after which a command and all its processes are killed.",
        project=True, high=86_400,
    ),
    Option(
        "prompt", "path", None, "File that replaces the system prompt.", none_means="the strategy's prompt",
    ),
    Option(
        "profile", "path", None, "Sandbox profile: mounts, environment variables and limits of commands.",
        none_means="the default", rule="sandbox/profile.toml in a stackmem checkout, otherwise the built-in profile",
    ),
    Option(
        "base_url", "address", None, "Server address for an openai/NAME, responses/NAME or gemini/NAME model.",
        none_means="the provider's default",
    ),
    Option(
        "window_tokens", "count", None, "The model's context window in tokens.",
        none_means="the model's known window", project=True, low=1_000, high=100_000_000,
    ),
    Option(
        "size", "choice", "auto",
        "How much a run demands of its model. small uses a short prompt, at most six tools, and short results and "
        "replies, and introduces memory tools late. auto is small for a served model of at most 9 billion parameters "
        "or with a window of at most 8,192 tokens.",
        choices=("auto", "small", "full"), project=True,
    ),
    Option(
        "price", "text", None,
        "Price of the model in USD per million tokens: IN,OUT[,READ[,WRITE]], or the name of a known model.",
        none_means="the model's known price",
    ),
    Option(
        "temperature", "text", None, "Randomness of the model's replies: a number from 0 to 2.",
        none_means="the provider's default",
    ),
    Option(
        "effort", "choice", None, "How much the model should think, if it supports this.",
        none_means="the provider's default", choices=("minimal", "low", "medium", "high", "xhigh", "max"),
    ),
    Option(
        "service_tier", "text", None,
        "Service tier as named by the provider. It may cost more than the known price.",
        none_means="the provider's default",
    ),
    Option(
        "headers", "texts", (),
        "Headers for requests to the provider: NAME=VALUE, or NAME=$VARIABLE for a secret, which is not stored.",
        none_means="no more headers",
    ),
    Option(
        "text_calls", "choice", "auto",
        "Tool calls in the text of an openai/NAME model. auto reads one if the reply has no native call. prompt also "
        "describes the tools in the prompt. off reads none.",
        choices=("auto", "prompt", "off"),
    ),
    Option(
        "vision", "choice", "auto",
        "Whether the model gets images. auto decides by the table of models, the model's name and its server.",
        choices=("auto", "on", "off"),
    ),
    Option(
        "call_schema", "choice", "auto",
        "Whether the server restricts replies that must be a call to a JSON schema of the tools. auto does so on this "
        "machine, once a reply had no native call.",
        choices=("auto", "on", "off"),
    ),
    Option(
        "seed", "count", None,
        "Seed for models that accept one (openai/NAME). Others ignore it, and no provider promises equal replies for "
        "equal seeds.",
        none_means="no seed", high=2**31 - 1,
    ),
    Option(
        "otel", "address", None,
        "OpenTelemetry collector that receives the run's spans while it runs.", none_means="no collector",
    ),
    Option(
        "apply", "switch", False, "Apply the patch to the folder if the run is solved, or finishes without a check.",
    ),
    Option("yes", "switch", False, "Answer yes to questions, such as whether to copy a folder of over 1 GiB."),
    Option(
        "heap", "text", None,
        "Where chunks persist after the run: keep stores them for the folder in your state directory, a path in that "
        "file.",
        none_means="a heap for this run only", rule="a heap for this run only; keep for stackmem mcp",
    ),
    Option("heap_chars", "count", 10_000, "Maximum characters in the heap.", project=True, high=1_000_000),
    Option("heap_chunks", "count", 64, "Maximum chunks in the heap.", project=True, high=1_000),
    Option("depth", "count", 5, "Maximum frames on top of the root.", project=True, high=100),
    Option(
        "checkpoints", "choice", "auto",
        "Whether the first attempt of a push or pop is answered with what the frame found and does not hand over. "
        "auto does so for stackheap with a provider's or a served model.",
        choices=("auto", "on", "off"), project=True,
    ),
    Option(
        "read_calls", "choice", "one",
        "How many calls one reply may have: one, or many if all of them only read (read_file, list_files, "
        "search_files, heap_read). They are answered together, as one step.",
        choices=("one", "many"), project=True,
    ),
    Option(
        "parallel_frames", "count", 0,
        "How many frames the agent may start together. They run in parallel, each in its own copy of the files, and "
        "are merged in order. 0 for none.",
        project=True, low=0, high=8,
    ),
    Option(
        "jobs", "choice", "auto",
        "Whether the agent may run commands in the background, such as a development server. auto allows it in your "
        "own folder.",
        choices=("auto", "on", "off"), project=True,
    ),
    Option(
        "upkeep", "choice", "off",
        "Whether a conversation asks the model about each of your requests which words must outlive it. Each question "
        "is one small request.",
        choices=("off", "on"),
    ),
    Option(
        "literal_mib", "count", 10,
        "MiB of a file, or of each output of a command, that a program gets unclipped. Larger ones fail.",
        project=True, low=1, high=1_000,
    ),
    Option(
        "fsync", "choice", "step",
        "When the trace is synced to disk: before each request, when frames begin and end, or when the system does.",
        choices=("step", "frame", "none"),
    ),
)  # fmt: skip

OPTIONS = {option.name: option for option in _TABLE}

LIMIT_OPTIONS = tuple(name for name in OPTIONS if name.startswith("max_"))
"""The limits of a run."""

TASK_OPTIONS = (*LIMIT_OPTIONS, "command_seconds")
"""The settings that a task may set."""

ELSEWHERE = {
    "mounts": "profile",
    "mount": "profile",
    "env": "profile",
    "environment": "profile",
    "path": "profile",
}
"""Keys that are not settings of a configuration file, and the option that names the file they belong to."""

FOR_TESTS = tuple(f"{PREFIX}{name}" for name in ("CAMPAIGN", "CAMPAIGN_SECONDS", "CLIENTS", "EXPECT_LEVEL", "PICTURES"))
"""Variables for this project's tests."""

NOT_SETTINGS = (*FOR_TESTS, f"{PREFIX}GATEWAY_TOKEN", f"{PREFIX}MCP_TOKEN")
"""Variables for tests, and tokens of servers."""


def suggestion(key: str, keys: Iterable[str]) -> str:
    """Return the end of a message about an unknown key: the closest match, or all known keys."""
    names = sorted(keys)
    near = difflib.get_close_matches(key[:100].lower().replace("-", "_"), names, n=1)
    near = near or difflib.get_close_matches(key[:100].upper(), names, n=1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}"
