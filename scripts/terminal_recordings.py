"""The commands of the terminal pictures in the docs, and the files that they need."""

from __future__ import annotations

import json
import shlex
from typing import NamedTuple

_SOLVE = "stackmem solve calculator --model demo"
_READER = "--model sim/bounded-reader --isolation memory"
_BENCH = (
    "stackmem bench spec_map --strategies full,stackheap --models sim/bounded-reader --trials 1 --horizon 60"
    " --window-tokens 1_000_000 --isolation memory --fsync none -o growth"
)
_SHOP = "mkdir shop && printf 'def total(prices):\\n    return round(sum(prices), 2)\\n' > shop/total.py"
_LOCAL = "--upstream http://127.0.0.1:8931/v1"  # the server of a picture
_COUNT = ("stackmem run examples/sexp/count-words --input most:=10"
          " --model script:examples/sexp/count-words/script.yaml")  # fmt: skip


class Recording(NamedTuple):
    """The commands of a picture.

    Attributes:
        page: The page of the docs that shows the picture.
        title: The text for readers who do not see the picture.
        shown: The commands of which the picture shows the output.
        before: Commands that prepare the home folder.
        typed: What is typed into the last shown command, each with a text to wait for. The picture shows the screen
            after the last one.
    """

    page: str
    title: str
    shown: tuple[str, ...]
    before: tuple[str, ...] = ()
    typed: tuple[tuple[str, str], ...] = ()


def _file(path: str, text: str) -> str:
    """Return a command that writes a file."""
    return f'mkdir -p "$(dirname {path})" && printf %s {shlex.quote(text)} > {path}'


def _script(*replies: dict[str, object]) -> str:
    """Return a command that writes the replies of a model to ``model.yaml``."""
    return _file("model.yaml", json.dumps({"replies": replies}))


def _ends(result: str) -> dict[str, object]:
    return {"call": "pop_frame", "args": {"result": result}}


_RELEASE = """\
---
name: release
description: How to make a release of this project.
---
1. Run the tests.
2. Raise the version in pyproject.toml.
"""
_HOOKS = """\
[[before_tool]]
command = "if grep -q 'git push'; then echo Ask me first. >&2; exit 2; fi"
tools = ["run_command"]
"""
_GREETING = """\
replies:
  - call: list_files
    args: {}
  - text: I have seen enough.
    call: pop_frame
    args:
      result: There is one file, total.py.
"""
_CLIENT = """\
import asyncio

import mcp

SERVER = mcp.StdioServerParameters(command="stackmem", args=["mcp", "shop"])


async def main():
    async with mcp.Client(mcp.stdio_client(SERVER)) as client:
        chunk = {"name": "env", "content": "tests: make test", "source": "total.py"}
        for name, arguments in (("heap_alloc", chunk), ("heap_list", {})):
            result = await client.call_tool(name, arguments)
            print(result.content[0].text)


asyncio.run(main())
"""
_SERVER = """\
import http.server
import json

MESSAGE = {"role": "assistant", "content": "Hello!"}
USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
REPLY = {"id": "1", "object": "chat.completion", "model": "local", "usage": USAGE,
         "choices": [{"index": 0, "finish_reason": "stop", "message": MESSAGE}]}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        body = json.dumps(REPLY).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


http.server.HTTPServer(("127.0.0.1", 8931), Handler).serve_forever()
"""
_ASK = """\
curl -s "$OPENAI_BASE_URL/chat/completions" -H "content-type: application/json" \\
  -d '{"model": "local", "messages": [{"role": "user", "content": "hello"}]}' |
  jq -r '.choices[0].message.content'
"""
_RECORDED = (
    "for seed in 1 2 3 4; do rm -rf world; stackmem worlds make spec_map --seed $seed --horizon 60 -o world;"
    f" stackmem solve world {_READER} --strategy full;"
    " stackmem export last --format mini -o recordings/$seed.json; done"
)

