"""The commands in the groups that ``--help`` shows, with examples of each.

Imports only the standard library, so that ``stackmem --help`` and Tab completion stay fast.
"""

from __future__ import annotations

DESCRIPTION = (
    "A coding agent that manages its own working memory: a stack of frames, a heap of chunks, small registers."
)
COMPLETION = "_STACKMEM_COMPLETE"
"""The variable that is set if a press of Tab started the process."""
IN_CONTAINER = "--in-container"
ROOT_OPTIONS = {
    "--version": "Print the version.",
    IN_CONTAINER: "Run the command in a container, with podman or docker. Must be the first argument.",
    "--help": "Show this message and exit.",
}

GROUPS = {
    "Work": {
        "solve": "Solve a task, or work on a copy of a folder.",
        "chat": "Talk with the agent about a folder.",
        "acp": "Connect an editor to the agent.",
        "resume": "Continue a run that stopped.",
        "fork": "Continue from a step of a run, with changes.",
        "apply": "Apply a run's patch to its folder.",
        "tasks": "List, check, build or import tasks.",
        "gateway": "Record any agent's requests to its provider.",
        "mcp": "Give any agent a heap and frames.",
    },
    "Inspect": {
        "runs": "List runs, or remove them.",
        "heap": "Manage chunks that are kept between runs.",
        "view": "Write one run, or two, as an HTML page.",
        "ui": "Show runs and benches live in the browser.",
        "trace": "Show, measure or pack the trace of a run.",
        "replay": "Verify a run, or play it again.",
        "diff": "Show where two runs diverge.",
        "export": "Write a run in another tool's format.",
        "import": "Import another agent's recording as a run.",
    },
    "Compare": {
        "bench": "Compare memory strategies over many runs.",
        "report": "Report what the strategies of a bench solved and cost.",
        "whatif": "Estimate a recorded run's cost under other strategies.",
        "evidence": "Compare memory strategies on recordings of real agents.",
        "worlds": "Generate tasks that test memory.",
    },
    "Programs": {
        "run": "Run a program.",
        "lint": "Find errors in programs.",
        "debug": "Debug a program, or walk through a recorded run.",
        "repl": "Evaluate S-expressions interactively.",
        "compile": "Turn plain playbooks into coded ones.",
        "package": "Package a program as a skill, an action or an MCP tool.",
        "examples": "List the example programs, or copy one.",
        "languages": "List the program languages.",
    },
    "Set up": {
        "doctor": "Show which sandboxes and models work here.",
        "config": "Show every setting and its source.",
        "models": "List the known models with their prices.",
        "strategies": "List the memory strategies.",
        "learn": "Keep a procedure that an agent wrote as a program.",
        "trust": "Allow a folder's own servers to run.",
        "keys": "Manage the keys that sign runs.",
        "completion": "Print a shell completion script.",
        "docs": "Read or search the documents offline.",
        "man": "Print the manual page.",
    },
}
"""Each command with its line in ``--help``; its module is ``commands/NAME.py``."""

COMMANDS = {name: says for group in GROUPS.values() for name, says in group.items()}

