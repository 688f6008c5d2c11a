"""Assign each module of stackmem to a package: the kernel, or one of its six neighbors."""

from collections.abc import Iterator

from scripts import structure

KERNEL = "kernel"
NEIGHBORS: dict[str, tuple[str, ...]] = {
    "providers": ("stackmem.providers",),
    "review": ("stackmem.review",),
    "languages": ("stackmem.languages",),
    "formats": ("stackmem.formats",),
    "lab": ("stackmem.lab",),
    "doors": ("stackmem.doors",),
}
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    KERNEL: (),
    "providers": (KERNEL,),
    "review": (KERNEL, "providers"),
    "languages": (KERNEL,),
    "formats": (KERNEL, "providers", "review"),
    "lab": (KERNEL, "providers", "review", "formats", "languages"),
    "doors": (KERNEL, "providers", "review", "formats", "languages", "lab"),
}
_PLACES = {place: house for house, places in NEIGHBORS.items() for place in places}


def house_of(module: str) -> str:
    """Return the package of a module. The longest matching prefix counts."""
    parts = module.split(".")
    for count in range(len(parts), 0, -1):
        if (house := _PLACES.get(".".join(parts[:count]))) is not None:
            return house
    return KERNEL


def forbidden_imports() -> Iterator[str]:
    """Yield each forbidden import between packages, as ``module -> module``.

    ``stackmem`` itself is left out: it names public functions of every package for type checkers, and loads them on
    first use. ``tests/house/test_neighbors.py`` checks what ``import stackmem`` loads.
    """
    for name, used in sorted(structure.imports().items()):
        if name == "stackmem":
            continue
        house = house_of(name)
        for each in sorted(used - {"stackmem"}):
            other = house_of(each)
            if other not in (house, *MAY_IMPORT[house]):
                yield f"{name.removeprefix('stackmem.')} -> {each.removeprefix('stackmem.')}"
