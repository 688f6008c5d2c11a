"""Generated hostile archives: each tries to write, read or change a decoy next to its unpacking folder."""

import itertools
import json
import struct
import tarfile
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

SECRET = "SECRET-OF-THE-DECOY"
LEADING_OUT = 13
"""The first names lead outside: they are tried with every kind of entry."""

Member = bytes
Layer = tuple[Member, ...]


class HostileArchive(Struct, frozen=True):
    name: str
    layers: tuple[Layer, ...]

    def root(self, path: Path) -> Path:
        """Return one archive of a root, with the layers one after another."""
        path.write_bytes(b"".join(b"".join(layer) for layer in (BASE, *self.layers)) + bytes(1024))
        return path

    def saved(self, path: Path) -> Path:
        """Return an archive as ``docker save`` writes it."""
        files = {f"{at}.tar": b"".join(layer) + bytes(1024) for at, layer in enumerate((BASE, *self.layers))}
        manifest = [{"Config": "c.json", "Layers": list(files)}]
        files = {"c.json": b'{"config": {}}', "manifest.json": json.dumps(manifest).encode(), **files}
        path.write_bytes(b"".join(file(name, content) for name, content in files.items()) + bytes(1024))
        return path


def member(
    name: str, kind: bytes = tarfile.REGTYPE, content: bytes = b"", form: int = tarfile.PAX_FORMAT, **more
) -> Member:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(content)
    for key, value in {"mode": 0o644, **more}.items():
        setattr(info, key, value)
    return info.tobuf(form, "utf-8", "surrogateescape") + content + bytes(-len(content) % 512)


def file(name: str, content: bytes = b"overwritten", **more) -> Member:
    return member(name, tarfile.REGTYPE, content, **more)


def folder(name: str, mode: int = 0o755) -> Member:
    return member(name, tarfile.DIRTYPE, mode=mode)


def link(name: str, target: str) -> Member:
    return member(name, tarfile.SYMTYPE, linkname=target)


def hard(name: str, target: str, **more) -> Member:
    return member(name, tarfile.LNKTYPE, linkname=target, **more)


def raw(
    name: bytes, kind: bytes = b"0", size: bytes = b"00000000000\0", content: bytes = b"", rest: bytes = b""
) -> Member:
    """Build a header field by field with a valid checksum; ``rest`` follows the link's name."""
    head = name.ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + size + b"00000000000\0" + b" " * 8 + kind
    head = (head + bytes(100) + b"ustar\x0000" + rest).ljust(512, b"\0")[:512]
    head = head[:148] + b"%06o\0 " % sum(head) + head[156:]
    return head + content + bytes(-len(content) % 512)


def pax(**records: bytes) -> Member:
    """Build an extended header for the next member."""
    content = b""
    for key, value in records.items():
        record = b" %s=%s\n" % (key.replace("__", ".").encode(), value)
        length = next(size for size in itertools.count(len(record)) if len(str(size)) + len(record) == size)
        content += str(length).encode() + record
    return raw(b"pax", b"x", b"%011o\0" % len(content), content)


BASE: Layer = (folder("bin"), file("bin/x", b"x"), folder("etc"))


def ways_out(decoy: Path) -> dict[str, Layer]:
    """Links named ``h`` that lead to the decoy."""
    up = "../" * 40
    return {
        "absolute": (link("h", str(decoy)),),
        "relative": (link("h", f"{up}{str(decoy).lstrip('/')}"),),
        "chain": (link("k", str(decoy)), link("h", "k")),
        "chain backwards": (link("h", "k"), link("k", str(decoy))),
        "deep": (folder("d"), link("d/l", str(decoy)), link("h", "d/l")),
        "parent": (link("p", str(decoy.parent)), link("h", f"p/{decoy.name}")),
        "hard link of a link": (link("k", str(decoy)), hard("h", "k")),
        "dots": (link("h", f"bin/../{up}{str(decoy).lstrip('/')}/."),),
    }


