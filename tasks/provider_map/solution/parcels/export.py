"""Merged parcels as CSV and as a summary (spec.md, section 8)."""

import csv
import io

STATUSES = ("created", "picked_up", "in_transit", "out_for_delivery", "delivered", "failed", "returned")
COLUMNS = (
    "tracking_id,status,updated_at,provider,service,weight_kg,from,to,recipient,price,pieces,signature,attempts,note,history"
)


def to_csv(parcels):
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS.split(","))
    for parcel in parcels:
        writer.writerow(_row(parcel))
    return out.getvalue()


def _row(parcel):
    weight, price = parcel["weight_g"], parcel["price"]
    return [
        parcel["tracking_id"],
        parcel["status"],
        parcel["updated_at"],
        parcel["provider"],
        parcel["service"],
        "" if weight is None else f"{weight // 1000}.{weight % 1000:03}",
        _safe(_place(parcel["origin"])),
        _safe(_place(parcel["destination"])),
        _safe(parcel["recipient"] or ""),
        "" if price is None else f"{price['amount_cents'] // 100}.{price['amount_cents'] % 100:02} {price['currency']}",
        parcel["pieces"],
        "yes" if parcel["signature_required"] else "no",
        parcel["delivery_attempts"],
        _safe(parcel["note"] or ""),
        ">".join(status for _, status, _ in parcel["history"]),
    ]


def _place(place):
    postcode = f"-{place['postcode']}" if place["postcode"] else ""
    city = f" {place['city']}" if place["city"] else ""
    return f"{place['country']}{postcode}{city}"


def _safe(text):
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def summary(parcels):
    statuses = [parcel["status"] for parcel in parcels]
    prices = {}
    for parcel in parcels:
        if parcel["price"]:
            currency = parcel["price"]["currency"]
            prices[currency] = prices.get(currency, 0) + parcel["price"]["amount_cents"]
    return {
        "parcels": len(parcels),
        "by_status": {status: statuses.count(status) for status in STATUSES if status in statuses},
        "weight_g": sum(parcel["weight_g"] or 0 for parcel in parcels),
        "prices": dict(sorted(prices.items())),
    }
