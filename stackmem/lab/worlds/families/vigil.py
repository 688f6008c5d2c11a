"""``vigil``: a few words appear at the very beginning, and are needed after a long quiet stretch.

The trap: each word is in one output only. If that output has scrolled away or was summarized badly, the word is lost.
"""

from __future__ import annotations

from random import Random

from stackmem.lab.worlds.kernel import Size, UnitList, WorldDraft, WorldFamily, code, shares

_WORDS = ("challenge", "reply", "relief")


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    work = UnitList()
    work.read(rng, size, "docs/post.md", "Orders for the post", {"post.route": code(rng)})
    words = _WORDS[: max(1, min(len(_WORDS), units // 4))]
    for word in words:
        work.do(f"take over the post, {word}", gives={f"watch.{word}": code(rng)})
    quiet, last = shares(max(2, units - len(words)), (8, 2))
    for at in range(quiet):
        work.do(f"look out, hour {at + 1}", *(["post.route"] if at % 10 == 0 else []))
    for at in range(last):
        work.do(f"answer call {at + 1}", f"watch.{words[at % len(words)]}")
    return work.draft(
        "Keep watch through the night",
        "The first units tell the words of the night, once each, in their output; they stand nowhere else. Then the "
        "units need next to nothing for a long time. The last ones need the words.",
    )


FAMILY = WorldFamily(build, hurts=("window", "truncate", "mask", "rag", "boundary"))
