"""Nothing is split needlessly, and a class name means one thing."""

from functools import cache
from graphlib import CycleError, TopologicalSorter

import pytest

from scripts import structure

MAX_SMALL = 15
MAX_ROOMS, MAX_LAYERS, MAX_ARROWS = 10, 6, 25
# A package that lists alternatives: each has its own file, however small, and only the list imports it.
LISTS = {
    "stackmem.lab.worlds.make": "one family of worlds a file",
    "stackmem.workspace.isolation.levels": "one isolation level a file",
    "stackmem.languages": "one language a folder",
}
# A module under 60 lines with a single importer, and why it is not merged into that one.
SMALL = {
    "stackmem.core.guidance.finishing": "one piece of guidance a file",
    "stackmem.languages.loop_agent.schema_keywords": "the keywords of JSON Schema form one table",
    "stackmem.lab.bench.own_sessions": "it alone reads the home folder, which can be reviewed alone",
    "stackmem.run.companion.permissions": "one kind of companion a module",
    "stackmem.run.companion.first_look": "it reads files, and the assembly only names classes",
    "stackmem.doors.ui.server": "it loads uvicorn, which the app does without",
    "stackmem.run.parallel.interrupts": "raising an exception in another thread can be reviewed alone",
    "stackmem.workspace.overlay.refresher": "another process runs it, so it loads only the standard library",
    "stackmem.formats.images.pins": "the check of digests can be reviewed alone",
    "stackmem.languages.history": "it reads turns of the machine, and the program only passes them on",
    "stackmem.cli.root_help": "a test compares it with typer, and other commands do without it",
}


@cache
def small_single_importers() -> dict[str, str]:
    """Map modules under 60 lines to their only importer, without those of the lists."""
    importers = structure.importers()
    single = {name: next(iter(importers[name])) for name in structure.small_single_importers()}
    return {name: importer for name, importer in single.items() if importer not in LISTS}


def test_a_small_module_that_one_other_imports_has_a_reason():
    assert {name: by for name, by in small_single_importers().items() if name not in SMALL} == {}


def test_every_listed_reason_is_needed():
    assert [name for name in SMALL if name not in small_single_importers()] == []
    assert len(SMALL) <= MAX_SMALL


def test_every_class_name_is_used_once():
    assert structure.doubled_classes() == {}


def test_the_kernel_has_few_rooms_layers_and_arrows():
    assert len(structure.kernel_rooms()) <= MAX_ROOMS
    assert len(structure.kernel_layers()) <= MAX_LAYERS
    assert len(structure.kernel_arrows()) <= MAX_ARROWS
    assert structure.upward_imports() == []


def test_the_layers_of_the_kernel_list_each_room_once():
    assert sorted(room for layer in structure.kernel_layers() for room in layer) == sorted(structure.kernel_rooms())
    assert structure.kernel_layers()[0] == {"cli"}


def test_no_modules_import_each_other_in_a_circle():
    TopologicalSorter(structure.imports()).prepare()


def test_a_circle_of_imports_is_found():
    imports = {**structure.imports(), "stackmem.core.facts": {"stackmem.core.machine"}}
    with pytest.raises(CycleError):
        TopologicalSorter(imports).prepare()
