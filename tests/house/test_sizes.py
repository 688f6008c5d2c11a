"""Small is a rule: the longest files and functions, and the fullest folders, are what makes a codebase hard to read."""

import ast
from collections import Counter
from collections.abc import Iterator

from scripts.structure import tree
from tests.house.sources import modules, name

FILE_CAP, FUNCTION_CAP, FOLDER_CAP = 400, 60, 25
# Folder to the files it may show.
MAY_BE_FULL = {
    "stackmem/cli/commands": 36,  # one file a command is what a reader of the command line looks for
