"""Random runs, exported: every format is complete and includes every reply."""

import csv
import io
import json
from random import Random

import jsonschema
from hypothesis import given, settings
from hypothesis import strategies as st

from stackmem.core.facts import ModelReplied
from stackmem.formats.exports import EXPORTS
from stackmem.trace.record import Record
from tests.conftest import CAMPAIGN
from tests.formats.test_export_atif import SCHEMA, every
from tests.formats.test_export_otel import spans
from tests.properties.test_machine import SPELLED
from tests.properties.watched_run import WatchedRun


def random_run(spelled: str, seed: int, facts: int) -> list[Record]:
    rng = Random(seed)
    run = WatchedRun(spelled, rng)
    for _ in range(facts):
        run.answered(rng)
    run.finish()
    return [Record(seq, 1e9 + seq + rng.uniform(-3, 3), event) for seq, event in enumerate(run.events, 1)]


@given(st.sampled_from(SPELLED), st.integers(0, 2**32), st.integers(0, 120))
@settings(max_examples=1_000 if CAMPAIGN else 20)
def test_every_format_tells_of_every_reply(spelled, seed, facts):
    told = random_run(spelled, seed, facts)
    replies = sum(isinstance(record.event, ModelReplied) for record in told)
    text = {name: "".join(fold(told, "a-run")) for name, fold in EXPORTS.items()}
    trajectory = json.loads(text["atif"])
    jsonschema.validate(trajectory, SCHEMA, cls=jsonschema.Draft202012Validator)
    assert sum(step["source"] == "agent" for one in every(trajectory) for step in one["steps"]) == replies
    assert len(list(csv.reader(io.StringIO(text["csv"], newline="")))) == replies + 1
    written = [span for line in text["sft"].splitlines() for span in json.loads(line)["spans"]]
    assert sorted(span["step"] for span in written if not span["elsewhere"]) == list(range(1, replies + 1))
    assert sum(message["role"] == "assistant" for message in json.loads(text["mini"])["messages"]) == replies
    found = spans(text["otel"])
    ids = {span.span_id for span in found}
    assert len(ids) == len(found)
    assert {span.parent_span_id for span in found} <= {*ids, b""}
    slices = [one for one in json.loads(text["chrome"])["traceEvents"] if one.get("cat") == "model"]
    assert sum(one["name"].startswith("step ") for one in slices) == replies
    assert all(one["dur"] >= 0 for one in slices)