EXAMPLES = {
    "solve": (
        'stackmem solve . -t "fix the failing test" --check "make test"',
        "stackmem solve calculator --model demo",
    ),
    "chat": ("stackmem chat ~/project --model claude-sonnet-5-5", "stackmem chat --continue"),
    "acp": (
        "stackmem acp --model claude-sonnet-5-5 --approve commands",
        "stackmem acp --model ollama/qwen3-coder --approve all",
    ),
    "resume": ("stackmem resume last --max-steps +50", 'stackmem resume last --say "use the second option"'),
    "fork": (
        "stackmem fork last --at 13 --strategy full",
        'stackmem fork last --at 0 --set heap.env="tests: make test"',
    ),
    "apply": ("stackmem apply last", "stackmem apply 4f2a9c"),
    "tasks": ("stackmem tasks list", "stackmem tasks check calculator"),
    "tasks list": ("stackmem tasks list --json", "stackmem tasks list"),
    "tasks build": (
        "stackmem tasks build tasks/sorted --base debian:bookworm=root.tar",
        "stackmem tasks build tasks/sorted --network list --allow registries",
    ),
    "tasks check": ("stackmem tasks check calculator", "stackmem tasks check"),
    "tasks import": (
        "stackmem tasks import exercism exercises/two-fer -o tasks",
        "stackmem tasks import harbor terminal-bench/tasks -o tasks",
    ),
    "gateway": ('stackmem gateway run -- claude -p "fix the tests"', "stackmem gateway --max-usd 5"),
    "gateway run": (
        'stackmem gateway run -- claude -p "fix the tests"',
        'stackmem gateway run --strategy mask -- codex exec "fix the tests"',
    ),
    "gateway status": ("stackmem gateway status", "stackmem gateway status --json"),
    "mcp": ("stackmem mcp ~/project", "stackmem mcp --http 8123"),
    "heap": ("stackmem heap list", "stackmem heap read env"),
    "heap list": ("stackmem heap list --all", "stackmem heap list"),
    "heap read": ("stackmem heap read env", "stackmem heap read env --folder ~/project"),
    "heap write": (
        'stackmem heap write env -t "tests: make test"',
        'stackmem heap write layout --source src/main.py -t "one class per command"',
    ),
    "heap free": ("stackmem heap free env", "stackmem heap free env layout"),
    "heap prune": ("stackmem heap prune --stale --older-than 90d", "stackmem heap prune --gone --dry-run"),
    "runs": (
        'stackmem runs --filter outcome=solved --filter "cost_usd<0.50"',
        "stackmem runs --sort -cost_usd --limit 10",
    ),
    "runs rm": ("stackmem runs rm last", "stackmem runs rm 4f2a9c 81b3d0"),
    "runs prune": ("stackmem runs prune --older-than 30d --dry-run", "stackmem runs prune --keep-last 20"),
    "view": ("stackmem view last --output run.html --open", "stackmem view last 4f2a9c --open"),
    "ui": ("stackmem ui runs benches --open", "stackmem ui --open"),
    "trace": ("stackmem trace show last", "stackmem trace stats last"),
    "trace show": ("stackmem trace show last --steps", "stackmem trace show last"),
    "trace stats": ("stackmem trace stats last", "stackmem trace stats last --simulate claude-sonnet-5-5"),
    "trace pack": ("stackmem trace pack last -o calculator.zip", "stackmem trace pack last"),
    "trace recover": ("stackmem trace recover last", "stackmem trace recover 4f2a9c --json"),
    "trace redact": (
        'stackmem trace redact last --pattern "acme"',
        r'stackmem trace redact last --pattern "acme" --pattern "10\.0\.\d+\.\d+"',
    ),
    "replay": ("stackmem replay last", "stackmem replay last --step 12"),
    "diff": ("stackmem diff last 20261120T151008Z", "stackmem diff last 4f2a9c --json"),
    "export": (
        "stackmem export last --format chrome --out run.json",
        "stackmem export last --format otel --endpoint http://127.0.0.1:4318",
    ),
    "import": ("stackmem import session.jsonl", "stackmem import trajectory.json --format atif"),
    "bench": (
        "stackmem bench calculator --strategies full,stack -o bench",
        "stackmem bench ledger --strategies all --trials 5 --total-usd 20 -o bench",
    ),
    "report": ("stackmem report bench --open", "stackmem report bench --baseline full -o report.csv"),
    "whatif": ("stackmem whatif last", "stackmem whatif session.jsonl --strategies full,window"),
    "evidence": (
        "stackmem evidence recordings -o evidence.html",
        "stackmem evidence recordings --rows rows.jsonl -o evidence.md",
    ),
    "worlds": ("stackmem worlds list", "stackmem worlds make ledger --output ledger"),
    "worlds list": ("stackmem worlds list --json", "stackmem worlds list"),
    "worlds make": (
        "stackmem worlds make ledger --horizon 60 --output ledger",
        "stackmem worlds make ledger --noise 3 -o noisy",
    ),
    "run": ("stackmem run examples/apl/log-triage --dry-run", "stackmem run review.playbook.md --input branch=main"),
    "lint": ("stackmem lint main.apl --strict", "stackmem lint programs --format github"),
    "debug": ("stackmem debug last", "stackmem debug"),
    "repl": ("stackmem repl --model claude-sonnet-5-5", "stackmem repl workflow.sexp"),
    "compile": ("stackmem compile review.playbook.md", "stackmem compile review.playbook.md --model claude-sonnet-5-5"),
    "learn": ("stackmem learn last", "stackmem learn last release.apl"),
    "package": ("stackmem package apl/triage", "stackmem package review.pb --as action -o review-action"),
    "examples": ("stackmem examples apl/log-triage", "stackmem examples"),
    "languages": ("stackmem languages", "stackmem languages --json"),
    "doctor": ("stackmem doctor", "stackmem doctor --model ollama/qwen3-coder"),
    "config": ("stackmem config calculator", "stackmem config"),
    "models": ("stackmem models", "stackmem models --local"),
    "strategies": ("stackmem strategies window", "stackmem strategies"),
    "trust": ("stackmem trust .", "stackmem trust . --remove"),
    "keys": ("stackmem keys list", "stackmem keys export"),
    "keys list": ("stackmem keys list", "stackmem keys list --json"),
    "keys export": ("stackmem keys export", "stackmem keys export > key.txt"),
    "keys trust": ("stackmem keys trust KEY alice", 'stackmem keys trust KEY "build server"'),
    "keys distrust": ("stackmem keys distrust KEY",),
    "completion": ("stackmem completion bash", "stackmem completion fish"),
    "docs": ("stackmem docs chat", "stackmem docs strategies"),
    "man": ("stackmem man", "stackmem man > stackmem.1"),
}
"""Each command and subcommand with two example calls, or one if there is nothing to vary."""

EXIT_CODES = """\
Exit codes: 0 solved or finished; 1 unsolved or stalled; 2 wrong usage (a bad task, file, name or key); 3 a limit was
reached; 4 the provider failed, or a script ran out of replies; 5 the workspace or its sandbox failed; 6 a
replay differs; 7 the trace is broken or cannot be written; 8 input is needed; 130 interrupted; 143 terminated."""
