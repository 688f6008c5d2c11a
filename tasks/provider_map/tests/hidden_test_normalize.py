"""Sections 1 to 6 of spec.md: whole records, then one change at a time with the field it changes or breaks."""

import json

import asking
import pytest

KEYS = [
    "tracking_id", "provider", "status", "updated_at", "weight_g", "service", "origin", "destination", "recipient",
    "price", "pieces", "signature_required", "delivery_attempts", "note",
]  # fmt: skip
WHOLE = {
    "northpost": [
        "NP550011", "northpost", "out_for_delivery", "2026-05-04T06:00:00Z", 2001, "express",
        {"country": "NL", "postcode": "1012", "city": "Amsterdam"},
        {"country": "DE", "postcode": "20095", "city": "Ham burg"}, "B. Lang",
        {"amount_cents": 101290, "currency": "EUR"}, 3, True, 0, "top floor / ring twice",
    ],
    "velox": [
        "VX771234", "velox", "out_for_delivery", "2026-05-04T10:00:00Z", 680, "economy",
        {"country": "US", "postcode": "94103", "city": "San Francisco"},
        {"country": "MX", "postcode": None, "city": "Puebla"}, "JOSE LUIS RUIZ",
        {"amount_cents": 705, "currency": "MXN"}, 2, False, 1, "call first",
    ],
    "triport": [
        "TP009988", "triport", "in_transit", "2027-01-01T05:29:58Z", 12500, "express",
        {"country": "FR", "postcode": "69001", "city": "Lyon"},
        {"country": "IE", "postcode": "D02", "city": "Dublin 2"}, "Marie",
        {"amount_cents": 1290, "currency": "EUR"}, 4, True, 0, "blue door",
    ],
}  # fmt: skip

