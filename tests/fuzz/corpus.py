"""The corpus that the repository keeps: for each target a few small inputs, each of which reaches lines of its own.

A file is JSON: a list of texts, each character of which is a byte.
"""

import json
from pathlib import Path

from tests.fuzz.loop import Fuzzer

PLACE = Path(__file__).parent / "corpus"
MOST_INPUTS = 25
LONGEST_BYTES = 1_500


def _file(name: str) -> Path:
    return PLACE / f"{name.replace(' ', '-')}.json"


def kept_corpus(name: str) -> list[bytes]:
    file = _file(name)
    return [text.encode("latin-1") for text in json.loads(file.read_text("utf-8"))] if file.exists() else []


def keep(fuzzer: Fuzzer) -> None:
    """Add the small finds of a search, the ones that came first, to what is kept."""
    name = fuzzer.target.name
    before = kept_corpus(name)
    known = {*before, *fuzzer.seeds}
    found = [data for data in fuzzer.kept if len(data) <= LONGEST_BYTES and data not in known]
    every = [*before, *found][:MOST_INPUTS]
    if every:
        texts = [data.decode("latin-1") for data in every]
        _file(name).write_text(json.dumps(texts, indent=0) + "\n", encoding="utf-8")
