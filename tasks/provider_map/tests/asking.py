"""What the checks share: the base records of the carriers, changes to them, and the questions put to the package."""

import copy
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

WORKSPACE = Path(os.environ["WORKSPACE"])
APART = shlex.split(os.environ.get("APART", ""))  # holds the code under test apart from this folder and the verdict

NORTHPOST = {
    "shipment": {"barcode": "np-55 00.11", "weight": {"value": "2.0005", "unit": "kg"}, "product": "PAKET-X"},
    "events": [
        {"code": "NP05", "at": "2026-05-04T08:00:00+02:00"},
        {"code": "NP01", "at": "2026-05-01T23:30:00-01:00"},
        {"code": "NP95", "at": "2026-05-09T00:00:00Z"},
    ],
    "sender": {"countryCode": "nl", "zip": 1012, "town": "Amsterdam"},
    "receiver": {"countryCode": "DE", "zip": "20095", "town": " Ham  burg ", "name": "B. Lang"},
    "charges": {"total": "1.012,9", "currency": "EUR"},
    "parcels": [{}, {}, {}],
    "services": ["COD", "SIGN"],
    "remarks": ["  top floor ", "", "ring  twice"],
    "extra": 1,
}
VELOX = {
    "TRK": "vx:77-1234", "ST": 40, "TS": "1777888800123", "WLB": 1, "WOZ": "8", "SVC": 3, "O_CTRY": "usa",
    "O_ZIP": "94103", "O_CITY": "San Francisco", "D_CTRY": "MEX", "D_CITY": "Puebla", "CONSIGNEE": "RUIZ,  JOSE LUIS",
    "AMT": "7.05", "CUR": "MXN", "PCS": 2, "SIG": "n", "ATT": "1", "MEMO": " call  first",
}  # fmt: skip
TRIPORT = {
    "reference": "TP 00 99 88", "state": "At Depot", "when": "31.12.2026 23:59:58", "zone": "-05:30", "mass": "12 500 g",
    "speed": "***", "route": "FR-69001 Lyon > IE-D02 Dublin 2", "to": "Marie", "fee": "12.9 EUR", "boxes": "4",
    "sign": "TRUE", "tries": "0", "comment": "blue door",
}  # fmt: skip
BASES = {"northpost": NORTHPOST, "velox": VELOX, "triport": TRIPORT}


def changed(provider, changes):
    """The base record with dotted paths set; ``...`` takes a key out."""
    record = copy.deepcopy(BASES[provider])
    for path, value in changes.items():
        *way, last = path.split(".")
        place = record
        for key in way:
            place = place[int(key)] if isinstance(place, list) else place[key]
        if value is ...:
            del place[last]
        else:
            place[last] = value
    return record


def ask(questions):
    """The answer to each question, keyed by the question's JSON."""
    done = subprocess.run(
        [*APART, sys.executable, "-P", "-B", str(Path(__file__).with_name("probe.py")), str(WORKSPACE / "src")],
        input="".join(json.dumps(question) + "\n" for question in questions),
        capture_output=True,
        text=True,
        timeout=60,
        cwd=WORKSPACE,
        check=False,
    )
    print(done.stderr[-2000:])
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    lines += ["no answer"] * (len(questions) - len(lines))
    return {json.dumps(question): line for question, line in zip(questions, lines, strict=True)}