N, V, T = "northpost", "velox", "triport"
CHANGES = [
    (N, {"events": [{"code": "NP03", "at": "2026-05-04T08:00:00+02:00"}, {"code": "NP04", "at": "2026-05-04T06:00:00Z"},
                    {"code": "NP07", "at": "2026-05-03T06:00:00Z"}]}, {"status": "in_transit", "delivery_attempts": 1}),
    (N, {"events": [{"code": "NP06", "at": "2026-05-04T06:00:00Z"}, {"code": "NP08", "at": "2026-05-04T08:00:00+02:00"}]},
     {"status": "returned"}),
    (N, {"events": [{"code": "NP08", "at": "2026-05-04T06:00:00Z"}, {"code": "NP06", "at": "2026-05-04T08:00:00+02:00"}]},
     {"status": "delivered"}),
    (N, {"events.0.at": "2026-05-04T08:00:00.999+02:00"}, {}),
    (N, {"events.0.at": "2026-05-04T00:30:00+02:00"}, {"updated_at": "2026-05-03T22:30:00Z"}),
    (N, {"shipment.weight": {"value": 0.5, "unit": "g"}}, {"weight_g": 1}),
    (N, {"shipment.weight": {"value": "1.0004999", "unit": "kg"}}, {"weight_g": 1000}),
    (N, {"shipment.weight": None}, {"weight_g": None}),
    (N, {"shipment.product": "BRIEF+"}, {"service": "economy"}),
    (N, {"shipment.product": "PAKET"}, {"service": "standard"}),
    (N, {"sender.zip": ...}, {"origin": {"country": "NL", "postcode": None, "city": "Amsterdam"}}),
    (N, {"receiver.name": "  "}, {"recipient": None}),
    (N, {"charges": ...}, {"price": None}),
    (N, {"charges.total": "7"}, {"price": {"amount_cents": 700, "currency": "EUR"}}),
    (N, {"charges.total": "1234567,05"}, {"price": {"amount_cents": 123456705, "currency": "EUR"}}),
    (N, {"charges.total": "0,00"}, {"price": {"amount_cents": 0, "currency": "EUR"}}),
    (N, {"parcels": ...}, {"pieces": 1}),
    (N, {"services": None}, {"signature_required": False}),
    (N, {"services": ["SIGNAL"]}, {"signature_required": False}),
    (N, {"remarks": ["", " "]}, {"note": None}),
    (N, {"remarks": ...}, {"note": None}),
    (V, {"ST": "39"}, {"status": "in_transit"}),
    (V, {"ST": 30}, {"status": "in_transit"}),
    (V, {"ST": 51}, {"status": "delivered", "note": "left with neighbour / call first"}),
    (V, {"ST": "51", "MEMO": ""}, {"status": "delivered", "note": "left with neighbour"}),
    (V, {"ST": 50}, {"status": "delivered"}),
    (V, {"TS": 1777888800999}, {}),
    (V, {"TS": 0}, {"updated_at": "1970-01-01T00:00:00Z"}),
    (V, {"WLB": ...}, {"weight_g": 227}),
    (V, {"WOZ": None}, {"weight_g": 454}),
    (V, {"WLB": "", "WOZ": ""}, {"weight_g": None}),
    (V, {"WLB": "2.2046226218487757", "WOZ": 0}, {"weight_g": 1000}),
    (V, {"SVC": ...}, {"service": "standard"}),
    (V, {"SVC": "1"}, {"service": "express"}),
    (V, {"D_CTRY": "irl", "D_ZIP": 12}, {"destination": {"country": "IE", "postcode": "12", "city": "Puebla"}}),
    (V, {"CONSIGNEE": "ACME Inc."}, {"recipient": "ACME Inc."}),
    (V, {"CONSIGNEE": None}, {"recipient": None}),
    (V, {"AMT": "", "CUR": None}, {"price": None}),
    (V, {"AMT": 12}, {"price": {"amount_cents": 1200, "currency": "MXN"}}),
    (V, {"AMT": "0.10"}, {"price": {"amount_cents": 10, "currency": "MXN"}}),
    (V, {"PCS": ...}, {"pieces": 1}),
    (V, {"SIG": "y"}, {"signature_required": True}),
    (V, {"SIG": ""}, {"signature_required": False}),
    (V, {"ATT": ...}, {"delivery_attempts": 0}),
    (T, {"state": "HANDED  OVER"}, {"status": "delivered"}),
    (T, {"state": "sent back"}, {"status": "returned"}),
    (T, {"state": "attempt failed", "tries": "2"}, {"status": "failed", "delivery_attempts": 2}),
    (T, {"when": "01.03.2026 10:30", "zone": "+01:00"}, {"updated_at": "2026-03-01T09:30:00Z"}),
    (T, {"zone": ""}, {"updated_at": "2026-12-31T23:59:58Z"}),
    (T, {"mass": "1,25 KG"}, {"weight_g": 1250}),
    (T, {"mass": "0.5kg"}, {"weight_g": 500}),
    (T, {"mass": "1 000 000 g"}, {"weight_g": 1000000}),
    (T, {"mass": "2,5 g"}, {"weight_g": 3}),
    (T, {"mass": ""}, {"weight_g": None}),
    (T, {"speed": ""}, {"service": "economy"}),
    (T, {"speed": "**"}, {"service": "standard"}),
    (T, {"route": "DE>PL-00-950"}, {"origin": {"country": "DE", "postcode": None, "city": None},
                                    "destination": {"country": "PL", "postcode": "00-950", "city": None}}),
    (T, {"route": " GB  London  >  US-10001"}, {"origin": {"country": "GB", "postcode": None, "city": "London"},
                                                "destination": {"country": "US", "postcode": "10001", "city": None}}),
    (T, {"fee": "USD 3"}, {"price": {"amount_cents": 300, "currency": "USD"}}),
    (T, {"fee": ""}, {"price": None}),
    (T, {"boxes": "", "tries": ""}, {"pieces": 1}),
    (T, {"sign": "1"}, {}),
    (T, {"sign": "No"}, {"signature_required": False}),
    (T, {"sign": ""}, {"signature_required": False}),
    (T, {"comment": "-"}, {"note": None}),
    (T, {"comment": " - "}, {"note": None}),
]  # fmt: skip

