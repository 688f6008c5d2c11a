"""The parts of other packages that the kernel uses, by name. Each part is imported on first use.

The kernel is everything except ``providers``, ``review``, ``languages``, ``formats``, ``lab`` and ``doors``. It does
not import these packages. The kernel's own parallel frames are here too: they are runs, so a run finds them by name.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

NEIGHBORS: dict[str, str] = {
    "doors: a person as the model": "stackmem.doors.chat.human:HumanModel",
    "doors: connect to tool servers": "stackmem.doors.tool_servers.servers:connected",
    "doors: debug at the terminal": "stackmem.doors.debugger.terminal:TerminalDebugger",
    "doors: follow the user's folder": "stackmem.doors.following.taking_in:follow_folder",
    "doors: read an agent": "stackmem.doors.gateway.bench_agent:read_agent",
    "doors: refuse for an agent": "stackmem.doors.gateway.bench_agent:refuse_for_agent",
    "doors: solve by an agent": "stackmem.doors.gateway.bench_agent:solve_by_agent",
    "doors: verify a gateway's run": "stackmem.doors.gateway.verifying:verify_gateway_run",
    "formats: convert to pictures": "stackmem.formats.pictures.convert:converted",
    "formats: exporters": "stackmem.formats.exports:EXPORTS",
    "formats: header of an image": "stackmem.formats.pictures.headers:header",
    "formats: send spans": "stackmem.formats.exports.live_spans:live_spans",
    "formats: the image of a task": "stackmem.formats.tasks.image:built_image",
    "formats: workspaces in an image": "stackmem.formats.images.room:ImageRoom",
    "kernel: parallel frames": "stackmem.run.parallel.children:Children",
    "languages: continue an edited program": "stackmem.languages.running.screen:continue_kept",
    "languages: answers of a rehearsal": "stackmem.languages.running.rehearsal:RecordedAnswers",
    "languages: examine a written program": "stackmem.languages.running.rehearsal:examine_program",
    "languages: open a called program": "stackmem.languages.running.opening:open_called",
    "languages: open a program": "stackmem.languages.running.opening:open_program",
    "languages: processes of Python functions": "stackmem.languages.running.python_process:PythonCalls",
    "languages: programs of a folder": "stackmem.languages.running.catalog:offered_programs",
    "languages: screen of a program": "stackmem.languages.running.screen:screen_of_kept",
    "languages: show a halt": "stackmem.languages.running.screen:show_halt",
    "languages: show a result": "stackmem.languages.running.screen:show_program",
    "languages: words after a task": "stackmem.languages.frame.task_text:words_after_task",
    "languages: world of a program": "stackmem.languages.running.program_world:program_world",
    "lab: memory strategies": "stackmem.lab.strategies:STRATEGIES",
    "lab: open a scripted model": "stackmem.lab.simulated.scripted:ScriptedModel",
    "lab: open a simulated model": "stackmem.lab.simulated.opening:open_simulated",
    "providers: mend the arguments of calls": "stackmem.providers.mending.arguments:with_mended_arguments",
    "providers: models by prefix": "stackmem.providers.opening:PROVIDERS",
    "review: metrics": "stackmem.review.measure.metrics:METRICS",
    "review: type of a metric": "stackmem.review.measure.metrics:Metric",
    "review: unpack a run": "stackmem.review.kept.pack:unpack",
}
"""Maps ``package: part`` to ``module:name``. The lab uses the doors through this table too."""

COMMANDS: dict[str, str] = {
    "acp": "stackmem.doors.commands.acp",
    "bench": "stackmem.lab.commands.bench",
    "chat": "stackmem.doors.commands.chat",
    "compile": "stackmem.languages.commands.compile",
    "debug": "stackmem.doors.commands.debug",
    "diff": "stackmem.review.commands.diff",
    "doctor": "stackmem.review.commands.doctor",
    "evidence": "stackmem.lab.commands.evidence",
    "examples": "stackmem.languages.commands.examples",
    "export": "stackmem.formats.commands.export",
    "gateway": "stackmem.doors.commands.gateway",
    "heap": "stackmem.review.commands.heap",
    "import": "stackmem.formats.commands.import_",
    "languages": "stackmem.languages.commands.languages",
    "learn": "stackmem.languages.commands.learn",
    "lint": "stackmem.languages.commands.lint",
    "mcp": "stackmem.doors.commands.mcp",
    "models": "stackmem.providers.commands.models",
    "package": "stackmem.languages.commands.package",
    "repl": "stackmem.languages.commands.repl",
    "replay": "stackmem.review.commands.replay",
    "report": "stackmem.lab.commands.report",
    "run": "stackmem.languages.commands.run",
    "runs": "stackmem.review.commands.runs",
    "strategies": "stackmem.lab.commands.strategies",
    "tasks": "stackmem.formats.commands.tasks",
    "trace": "stackmem.review.commands.trace",
    "ui": "stackmem.doors.commands.ui",
    "view": "stackmem.review.commands.view",
    "whatif": "stackmem.lab.commands.whatif",
    "worlds": "stackmem.lab.commands.worlds",
}
"""Maps the commands from these packages to their modules. The kernel's own commands are in
``stackmem.cli.commands``.
"""


@cache  # a run asks for some parts at each step
def neighbor(part: str) -> Any:
    """Import the module of a part and return the function, class or table that it names."""
    module, _, name = NEIGHBORS[part].partition(":")
    return getattr(import_module(module), name)
