"""Asks the package questions, in a process of its own: JSON lines in, JSON lines out."""

import copy
import json
import os
import sys

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what the package prints is no answer
sys.path.insert(0, sys.argv[1])
from parcels.export import summary, to_csv  # noqa: E402
from parcels.merge import merge  # noqa: E402
from parcels.normalize import PROVIDERS, MappingError, normalize  # noqa: E402


def answer(question):
    match question:
        case ["providers"]:
            return [*PROVIDERS, issubclass(MappingError, ValueError)]
        case ["normalize", provider, record]:
            before = copy.deepcopy(record)
            try:
                parcel = normalize(provider, record)
            except MappingError as error:
                good = str(error) == f"{error.provider}.{error.field}: {error.reason}" and bool(error.reason)
                return {"error": error.field, "provider": error.provider, "worded": good}
            return {"parcel": parcel, "order": list(parcel), "unchanged": record == before}
        case ["merge", parcels]:
            before = copy.deepcopy(parcels)
            merged = merge(parcels)
            unchanged = parcels == before
            for parcel in merged:
                parcel["origin"]["city"] = "shared"
                parcel["history"].append("shared")
            shares = parcels != before
            return {"merged": merge(copy.deepcopy(before)), "unchanged": unchanged, "shares": shares}
        case ["csv", parcels]:
            return to_csv(parcels)
        case ["summary", parcels]:
            found = summary(parcels)
            return [found, list(found), list(found["by_status"]), list(found["prices"])]


for line in sys.stdin:
    try:
        text = json.dumps(answer(json.loads(line)))
    except Exception as error:  # noqa: BLE001 - whatever it raises is the answer
        text = json.dumps({"raises": f"{type(error).__name__}: {error}"})
    answers.write(text + "\n")
    answers.flush()