RECORDINGS = {
    "solve": Recording("tutorials/work.md", "A run solves a task", (_SOLVE,)),
    "runs": Recording("cli.md", "The list of runs", ("stackmem runs",), (_SOLVE, f"{_SOLVE} --max-steps 5")),
    "trace-show": Recording("trace.md", "The events of a run", ("stackmem trace show last",), (_SOLVE,)),
    "replay": Recording("replay.md", "A replay verifies a run", ("stackmem replay last",), (_SOLVE,)),
    "replay-step": Recording("questions.md", "One step of a run", ("stackmem replay last --step 4",), (_SOLVE,)),
    "fork": Recording("fork.md", "A fork continues a run from step 8 under another strategy",
                      ("stackmem fork last --at 8 --strategy stackheap:index=delta",), (_SOLVE,)),
    "diff": Recording("tutorials/traces.md", "The first step in which two runs differ",
                      ('stackmem diff "$(ls -d runs/* | head -1)" "$(ls -d runs/* | tail -1)"',),
                      (_SOLVE, "stackmem fork last --at 8 --strategy stackheap:index=delta")),
    "stats": Recording("metrics.md", "The figures of a run", ("stackmem trace stats last",), (_SOLVE,)),
    "cache": Recording("cache.md", "The bill of a run under one provider's cache",
                       ("stackmem trace stats last --simulate claude-sonnet-5-5",), (_SOLVE,)),
    "whatif": Recording("whatif.md", "The cost of a run under other strategies",
                        ("stackmem whatif last --strategies full,stackheap,summary",),
                        ("stackmem worlds make spec_map --seed 1 --horizon 60 -o spec_map",
                         f"stackmem solve spec_map {_READER}")),
    "worlds": Recording("worlds.md", "The families of generated worlds", ("stackmem worlds list",)),
    "tasks": Recording("tasks.md", "The tasks of a checkout",
                       ("stackmem tasks list", "stackmem tasks check calculator")),
    "bench": Recording("bench.md", "A bench of two strategies", (_BENCH,)),
    "report": Recording("tutorials/compare.md", "The report of a bench",
                        ("stackmem report growth -o growth.md", "head -26 growth.md"), (_BENCH,)),
    "resume": Recording("resume.md", "A run stops at a limit and is resumed",
                        (f"{_SOLVE} --max-steps 5", "stackmem resume last --max-steps +50")),
    "apl": Recording("programs/apl.md", "An APL program plays tic-tac-toe",
                     ("stackmem run examples/apl/tic-tac-toe --model script:examples/apl/tic-tac-toe/script.yaml",)),
    "sexp": Recording("programs/sexp.md", "An S-expression counts words",
                      ("stackmem run examples/sexp/count-words --input most:=10"
                       " --model script:examples/sexp/count-words/script.yaml",)),
    "loop": Recording("programs/loop.md", "A loop agent enriches records",
                      ("stackmem run examples/loop/enrich --model script:examples/loop/enrich/script.yaml",)),
    "playbook": Recording("programs/playbooks.md", "A playbook asks for a name",
                          ('stackmem run examples/playbooks/greeting --say hm --say "I am Ada"'
                           " --model script:examples/playbooks/greeting/script.yaml",)),
    "python": Recording("programs/python.md", "A Python program writes a changelog",
                        ("stackmem run examples/python/changelog --input version=2.0 --say yes"
                         " --model script:examples/python/changelog/script.yaml",)),
    "examples": Recording("programs/index.md", "The example programs", ("stackmem examples",)),
    "strategies": Recording("strategies.md", "The memory strategies", ("stackmem strategies",)),
    "models": Recording("models.md", "The known models and their prices", ("stackmem models",)),
    "config": Recording("configuration.md", "Every setting and its source", ("stackmem config",)),
    "simulated": Recording("simulated-model.md", "The simulated model solves a generated world",
                           (f"stackmem solve trap {_READER} --strategy stackheap",),
                           ("stackmem worlds make env_trap --seed 7 --horizon 60 -o trap",)),
    "signed": Recording("trust.md", "A replay checks the signature of a run",
                        ("stackmem replay last --signed",), (_SOLVE,)),
    "api": Recording("extending.md", "A run started from Python", ("cat solve.py", "python solve.py"),
                     ("cp docs/examples/01_solve.py solve.py",)),
    "docs": Recording("faq.md", "A search in the docs, offline", ("stackmem docs cost",)),
    "export": Recording("formats.md", "A run written in another format",
                        ("stackmem export last --format atif -o run.json", "python -m json.tool run.json | head -24"),
                        (_SOLVE,)),
    "chat": Recording(
        "chat.md", "A conversation about a folder", ("stackmem chat shop --model script:model.yaml",),
        (_SHOP, _script(
            {"call": "read_file", "args": {"path": "total.py"}},
            {"text": "`total` adds floats and rounds once at the end, so half a cent can be lost."},
            {"call": "edit_file", "args": {
                "path": "total.py", "old_string": "round(sum(prices), 2)",
                "new_string": "sum(round(100 * price) for price in prices) / 100"}},
            {"text": "Each price is rounded to the cent before the sum."})),
        (("Why are totals a cent off?", "can be lost"), ("Round each price.", "before the sum."), ("/diff", "2 +")),
    ),
    "hooks": Recording(
        "hooks.md", "A hook refuses a command",
        ("cat .config/stackmem/hooks.toml", 'stackmem solve shop -t "Push the fix." --model script:model.yaml'),
        (_SHOP, _file(".config/stackmem/hooks.toml", _HOOKS), _script(
            {"call": "run_command", "args": {"command": "git push"}},
            _ends("The fix is ready. I did not push it."))),
    ),
    "skills": Recording(
        "skills.md", "The agent reads a skill of the project",
        ("cat shop/.claude/skills/release/SKILL.md",
         'stackmem solve shop -t "Prepare a release." --model script:model.yaml'),
        (_SHOP, _file("shop/.claude/skills/release/SKILL.md", _RELEASE),
         _file("shop/pyproject.toml", '[project]\nname = "shop"\nversion = "1.0"\n'), _script(
            {"call": "heap_read", "args": {"name": "skill/release"}},
            {"call": "run_command", "args": {"command": "python3 -c 'import total'"}},
            {"call": "edit_file", "args": {"path": "pyproject.toml", "old_string": "1.0", "new_string": "1.1"}},
            _ends("The version is 1.1."))),
    ),
    "network": Recording(
        "network.md", "A command requests a host that is not on the list",
        ('stackmem solve shop -t "Get the rates." --network list --allow rates.example --model script:model.yaml',
         "stackmem replay last --step 1 | grep -A 3 ToolReturned | tail -3"),
        (_SHOP, _script({"call": "run_command", "args": {"command": "curl -s https://files.example/rates.csv"}},
                        _ends("files.example is not on the list of hosts."))),
    ),
    "kept-heap": Recording(
        "kept-heap.md", "A run keeps a chunk, and the next run reads it",
        ('stackmem solve shop -t "How do the tests run?" --heap keep --model script:model.yaml',
         "stackmem heap list --folder shop",
         'stackmem solve shop -t "Which command tests this?" --heap keep --model script:next.yaml'),
        (_SHOP, _file("shop/Makefile", "test:\n\tpython3 -m pytest -q\n"),
         _script({"call": "heap_read", "args": {"name": "env"}}, _ends("make test, says the chunk env.")),
         "mv model.yaml next.yaml", _script(
             {"call": "read_file", "args": {"path": "Makefile"}},
             {"call": "heap_alloc", "args": {"name": "env", "content": "tests: make test", "source": "Makefile",
                                             "description": "how the tests run"}},
             _ends("The tests run with make test."))),
    ),
    "evidence": Recording(
        "evidence.md", "Four recordings of the simulated model under three strategies",
        ("stackmem evidence recordings -o study.md --strategies full,boundary,mask",
         "grep -m 9 '^|' study.md | cut -d '|' -f 1-5"),
        ("mkdir recordings", _RECORDED),
    ),
    "gateway": Recording(
        "gateway.md", "A gateway records a request to a local server",
        ("cat ask.sh", f"stackmem gateway run {_LOCAL} -- sh ask.sh", "stackmem trace show last"),
        (_file("server.py", _SERVER), _file("ask.sh", _ASK),
         "timeout 60 python server.py > /dev/null 2>&1 & sleep 1"),
    ),
    "agents": Recording(
        "agents.md", "A client of the protocol stores a chunk",
        ("cat client.py", "python client.py", "stackmem heap list --folder shop"),
        (_SHOP, _file("client.py", _CLIENT)),
    ),
    "scripts": Recording(
        "scripts.md", "A script plays the model",
        ("cat play.yaml", 'stackmem solve shop -t "What is here?" --model script:play.yaml'),
        (_SHOP, _file("play.yaml", _GREETING)),
    ),
    "debug": Recording(
        "programs/debugging.md", "The debugger steps through a recorded run",
        ("stackmem debug last",), (_COUNT,),
        (("b 8", "breakpoints:"), ("c", "(breakpoint"), ("w", "program main"), ("v", "most ="), ("rs", "(step)")),
    ),
    "verbose": Recording(
        "programs/debugging.md", "Each step of a loop agent, with what it changed",
        ("stackmem run examples/loop/enrich --model script:examples/loop/enrich/script.yaml --verbose"
         " 2>&1 | fold -s -w 98",),
    ),
    "doctor": Recording(
        "safety.md", "The sandboxes of a machine",
        ("stackmem doctor | grep -E '^[a-z].*--isolation|guarantees' | fold -s -w 98",),
    ),
    "apply": Recording(
        "safety.md", "A patch reaches the folder only on request",
        ('stackmem solve shop -t "Round each price." --model script:model.yaml', "stackmem apply last",
         "tail -1 shop/total.py"),
        (_SHOP, _script(
            {"call": "edit_file", "args": {
                "path": "total.py", "old_string": "round(sum(prices), 2)",
                "new_string": "sum(round(100 * price) for price in prices) / 100"}},
            _ends("Each price is rounded to the cent before the sum."))),
    ),
    "repl": Recording(
        "cli.md", "S-expressions at a prompt", ("cd shop && stackmem repl",), (_SHOP,),
        (("(+ 1 2)", "3"), ("(define (square x) (* x x))", "sexp>"), ("(map square (list 1 2 3))", "(1 4 9)")),
    ),
    "headless": Recording("headless.md", "The stream of events of a run",
                          (f"{_SOLVE} --stream-json | head -6 | cut -c1-95",)),
}  # fmt: skip
