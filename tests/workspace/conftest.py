from tests.workspace.people import person, place
from tests.workspace.sandboxes import opened, toolchains
from tests.workspace.tally import pytest_collection_modifyitems, pytest_terminal_summary

__all__ = ["opened", "person", "place", "pytest_collection_modifyitems", "pytest_terminal_summary", "toolchains"]
