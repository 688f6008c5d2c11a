"""Which package each module of stackmem belongs to: the kernel, or one of its four neighbors."""

from collections.abc import Iterator

from scripts import structure

KERNEL = "kernel"
NEIGHBORS: dict[str, tuple[str, ...]] = {
    "languages": ("stackmem.languages",),
    "formats": ("stackmem.formats",),
    "lab": ("stackmem.lab",),
    "doors": ("stackmem.doors",),
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
