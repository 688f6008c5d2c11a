"""The kernel imports no neighbor package; it finds their parts and commands by name."""

import json
import subprocess
import sys
from importlib import import_module

import pytest

from scripts.houses import KERNEL, forbidden_imports, house_of
from stackmem.cli.catalog import COMMANDS
from stackmem.core.neighbors import COMMANDS as NEIGHBORS_COMMANDS
from stackmem.core.neighbors import NEIGHBORS, neighbor
from tests.house.sources import ROOT


def test_packages_do_not_import_higher_ones():
    assert list(forbidden_imports()) == []


@pytest.mark.parametrize("part", NEIGHBORS)
def test_every_part_is_there_and_in_the_package_that_its_name_says(part):
    assert neighbor(part) is not None
    module = NEIGHBORS[part].partition(":")[0]
    assert house_of(module) == part.partition(":")[0]


def test_every_command_of_a_neighbor_is_there():
    for name, place in NEIGHBORS_COMMANDS.items():
        module = import_module(place)
        assert name in COMMANDS
        assert house_of(place) != KERNEL
        assert hasattr(module, "app") or hasattr(module, "command"), place


@pytest.mark.parametrize("code", ["import stackmem", "import stackmem.run.api", "import stackmem.run.solve"])
def test_importing_the_kernel_imports_no_neighbor(code):
    listed = (
        f"{code}\nimport json, sys\nprint(json.dumps([name for name in sys.modules if name.startswith('stackmem')]))"
    )
    ran = subprocess.run([sys.executable, "-c", listed], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = json.loads(ran.stdout)
    assert "stackmem" in loaded
    assert [name for name in loaded if house_of(name) != KERNEL] == []
