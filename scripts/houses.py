"""Which package each module of stackmem belongs to: the kernel, or one of its four neighbors."""

from collections.abc import Iterator

from scripts import structure

KERNEL = "kernel"
NEIGHBORS: dict[str, tuple[str, ...]] = {
    "languages": (
        "stackmem.languages",
        "stackmem.cli.commands.compile",
        "stackmem.cli.commands.examples",
        "stackmem.cli.commands.languages",
        "stackmem.cli.commands.lint",
        "stackmem.cli.commands.repl",
        "stackmem.cli.commands.run",
        "stackmem.cli.screen.program",
        "stackmem.run.programs.edited_run",
        "stackmem.run.programs.inputs",
        "stackmem.run.programs.lint",
        "stackmem.run.programs.prepare",
        "stackmem.run.programs.run",
        "stackmem.trace.program_tape",
        "stackmem.trace.opening",
    ),
    "formats": (
        "stackmem.formats",
        "stackmem.cli.commands.export",
        "stackmem.cli.commands.import_",
        "stackmem.cli.commands.tasks_import",
        "stackmem.kept.export",
        "stackmem.kept.import_",
        "stackmem.run.tasks.imports",
    ),
    "lab": (
        "stackmem.bench",
        "stackmem.worlds",
        "stackmem.models.simulated",
        "stackmem.report.comparison",
        "stackmem.report.archive",
        "stackmem.report.bench_archive",
        "stackmem.report.evidence",
        "stackmem.report.evidence_archive",
        "stackmem.kept.whatif",
        "stackmem.kept.hypothetical",
        "stackmem.measure.whatif",
        "stackmem.measure.hypothetical_frames",
        "stackmem.cli.commands.bench",
        "stackmem.cli.commands.evidence",
        "stackmem.cli.commands.report",
        "stackmem.cli.commands.whatif",
        "stackmem.cli.commands.worlds",
        "stackmem.cli.screen.bench_screen",
    ),
    "doors": (
        "stackmem.serve",
        "stackmem.gateway",
        "stackmem.listening",
        "stackmem.harbor",
        "stackmem.bench.agent",
        "stackmem.bench.harbor_agent",
        "stackmem.replays.debugged",
        "stackmem.cli.commands.acp",
        "stackmem.cli.commands.debug",
        "stackmem.cli.commands.gateway",
        "stackmem.cli.commands.mcp",
        "stackmem.cli.commands.ui",
        "stackmem.cli.screen.debug_terminal",
    ),
}
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    KERNEL: (),
    "languages": (KERNEL,),
    "formats": (KERNEL,),
    "lab": (KERNEL, "formats", "languages"),
    "doors": (KERNEL, "formats", "languages", "lab"),
}
_PLACES = {place: house for house, places in NEIGHBORS.items() for place in places}


def house_of(module: str) -> str:
    """The package of a module; the longest place counts."""
    parts = module.split(".")
    for count in range(len(parts), 0, -1):
        if (house := _PLACES.get(".".join(parts[:count]))) is not None:
            return house
    return KERNEL


def forbidden_imports() -> Iterator[str]:
    """Each import of a package that the importing one may not know, as ``module -> module``."""
    for name, used in sorted(structure.imports().items()):
        house = house_of(name)
        for each in sorted(used - {"stackmem"}):
            other = house_of(each)
            if other not in (house, *MAY_IMPORT[house]):
                yield f"{name.removeprefix('stackmem.')} -> {each.removeprefix('stackmem.')}"
