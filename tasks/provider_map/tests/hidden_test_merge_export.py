"""Sections 7 to 9 of spec.md."""

import json
import os
import subprocess
import sys

import asking
import pytest


def parcel(tracking_id, at, status="in_transit", **changes):
    made = {
        "tracking_id": tracking_id, "provider": "velox", "status": status, "updated_at": f"2026-03-{at}:00:00Z",
        "weight_g": None, "service": "standard", "origin": {"country": "DE", "postcode": None, "city": None},
        "destination": {"country": "FR", "postcode": None, "city": None}, "recipient": None, "price": None,
        "pieces": 1, "signature_required": False, "delivery_attempts": 0, "note": None,
    }  # fmt: skip
    return {**made, **changes}


def entry(at, status, provider="velox"):
    return [f"2026-03-{at}:00:00Z", status, provider]


def place(country, postcode=None, city=None):
    return {"country": country, "postcode": postcode, "city": city}


A = "AA1111"
FIRST = parcel(
    A, "01T08", "picked_up", weight_g=900, recipient="Ann", price={"amount_cents": 5, "currency": "EUR"},
    origin=place("DE", "10115", "Berlin"), pieces=3, signature_required=True, delivery_attempts=2, provider="northpost",
)  # fmt: skip
SECOND = parcel(A, "02T08", weight_g=950, origin=place("DE", None, "Bonn"), destination=place("FR", "75001"))
THIRD = parcel(
    A, "03T08", "out_for_delivery", provider="triport", destination=place("BE", None, "Gent"), service="express"
)

MERGES = {
    "one report is itself with a history": ([SECOND], [{**SECOND, "history": [entry("02T08", "in_transit")]}]),
    "nothing gives nothing": ([], []),
    "the newest leads and is filled from the newest older ones": (
        [SECOND, THIRD, FIRST],
        [{**THIRD, "weight_g": 950, "recipient": "Ann", "price": {"amount_cents": 5, "currency": "EUR"}, "pieces": 3,
          "signature_required": True, "delivery_attempts": 2, "origin": place("DE", "10115", "Bonn"),
          "destination": place("BE", None, "Gent"),
          "history": [entry("01T08", "picked_up", "northpost"), entry("02T08", "in_transit"),
                      entry("03T08", "out_for_delivery", "triport")]}],
    ),
    "a final status stays although a scan comes in late": (
        [parcel(A, "02T08", "delivered", provider="triport"), parcel(A, "02T09", "in_transit", note="late", weight_g=7)],
        [parcel(A, "02T08", "delivered", provider="triport", note="late", weight_g=7,
                history=[entry("02T08", "delivered", "triport"), entry("02T09", "in_transit")])],
    ),
    "the newest of two final ones": (
        [parcel(A, "04T08", "returned"), parcel(A, "02T08", "delivered"), parcel(A, "05T08", "failed")],
        [parcel(A, "04T08", "returned", history=[entry("02T08", "delivered"), entry("04T08", "returned"),
                                                 entry("05T08", "failed")])],
    ),
    "at one moment the one given last is the newest": (
        [parcel(A, "02T08", "failed", note="x"), parcel(A, "02T08", "in_transit", note="y")],
        [parcel(A, "02T08", "in_transit", note="y", history=[entry("02T08", "failed"), entry("02T08", "in_transit")])],
    ),
    "the same status in a row is told once": (
        [parcel(A, "02T08"), parcel(A, "02T10"), parcel(A, "02T09", provider="triport"), parcel(A, "03T01", "failed"),
         parcel(A, "03T02")],
        [parcel(A, "03T02", history=[entry("02T08", "in_transit"), entry("03T01", "failed"), entry("03T02", "in_transit")])],
    ),
    "parcels are in order of their ids": (
        [parcel("ZZ1111", "01T01"), parcel("BB1111", "02T01")],
        [parcel("BB1111", "02T01", history=[entry("02T01", "in_transit")]),
         parcel("ZZ1111", "01T01", history=[entry("01T01", "in_transit")])],
    ),
}  # fmt: skip

