from tests.workspace.people import person, place

__all__ = ["person", "place"]