ERRORS = [
    (N, {"shipment.barcode": "NP-12"}, "tracking_id"),
    (N, {"shipment.barcode": "ABCDEFGH"}, "tracking_id"),
    (N, {"shipment.barcode": "NP/123456"}, "tracking_id"),
    (N, {"shipment.barcode": "NP12345\u0661"}, "tracking_id"),
    (N, {"shipment.barcode": "1" * 21}, "tracking_id"),
    (N, {"shipment": ...}, "tracking_id"),
    (N, {"shipment": []}, "tracking_id"),
    (N, {"shipment.barcode": True}, "tracking_id"),
    (N, {"events.1.code": "NP10"}, "status"),
    (N, {"events": []}, "status"),
    (N, {"events": [{"code": "NP91", "at": "2026-05-04T08:00:00Z"}]}, "status"),
    (N, {"events.1.at": "2026-05-01T23:30:00"}, "updated_at"),
    (N, {"events.0.at": "yesterday"}, "updated_at"),
    (N, {"shipment.weight.unit": "lb"}, "weight_g"),
    (N, {"shipment.weight.value": 0}, "weight_g"),
    (N, {"shipment.weight.value": "-1"}, "weight_g"),
    (N, {"shipment.weight.value": True}, "weight_g"),
    (N, {"shipment.weight.value": "1,5"}, "weight_g"),
    (N, {"shipment.product": "paket"}, "service"),
    (N, {"shipment.product": ...}, "service"),
    (N, {"sender.countryCode": "DEU"}, "origin"),
    (N, {"sender": ...}, "origin"),
    (N, {"receiver.countryCode": None}, "destination"),
    (N, {"receiver.name": ["x"]}, "recipient"),
    (N, {"charges.total": "12.90"}, "price"),
    (N, {"charges.total": "1,005"}, "price"),
    (N, {"charges.total": "-1,00"}, "price"),
    (N, {"charges.total": "12.34,50"}, "price"),
    (N, {"charges.currency": "eur"}, "price"),
    (N, {"parcels": []}, "pieces"),
    (N, {"charges.currency": "eur", "shipment.product": "x", "parcels": []}, "service"),
    (V, {"TRK": None}, "tracking_id"),
    (V, {"ST": 29}, "status"),
    (V, {"ST": "4O"}, "status"),
    (V, {"TS": "soon"}, "updated_at"),
    (V, {"TS": ...}, "updated_at"),
    (V, {"WLB": 0, "WOZ": 0}, "weight_g"),
    (V, {"WLB": "1 lb"}, "weight_g"),
    (V, {"SVC": 4}, "service"),
    (V, {"O_CTRY": "US"}, "origin"),
    (V, {"D_CTRY": "ATL"}, "destination"),
    (V, {"CONSIGNEE": "A, B, C"}, "recipient"),
    (V, {"AMT": None}, "price"),
    (V, {"CUR": ""}, "price"),
    (V, {"AMT": "3.999"}, "price"),
    (V, {"AMT": "-3"}, "price"),
    (V, {"PCS": 0}, "pieces"),
    (V, {"PCS": "1.5"}, "pieces"),
    (V, {"SIG": "maybe"}, "signature_required"),
    (V, {"ATT": "x"}, "delivery_attempts"),
    (T, {"reference": ""}, "tracking_id"),
    (T, {"state": "lost"}, "status"),
    (T, {"when": "31.02.2026 10:00"}, "updated_at"),
    (T, {"when": "2026-03-01 10:00"}, "updated_at"),
    (T, {"zone": "CET"}, "updated_at"),
    (T, {"mass": "12"}, "weight_g"),
    (T, {"mass": "0 g"}, "weight_g"),
    (T, {"mass": "1 25 g"}, "weight_g"),
    (T, {"speed": "****"}, "service"),
    (T, {"route": "de Berlin > FR"}, "origin"),
    (T, {"route": "DE > "}, "destination"),
    (T, {"route": "DE > FR > IT"}, "origin"),
    (T, {"route": ""}, "origin"),
    (T, {"fee": "12.90"}, "price"),
    (T, {"fee": "EUR 1.005"}, "price"),
    (T, {"fee": "EUR 1.2.3"}, "price"),
    (T, {"boxes": "0"}, "pieces"),
    (T, {"sign": "ja"}, "signature_required"),
    (T, {"tries": "-1"}, "delivery_attempts"),
]  # fmt: skip


def question(provider, changes):
    return ["normalize", provider, asking.changed(provider, changes)]


def named(case):
    provider, changes, found = case
    return f"{provider} {changes} gives {found}".replace("Ellipsis", "missing")


@pytest.fixture(scope="module")
def answer():
    questions = [["providers"], ["normalize", "dhl", {}], ["normalize", "velox", []]]
    questions += [question(provider, changes) for provider, changes, _ in [*CHANGES, *ERRORS]]
    questions += [question(provider, {}) for provider in WHOLE]
    answers = asking.ask(questions)
    return lambda question: answers[json.dumps(question)]


def test_the_three_providers_are_named(answer):
    assert answer(["providers"]) == ["northpost", "velox", "triport", True]


@pytest.mark.parametrize("provider", WHOLE)
def test_a_whole_record(answer, provider):
    found = answer(question(provider, {}))
    assert found.get("order") == KEYS, found
    assert found == {"parcel": dict(zip(KEYS, WHOLE[provider], strict=True)), "order": KEYS, "unchanged": True}


@pytest.mark.parametrize("case", CHANGES, ids=map(named, CHANGES))
def test_a_change(answer, case):
    provider, changes, expected = case
    found = answer(question(provider, changes))
    assert found.get("parcel") == {**dict(zip(KEYS, WHOLE[provider], strict=True)), **expected}, found


@pytest.mark.parametrize("case", ERRORS, ids=map(named, ERRORS))
def test_an_error_names_its_field(answer, case):
    provider, changes, field = case
    assert answer(question(provider, changes)) == {"error": field, "provider": provider, "worded": True}


def test_what_is_no_record_of_a_carrier(answer):
    assert answer(["normalize", "dhl", {}]) == {"error": "provider", "provider": "dhl", "worded": True}
    assert answer(["normalize", "velox", []]) == {"error": "record", "provider": "velox", "worded": True}
