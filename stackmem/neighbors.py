"""The parts of other packages that the kernel uses, by name; a part is imported when it is first used.

The kernel (everything but ``languages``, ``formats``, ``lab`` and ``doors``) imports none of these packages.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

NEIGHBORS: dict[str, str] = {
    "doors: debug at the terminal": "stackmem.cli.screen.debug_terminal:TerminalDebugger",
    "doors: read an agent": "stackmem.bench.agent:read_agent",
    "doors: refuse for an agent": "stackmem.bench.agent:refuse_for_agent",
    "doors: solve by an agent": "stackmem.bench.agent:solve_by_agent",
    "doors: verify a gateway's run": "stackmem.gateway.verifying:verify_gateway_run",
    "formats: exporters": "stackmem.formats.exports:EXPORTS",
    "formats: import tasks": "stackmem.cli.commands.tasks_import:command",
    "formats: send spans": "stackmem.formats.exports.live_spans:live_spans",
    "languages: continue an edited program": "stackmem.cli.screen.program:continue_kept",
    "languages: open a program": "stackmem.trace.opening:open_program",
    "languages: screen of a program": "stackmem.cli.screen.program:screen_of_kept",
    "languages: show a halt": "stackmem.cli.screen.program:show_halt",
    "languages: show a result": "stackmem.cli.screen.program:show_program",
    "languages: words after a task": "stackmem.languages.frame.task_text:words_after_task",
    "lab: open a simulated model": "stackmem.models.simulated.opening:open_simulated",
}
"""What is used, as ``package: what``, to ``module:name``. The lab uses the doors by this table, too."""

COMMANDS: dict[str, str] = {
    "acp": "stackmem.cli.commands.acp",
    "bench": "stackmem.cli.commands.bench",
    "compile": "stackmem.cli.commands.compile",
    "debug": "stackmem.cli.commands.debug",
    "evidence": "stackmem.cli.commands.evidence",
    "examples": "stackmem.cli.commands.examples",
    "export": "stackmem.cli.commands.export",
    "gateway": "stackmem.cli.commands.gateway",
    "import": "stackmem.cli.commands.import_",
    "languages": "stackmem.cli.commands.languages",
    "lint": "stackmem.cli.commands.lint",
    "mcp": "stackmem.cli.commands.mcp",
    "repl": "stackmem.cli.commands.repl",
    "report": "stackmem.cli.commands.report",
    "run": "stackmem.cli.commands.run",
    "ui": "stackmem.cli.commands.ui",
    "whatif": "stackmem.cli.commands.whatif",
    "worlds": "stackmem.cli.commands.worlds",
}
"""The commands that these packages bring, to their modules; the kernel's own are in ``stackmem.cli.commands``."""


def neighbor(part: str) -> Any:
    """Import the module of a part and return the function, class or table that it names."""
    module, _, name = NEIGHBORS[part].partition(":")
    return getattr(import_module(module), name)
