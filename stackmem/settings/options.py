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
    """A setting. A plain tuple, because ``--help`` reads it and must not import a library.

    Attributes:
        kind: ``count`` is an integer, ``amount`` any number above ``low``, ``texts`` a list, ``switch`` a boolean.
        default: The default value; None means absence, as described by ``none_means``.
        none_means: Meaning of the value ``none``; empty if ``none`` is not allowed.
        project: Whether a project file may set it.
        low: Minimum of a count; an amount must be above it.
        rule: Description of the default, if it follows a rule that the value does not express.
        separator: Separator of list members in a variable.
    """

    name: str
    kind: Kind
    default: str | int | float | bool | tuple[str, ...] | None
    says: str
    none_means: str = ""
    project: bool = False
    low: int = 0
    high: int = 0
    choices: tuple[str, ...] = ()
    rule: str = ""
    separator: str = ":"

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


_TABLE = (
    Option(
        "model", "text", None,
        "The model that does the work: anthropic/NAME, openai/NAME, responses/NAME, gemini/NAME, script:FILE, demo or "
        "human.",
        none_means="the default", project=True, rule="Claude where a key is set, else demo",
    ),
    Option(
        "strategy", "text", "adaptive", "What the model sees of its memory: NAME, or NAME:KEY=VALUE,KEY=VALUE.",
        project=True,
    ),
    Option(
        "isolation", "choice", "auto",
        "How the sandbox is made; auto takes bubblewrap, else namespaces, never less; memory runs worlds alone.",
        choices=("auto", "bubblewrap", "namespaces", "landlock", "none", "memory"),
    ),
    Option(
        "network", "choice", "none", "The network of commands in the sandbox: none, listed hosts, or the host's own.",
        choices=("none", "list", "host"),
    ),
    Option(
        "allow", "texts", (),
        "Hosts that commands reach with --network list: HOST:PORT, http://HOST or https://HOST by request, "
        "or registries for those of this machine's own pip, npm and apt.",
        none_means="no host", separator=" ",
    ),
    Option(
        "credentials", "texts", (),
        "Headers put into requests to a listed host, outside of the sandbox: HOST:NAME=$VARIABLE or HOST:NAME=@FILE.",
        none_means="nothing", separator=" ",
    ),
    Option(
        "check", "text", None,
        "A command that decides, out of the agent's reach, whether a folder's work is solved; auto takes the test "
        "command that the folder's own files suggest.",
        none_means="no check", project=True,
    ),
    Option(
        "check_files", "choice", "settings",
        "What --check is run with as the run found it: its programs, start-up files and the settings of test runners, "
        "or tests as well. With left, nothing, and its exit code alone decides.",
        choices=("left", "settings", "tests"),
    ),
    Option(
        "include", "texts", (), "Ignored files or folders of the folder worked on that are copied along all the same.",
        none_means="nothing more",
    ),
    Option(
        "git", "choice", "read",
        "What a run on a folder of your own sees of its git repository: what HEAD reaches, or no repository.",
        choices=("read", "none"),
    ),
    Option(
        "layer", "choice", "auto",
        "How a run works on a folder: on a layer over it (overlay), or on a copy; auto takes the layer where it works.",
        choices=("auto", "overlay", "copy"),
    ),
    Option(
        "instructions", "text", "auto", "The project's own instructions for agents: auto, or a FILE.",
        none_means="no instructions", rule="AGENTS.md, else CLAUDE.md, from the root of the work tree to the folder",
    ),
    Option(
        "extra_tools", "texts", (), "Tools offered beside the strategy's own: edit_file, search_files, heap_load.",
        none_means="nothing more", project=True, rule="edit_file for a folder of your own, nothing more for a task",
    ),
    Option(
        "runs_dir", "path", None, "Where runs are kept.", none_means="the default",
        rule="./runs in a stackmem checkout, else $XDG_STATE_HOME/stackmem/runs",
    ),
    Option(
        "sandbox_dir", "path", None, "Where the workspaces of runs are kept.", none_means="the default",
        rule="./sandbox/work in a stackmem checkout, else $XDG_STATE_HOME/stackmem/work",
    ),
    Option(
        "max_steps", "count", 200, "Replies of the model, after which the run ends.", none_means="no limit",
        project=True, low=1, high=1_000_000_000,
    ),
    Option(
        "max_usd", "amount", 5.0, "What the model may cost in USD, where its prices are known.", none_means="no limit",
        project=True, high=1_000_000,
    ),
    Option(
        "max_tokens", "count", None, "Tokens of prompts and replies together.", none_means="no limit",
        project=True, low=1, high=1_000_000_000_000,
    ),
    Option(
        "max_seconds", "amount", None, "Seconds of wall time for the run.", none_means="no limit",
        project=True, high=YEAR_SECONDS,
    ),
    Option(
        "command_seconds", "amount", 30.0, "Seconds after which a command and all its processes are killed.",
        project=True, high=86_400,
    ),
    Option(
        "prompt", "path", None, "A file that replaces the system prompt.", none_means="the strategy's own",
    ),
    Option(
        "profile", "path", None, "A sandbox profile: mounts, environment allow-list, limits of commands.",
        none_means="the default", rule="sandbox/profile.toml in a stackmem checkout, else the same built in",
    ),
    Option(
        "base_url", "address", None, "The server of an openai/NAME, responses/NAME or gemini/NAME model.",
        none_means="the provider's own",
    ),
    Option(
        "window_tokens", "count", None, "The model's context window, in tokens.",
        none_means="what is known of the model", project=True, low=1_000, high=100_000_000,
    ),
    Option(
        "size", "choice", "auto",
        "How much a run asks of its model. small has a short prompt, six tools at most, short results and replies, and "
        "tells of memory tools late. auto is small for a served model of at most 9 billion parameters or with a window "
        "of at most 8,192 tokens.",
        choices=("auto", "small", "full"), project=True,
    ),
    Option(
        "price", "text", None,
        "What the model costs, in USD per million tokens: IN,OUT[,READ[,WRITE]], or the name of a known model.",
        none_means="what is known of the model",
    ),
    Option(
        "temperature", "text", None, "How freely the model picks its words: a number from 0 to 2.",
        none_means="the provider's own",
    ),
    Option(
        "effort", "choice", None, "How much the model is to think, where it takes that.",
        none_means="the provider's own", choices=("minimal", "low", "medium", "high", "xhigh", "max"),
    ),
    Option(
        "service_tier", "text", None,
        "How soon the provider answers, in its own words; it may cost more than the price that is known.",
        none_means="the provider's own",
    ),
    Option(
        "headers", "texts", (),
        "Headers of each request to the provider: NAME=VALUE, or NAME=$VARIABLE for a secret, which is kept nowhere.",
        none_means="nothing more",
    ),
    Option(
        "text_calls", "choice", "auto",
        "Tool calls in the text of an openai/NAME model. auto reads one if the reply has no native call. prompt also "
        "describes the tools in the prompt. off reads none.",
        choices=("auto", "prompt", "off"),
    ),
    Option(
        "call_schema", "choice", "auto",
        "Whether the server keeps replies that must be a call to a JSON schema of the tools. auto does so on this "
        "machine, once a reply had no native call.",
        choices=("auto", "on", "off"),
    ),
    Option(
        "seed", "count", None,
        "Given to models that take one (openai/NAME); the others have no use for it, and no provider promises the same "
        "reply for the same seed.",
        none_means="no seed", high=2**31 - 1,
    ),
    Option(
        "otel", "address", None,
        "A collector of OpenTelemetry that is sent the run's spans while it goes on.", none_means="none",
    ),
    Option("apply", "switch", False, "Applies the patch to the folder when solved, or finished without a check."),
    Option("yes", "switch", False, "Answers yes to questions, such as whether to copy a folder of over 1 GiB."),
    Option(
        "heap", "text", None,
        "Chunks that outlive the run: keep keeps them for the folder in your state directory, a path in that file.",
        none_means="a heap of the run's own", rule="a heap of the run's own; of stackmem mcp, keep",
    ),
    Option("heap_chars", "count", 10_000, "Characters that the heap holds in all.", project=True, high=1_000_000),
    Option("heap_chunks", "count", 64, "Chunks that the heap holds.", project=True, high=1_000),
    Option("depth", "count", 5, "Frames that may be pushed on top of the root.", project=True, high=100),
    Option(
        "literal_mib", "count", 10,
        "MiB of a file, and of each output of a command, that a program is given whole; what is larger fails.",
        project=True, low=1, high=1_000,
    ),
    Option(
        "fsync", "choice", "step",
        "When the trace is forced to the disk: before each request, as frames begin and end, or as the system likes.",
        choices=("step", "frame", "none"),
    ),
)  # fmt: skip

OPTIONS = {option.name: option for option in _TABLE}

TASK_OPTIONS = ("max_steps", "max_usd", "max_tokens", "max_seconds", "command_seconds")
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


def suggestion(key: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown key: the closest match, or all known keys."""
    names = sorted(known)
    near = difflib.get_close_matches(key[:100].lower().replace("-", "_"), names, n=1)
    near = near or difflib.get_close_matches(key[:100].upper(), names, n=1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}"