HEADER = "tracking_id,status,updated_at,provider,service,weight_kg,from,to,recipient,price,pieces,signature,attempts,note,history\n"
MERGED = [
    {**FIRST, "recipient": "=SUM(1,2)", "note": 'says "hi"', "weight_g": 1250,
     "price": {"amount_cents": 1290, "currency": "EUR"},
     "history": [entry("01T07", "created"), entry("01T08", "picked_up")]},
    {**SECOND, "tracking_id": "BB2222", "recipient": "-", "note": "a\nb", "weight_g": 7,
     "price": {"amount_cents": 5, "currency": "CHF"}, "history": [entry("02T08", "in_transit")]},
    {**THIRD, "tracking_id": "CC3333", "history": [entry("03T08", "out_for_delivery")], "note": "+1 @home",
     "price": {"amount_cents": 10, "currency": "EUR"}},
]  # fmt: skip
CSV = HEADER + (
    'AA1111,picked_up,2026-03-01T08:00:00Z,northpost,standard,1.250,DE-10115 Berlin,FR,"\'=SUM(1,2)",12.90 EUR,3,yes,2,'
    '"says ""hi""",created>picked_up\n'
    "BB2222,in_transit,2026-03-02T08:00:00Z,velox,standard,0.007,DE Bonn,FR-75001,'-,0.05 CHF,1,no,0,"
    '"a\nb",in_transit\n'
    "CC3333,out_for_delivery,2026-03-03T08:00:00Z,triport,express,,DE,BE Gent,,0.10 EUR,1,no,0,'+1 @home,out_for_delivery\n"
)
SUMMARY = {
    "parcels": 3, "by_status": {"picked_up": 1, "in_transit": 1, "out_for_delivery": 1}, "weight_g": 1257,
    "prices": {"CHF": 5, "EUR": 1300},
}  # fmt: skip


@pytest.fixture(scope="module")
def answer():
    backwards = list(reversed(MERGED))
    questions = [["merge", reports] for reports, _ in MERGES.values()]
    questions += [["csv", MERGED], ["csv", []], ["summary", backwards], ["summary", []]]
    answers = asking.ask(questions)
    return lambda *question: answers[json.dumps(list(question))]


@pytest.mark.parametrize("name", MERGES)
def test_merge(answer, name):
    reports, expected = MERGES[name]
    found = answer("merge", reports)
    assert found.get("merged") == expected, found
    assert found["unchanged"]
    assert not found["shares"]


def test_csv(answer):
    assert answer("csv", MERGED) == CSV
    assert answer("csv", []) == HEADER


def test_summary(answer):
    found = [SUMMARY, list(SUMMARY), list(SUMMARY["by_status"]), list(SUMMARY["prices"])]
    assert answer("summary", list(reversed(MERGED))) == found
    assert answer("summary", [])[0] == {"parcels": 0, "by_status": {}, "weight_g": 0, "prices": {}}


def parcels(*arguments):
    return subprocess.run(
        [*asking.APART, sys.executable, "-P", "-B", "-m", "parcels", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(asking.WORKSPACE / "src")},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def line(provider, **changes):
    return json.dumps({"provider": provider, "record": {**asking.BASES[provider], **changes}})


def test_the_command_line_uses_the_good_lines_and_reports_the_others(tmp_path):
    reports = tmp_path / "reports.jsonl"
    bad = [line("velox", AMT="x"), "{", '["velox"]', line("triport").replace("triport", "ups"), '{"provider": "velox"}']
    reports.write_text("\n".join([line("triport"), "", *bad, line("velox"), ""]), encoding="utf-8")
    done = parcels(reports)
    assert done.returncode == 1, done.stderr
    assert [row.split(",")[0] for row in done.stdout.splitlines()] == ["tracking_id", "TP009988", "VX771234"]
    told = done.stderr.splitlines()
    assert [text.split(": ")[0] for text in told] == ["line 3", "line 4", "line 5", "line 6", "line 7"]
    assert told[0].startswith("line 3: velox.price: ")
    assert told[1] == "line 4: not a report"
    assert told[2] == "line 5: not a report"
    assert told[3].startswith("line 6: ups.provider: ")


def test_the_command_line_prints_a_summary(tmp_path):
    reports = tmp_path / "reports.jsonl"
    reports.write_text(line("triport") + "\n" + line("velox") + "\n", encoding="utf-8")
    done = parcels("--summary", reports)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "parcels": 2, "by_status": {"in_transit": 1, "out_for_delivery": 1}, "weight_g": 13180,
        "prices": {"EUR": 1290, "MXN": 705},
    }  # fmt: skip
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["--summary"], ["a", "b"], ["/no/such/file"], ["--verbose", "x"]])
def test_wrong_arguments_end_with_2(arguments):
    done = parcels(*arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
