"""The commands in the groups that ``--help`` shows, with an example of each.

Imports only the standard library, so that ``stackmem --help`` and Tab completion stay fast.
"""

from __future__ import annotations

GROUPS = {
    "Work": {
        "solve": "Let a model solve a task, or work on a copy of a folder.",
        "chat": "Talk with the agent about a folder.",
        "acp": "Let an editor talk with the agent.",
        "resume": "Go on with a run that stopped.",
        "fork": "Go on from a step of a run, with something changed.",
        "apply": "Apply a run's patch to the folder it came from.",
        "tasks": "List, check or import tasks.",
        "gateway": "Record any agent, between it and its provider.",
        "mcp": "Give any agent a heap and frames.",
    },
    "Look": {
        "runs": "List the runs there are.",
        "heap": "The chunks that outlive the runs of a folder.",
        "view": "Write a run, or two, as one HTML file.",
        "ui": "Show runs and benches in the browser, live.",
        "trace": "Look at a run's trace, and measure it.",
        "replay": "Verify every event and prompt of a run.",
        "diff": "Say where two runs part, and what each came to.",
        "export": "Write a run in another tool's format.",
        "import": "Take another agent's recording in as a run.",
    },
    "Compare": {
        "bench": "Compare memory strategies over many runs.",
        "report": "Write what the strategies of a bench solved and cost.",
        "whatif": "Cost a recorded run under other strategies.",
        "evidence": "Compare memory strategies on recordings of real agents.",
        "worlds": "Make tasks that test memory.",
    },
    "Programs": {
        "run": "Run a program.",
        "lint": "Say what is wrong with programs.",
        "debug": "Let an editor debug a program.",
        "repl": "Evaluate S-expressions as they are typed.",
        "compile": "Turn plain playbooks into coded ones.",
        "examples": "List the example programs, or copy one.",
        "languages": "List the languages of programs.",
    },
    "Set up": {
        "doctor": "Say what isolation works here, and how to get it.",
        "config": "Show every setting and where its value comes from.",
        "models": "List the known models with their prices.",
        "strategies": "List the memory strategies.",
        "trust": "Let a folder's own servers run.",
        "keys": "The keys that sign runs: yours, and those you trust.",
        "completion": "Let Tab complete commands, flags and names.",
        "docs": "Read or search the documents, offline.",
        "man": "Print the manual page.",
    },
}
"""Each command with its line in ``--help``; its module is ``commands/NAME.py``."""

COMMANDS = {name: says for group in GROUPS.values() for name, says in group.items()}

EXAMPLES = {
    "solve": 'stackmem solve . -t "fix the failing test" --check "make test"',
    "chat": "stackmem chat ~/project --model claude-sonnet-5-5",
    "acp": "stackmem acp --model claude-sonnet-5-5 --approve commands",
    "resume": "stackmem resume last --max-steps +50",
    "fork": "stackmem fork last --at 13 --strategy full",
    "apply": "stackmem apply last",
    "tasks": "stackmem tasks list",
    "tasks list": "stackmem tasks list --json",
    "tasks build": "stackmem tasks build tasks/sorted --base debian:bookworm=root.tar",
    "tasks check": "stackmem tasks check calculator",
    "tasks import": "stackmem tasks import exercism exercises/two-fer -o tasks",
    "gateway": 'stackmem gateway run -- claude -p "mend the tests"',
    "gateway run": 'stackmem gateway run -- claude -p "mend the tests"',
    "gateway status": "stackmem gateway status",
    "mcp": "stackmem mcp ~/project",
    "heap": "stackmem heap list",
    "heap list": "stackmem heap list --all",
    "heap read": "stackmem heap read env",
    "heap write": 'stackmem heap write env -t "tests: make test"',
    "heap free": "stackmem heap free env",
    "heap prune": "stackmem heap prune --stale --older-than 90d",
    "runs": 'stackmem runs --filter outcome=solved --filter "cost_usd<0.50"',
    "runs rm": "stackmem runs rm last",
    "runs prune": "stackmem runs prune --older-than 30d --dry-run",
    "view": "stackmem view last --output run.html --open",
    "ui": "stackmem ui runs benches --open",
    "trace": "stackmem trace show last",
    "trace show": "stackmem trace show last --steps",
    "trace stats": "stackmem trace stats last",
    "trace pack": "stackmem trace pack last -o calculator.zip",
    "trace recover": "stackmem trace recover last",
    "trace redact": 'stackmem trace redact last --pattern "acme"',
    "replay": "stackmem replay last",
    "diff": "stackmem diff last 20261120T151008Z",
    "export": "stackmem export last --format chrome --out run.json",
    "import": "stackmem import session.jsonl",
    "bench": "stackmem bench calculator --strategies full,stack -o bench",
    "report": "stackmem report bench --open",
    "whatif": "stackmem whatif last",
    "evidence": "stackmem evidence recordings -o evidence.html",
    "worlds": "stackmem worlds list",
    "worlds list": "stackmem worlds list --json",
    "worlds make": "stackmem worlds make ledger --horizon 60 --output ledger",
    "run": "stackmem run examples/apl/log-triage --dry-run",
    "lint": "stackmem lint main.apl --strict",
    "debug": "stackmem debug last",
    "repl": "stackmem repl --model claude-sonnet-5-5",
    "compile": "stackmem compile review.playbook.md",
    "examples": "stackmem examples apl/log-triage",
    "languages": "stackmem languages",
    "doctor": "stackmem doctor",
    "config": "stackmem config calculator",
    "models": "stackmem models",
    "strategies": "stackmem strategies window",
    "trust": "stackmem trust .",
    "keys": "stackmem keys list",
    "keys list": "stackmem keys list",
    "keys export": "stackmem keys export",
    "keys trust": "stackmem keys trust KEY alice",
    "keys distrust": "stackmem keys distrust KEY",
    "completion": "stackmem completion bash",
    "docs": "stackmem docs chat",
    "man": "stackmem man",
}
"""Each command and subcommand with one example call."""

EXIT_CODES = """\
Exit codes: 0 solved or finished; 1 unsolved, or stalled; 2 usage (a bad task, file, name or key); 3 a limit
was reached; 4 the provider failed (also a script that ran dry); 5 the workspace or its isolation failed; 6 replay
derives something else; 7 the trace is broken or cannot be written; 8 input is needed; 130 interrupted;
143 terminated."""
