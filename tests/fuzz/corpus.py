"""The repository's corpus: a few small inputs for each target, each of which reaches unique lines.

A file is a JSON list of texts, in which each character is one byte.
"""

import json
from pathlib import Path

from tests.fuzz.loop import Fuzzer

PLACE = Path(__file__).parent / "corpus"
MAX_INPUTS = 25
LONGEST_BYTES = 1_500


def _file(name: str) -> Path:
    return PLACE / f"{name.replace(' ', '-')}.json"


def kept_corpus(name: str) -> list[bytes]:
    file = _file(name)
    return [text.encode("latin-1") for text in json.loads(file.read_text("utf-8"))] if file.exists() else []


def keep(fuzzer: Fuzzer) -> None:
    """Add the small, earliest finds of a search to the corpus."""
    name = fuzzer.target.name
    before = kept_corpus(name)
    known = {*before, *fuzzer.seeds}
    found = [data for data in fuzzer.kept if len(data) <= LONGEST_BYTES and data not in known]
    every = [*before, *found][:MAX_INPUTS]
    if every:
        texts = [data.decode("latin-1") for data in every]
        _file(name).write_text(json.dumps(texts, indent=0) + "\n", encoding="utf-8")
