"""Nothing is split needlessly, and a class name means one thing."""

from functools import cache
from graphlib import CycleError, TopologicalSorter

import pytest

from scripts import structure

MOST_SMALL, MOST_DOUBLED = 15, 20
# A package that lists alternatives: each has its own file, however small, and only the list imports it.
LISTS = {
    "stackmem.lab.worlds.make": "one family of worlds a file",
    "stackmem.workspace.isolation.levels": "one isolation level a file",
    "stackmem.languages": "one language a folder",
}
# A module under 60 lines with a single importer, and why it is not merged into that one.
SMALL = {
    "stackmem.core.behavior": "the file of the tools has reached its size",
    "stackmem.core.guidance.finishing": "one piece of guidance a file",
    "stackmem.core.behavior": "the file of the tools is full",