def strikes(decoy: Path) -> dict[str, Layer]:
    """Actions through ``h``."""
    return {
        "file": (file("h/.profile"),),
        "file with its folder": (folder("h"), file("h/.profile")),
        "new file": (file("h/new"),),
        "new folder": (folder("h/made/deep"),),
        "mode of the folder": (folder("h", 0o777),),
        "mode of a folder in it": (folder("h/keys", 0o777),),
        "hard link out": (hard("stolen", "h/id"),),
        "hard link in": (hard("h/id", "bin/x"),),
        "hard link to a hard link": (hard("stolen", "h/id"), file("stolen")),
        "link": (link("h/id", "/bin/x"),),
        "whiteout": (file("h/.wh.id", b""), file("h/.wh.keys", b"")),
        "opaque": (file("h/.wh..wh..opq", b""),),
        "whiteout of the link": (file(".wh.h", b""), file("h/.profile")),
        "file in place of the link": (file("h"),),
        "pipe": (member("h/pipe", tarfile.FIFOTYPE), member("h/.profile", tarfile.FIFOTYPE)),
        "device": (member("h/null", tarfile.CHRTYPE, devmajor=1, devminor=3),),
        "pax name": (pax(path=b"h/.profile"), file("plain")),
        "pax target": (pax(linkpath=b"h/id"), hard("stolen", "x")),
        "gnu name": (file(f"h/{'./' * 80}.profile", form=tarfile.GNU_FORMAT),),
        "old form": (file("h/.profile", form=tarfile.USTAR_FORMAT),),
        "sparse": (pax(GNU__sparse__size=b"9", GNU__sparse__map=b"0,1,8,1", GNU__sparse__name=b"h/.profile"),
                   file("x", b"ab")),
        "slashes": (file("h//.profile"), file("./h/./.profile"), file("/h/.profile")),
    }  # fmt: skip


def through_links(decoy: Path) -> Iterator[HostileArchive]:
    pairs = itertools.product(ways_out(decoy).items(), strikes(decoy).items())
    for at, ((out, links), (what, strike)) in enumerate(pairs):
        layers = ((links, strike), ((*links, *strike),), (strike, links, strike))[at % 3]
        yield HostileArchive(f"{what} through {out}, {len(layers)} layers", layers)


def names(decoy: Path) -> Iterator[HostileArchive]:
    """Names that lead outside, or that no folder can contain."""
    out = str(decoy).lstrip("/")
    told = [
        "../evil", "../../evil", "a/../../evil", "./../evil", "..//evil", "a/b/../../../evil", "..", "a/..", "/..",
        f"{decoy}/.profile", f"//{out}/.profile", f"{'../' * 40}{out}/.profile", f"bin/{'../' * 40}{out}/id",
        "", "/", ".", "./", "...", "..\\evil", "a\\..\\..\\evil", ".. /x", "a\tb", "a\nb", "\x1b[2J", "~/.profile",
        "$HOME/x", "\u202egnp.exe", "e\u0301", "\u00e9", "\uff0e\uff0e/evil", "\u2025/evil", "\udcff\udcfe",
        "H/.profile", "x:stream", "n" * 256, "n" * 4000, "d/" * 199 + "x", "d/" * 201 + "x", "d/" * 2100 + "x",
        f"{'n' * 250}/" * 17 + "x",
    ]  # fmt: skip
    for at, name in enumerate(told):
        made = (
            file(name),
            folder(name, 0o777),
            hard("stolen", name),
            link(name, str(decoy)),
            hard(name, "bin/x"),
            link("stolen", name or ".") + file("stolen/.profile"),
        )
        for each in range(len(made)) if at < LEADING_OUT else (0, 2, at % len(made)):
            yield HostileArchive(f"{name[:60]!a} of {len(name)}, entry {each}", ((made[each],),))
    for target in (f"{decoy}/id", f"{out}/id", f"../../../../{out}/id", "etc/../bin/x", "etc", "stolen", "gone", ""):
        yield HostileArchive(f"hard link to {target[:60]}", ((hard("stolen", target),),))
    yield HostileArchive("NUL in a name", ((pax(path=b"bin/a\0b"), file("x")),))
    yield HostileArchive("NUL in a target", ((pax(linkpath=b"a\0b"), link("l", "x")),))
    yield HostileArchive("link to nothing", ((link("l", ""),),))
    yield HostileArchive("link to itself", ((link("l", "l"), file("l/x"), hard("m", "l/x")),))


def whiteouts(decoy: Path) -> Iterator[HostileArchive]:
    told = [".wh.", ".wh..", ".wh...", ".wh..wh..opq", ".wh..wh.", ".wh..wh.plnk", ".wh..wh.aufs", ".wh.x", ".wh.bin"]
    for name in told:
        for above in ("", "bin/", "/", "./", "gone/", "l/", ".wh.x/", "bin/x/", "../", f"{decoy}/"):
            first = (link("l", str(decoy)),)
            yield HostileArchive(f"whiteout {above[:8]}{name}", (first, (file(f"{above}{name}", b""),)))
    for name in (".wh.../evil", ".wh..wh..opq/evil", ".wh.x/../../evil", ".wh.x/.wh.y"):
        yield HostileArchive(f"whiteout as a folder {name}", ((file(name),),))


