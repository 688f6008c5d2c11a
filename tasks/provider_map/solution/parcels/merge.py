"""The reports on one parcel become one parcel with a history (spec.md, section 7)."""

from copy import deepcopy

FINAL = ("delivered", "returned")
_PLACES = ("origin", "destination")


def merge(parcels):
    reports = {}
    for parcel in sorted(parcels, key=lambda parcel: parcel["updated_at"]):  # stable: equal moments keep their order
        reports.setdefault(parcel["tracking_id"], []).append(parcel)
    return [_merged(reports[tracking_id]) for tracking_id in sorted(reports)]


def _merged(oldest_first):
    merged = deepcopy(oldest_first[-1])
    for older in reversed(oldest_first[:-1]):
        for key, value in older.items():
            if merged[key] is None:
                merged[key] = deepcopy(value)
        for place in _PLACES:
            if merged[place]["country"] == older[place]["country"]:
                for part, value in older[place].items():
                    if merged[place][part] is None:
                        merged[place][part] = value
    final = [report for report in oldest_first if report["status"] in FINAL]
    if final:
        for key in ("status", "updated_at", "provider"):
            merged[key] = final[-1][key]
    for key in ("delivery_attempts", "pieces"):
        merged[key] = max(report[key] for report in oldest_first)
    merged["signature_required"] = any(report["signature_required"] for report in oldest_first)
    merged["history"] = []
    for report in oldest_first:
        if not merged["history"] or merged["history"][-1][1] != report["status"]:
            merged["history"].append([report["updated_at"], report["status"], report["provider"]])
    return merged