def kinds_and_modes(decoy: Path) -> Iterator[HostileArchive]:
    for kind in (bytes([code]) for code in b"\0\1 /0123456789ADEINSVMXZaz~\x7f\x80\xff"):
        yield HostileArchive(f"kind {kind!r}", ((raw(b"odd", kind), raw(b"dev/odd", kind), file("bin/y")),))
    for mode in (0o4755, 0o2755, 0o6777, 0o1777, 0o7777, 0, 0o777777, 0o7000):
        yield HostileArchive(
            f"mode {mode:o}", ((file("s", mode=mode), folder("t", mode), hard("u", "s"), folder("bin", mode)),)
        )
    for first, second in itertools.permutations((file("o"), folder("o"), link("o", str(decoy)), file("o/.profile")), 2):
        yield HostileArchive("one name twice", ((first, second),))
        yield HostileArchive("one name in two layers", ((first,), (second,), (first,)))


def sizes(decoy: Path) -> Iterator[HostileArchive]:
    """Wrong sizes, and damaged headers."""
    big, negative = b"\x80" + (1 << 60).to_bytes(11, "big"), b"\xff" * 12
    for kind, size in itertools.product(
        (b"0", b"5", b"1", b"2", b"3", b"L", b"K", b"x", b"g", b"S", b"D"), (big, negative)
    ):
        yield HostileArchive(f"size of {kind!r}", ((raw(b"n", kind, size, b"content"), file("y")),))
    for value in (b"-1", b"99999999999999999999", b"x", b"", b"1_0", b" 7", "\u0663".encode()):
        yield HostileArchive(f"pax size {value!r}", ((pax(size=value), file("y")),))
        yield HostileArchive(f"pax time {value!r}", ((pax(mtime=value), file("y")),))
        sparse = {"GNU__sparse__major": b"1", "GNU__sparse__minor": b"0", "GNU__sparse__realsize": value}
        yield HostileArchive(f"sparse size {value!r}", ((pax(**sparse), file("y", b"1\n0\n4\n".ljust(512, b"\0"))),))
    for told in (b"3 a=b\n", b"0 a=b\n", b"999999 a=b\n", b"6 ab\n\n", b"9" * 3000, b"\xff" * 512, b"6 a=b", b" a=b\n"):
        yield HostileArchive(f"pax {told[:8]!r}", ((raw(b"p", b"x", b"%011o\0" % len(told), told), file("y")),))
    for told in (
        "0,9,3,1",
        "-5,3",
        "0,1,0,1",
        "0,99999999",
        "5",
        "a,b",
        "9,9",
        ",".join(["1,1"] * 40),
        "0,1,99999999999999,1",
    ):
        for size in (b"10", b"1000000000000000"):
            records = {"GNU__sparse__size": size, "GNU__sparse__map": told.encode()}
            yield HostileArchive(f"sparse map {told[:20]}", ((pax(**records), file("y", b"content")),))
    for told in (b"1\n", b"\n", b"99999999\n", b"2\n0\n1\n", b"1\n-1\n5\n", b"x" * 2048):
        records = {"GNU__sparse__major": b"1", "GNU__sparse__minor": b"0", "GNU__sparse__realsize": b"10"}
        yield HostileArchive(f"sparse lines {told[:12]!r}", ((pax(**records), file("y", told.ljust(512, b"\0"))),))
    for number in (negative, big, b"77777777777\0", b"x" * 12):
        rest = bytes(345 - 265) + bytes(386 - 345) + number * 8 + b"\1" + number
        yield HostileArchive("old sparse map", ((raw(b"s", b"S", b"%011o\0" % 7, b"content", rest), file("y")),))
    yield HostileArchive("headers without end", ((pax(path=b"a"),) * 70,))
    yield HostileArchive("header alone", ((pax(path=b"a"),),))
    yield HostileArchive("broken checksum", ((file("y"), b"z" * 512),))
    whole = file("h", b"x" * 700)
    for at in (1, 511, 513, 1000, 1535):
        yield HostileArchive(f"cut at {at}", ((whole[:at] + b"",),))
    yield HostileArchive("more than it holds", ((struct.pack("512s", whole[:512]), b"x" * 512),))


FAMILIES = (through_links, names, whiteouts, kinds_and_modes, sizes)
