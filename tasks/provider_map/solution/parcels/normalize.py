"""A carrier's record becomes a canonical parcel (spec.md, sections 1 to 6)."""

import re
from datetime import datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Decimal

PROVIDERS = ("northpost", "velox", "triport")

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)")
_POUND_G = Decimal("453.59237")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

_NORTHPOST_STATUS = {
    "NP01": "created",
    "NP02": "picked_up",
    "NP03": "in_transit",
    "NP04": "in_transit",
    "NP05": "out_for_delivery",
    "NP06": "delivered",
    "NP07": "failed",
    "NP08": "returned",
}
_NORTHPOST_SERVICE = {"PAKET": "standard", "PAKET-X": "express", "BRIEF+": "economy"}
_VELOX_STATUS = {
    10: "created",
    20: "picked_up",
    **{code: "in_transit" for code in range(30, 40)},
    40: "out_for_delivery",
    50: "delivered",
    51: "delivered",
    60: "failed",
    70: "returned",
}
_VELOX_SERVICE = {1: "express", 2: "standard", 3: "economy"}
_COUNTRIES = {"USA": "US", "CAN": "CA", "MEX": "MX", "GBR": "GB", "IRL": "IE", "DEU": "DE", "FRA": "FR", "NLD": "NL"}
_TRIPORT_STATUS = {
    "announced": "created",
    "collected": "picked_up",
    "underway": "in_transit",
    "at depot": "in_transit",
    "on van": "out_for_delivery",
    "handed over": "delivered",
    "attempt failed": "failed",
    "sent back": "returned",
}
_TRIPORT_SERVICE = {"*": "economy", "**": "standard", "***": "express"}
_TRIPORT_SIGN = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


class MappingError(ValueError):
    def __init__(self, provider, field, reason):
        super().__init__(f"{provider}.{field}: {reason}")
        self.provider = provider
        self.field = field
        self.reason = reason


class _Wrong(Exception):
    """The reason why a value cannot be used; the field is known where it is caught."""


def normalize(provider, record):
    if provider not in _FIELDS:
        raise MappingError(provider, "provider", f"known are {', '.join(PROVIDERS)}")
    if not isinstance(record, dict):
        raise MappingError(provider, "record", "a record is an object")
    parcel = {}
    for field, fill in _FIELDS[provider].items():
        try:
            parcel[field] = fill(record)
        except _Wrong as error:
            raise MappingError(provider, field, str(error)) from error
    return parcel


# Values, whoever sends them


def _text(value, what="text"):
    """A stripped text, or None where there is none; numbers are as good as their digits."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int, float, Decimal)):
        raise _Wrong(f"{what} is no text")
    return " ".join(str(value).split()) or None


def _required(value, what):
    text = _text(value, what)
    if text is None:
        raise _Wrong(f"{what} is missing")
    return text


def _decimal(value, what):
    text = _required(value, what)
    if not _NUMBER.fullmatch(text):
        raise _Wrong(f"{what} is no number")
    return Decimal(text)


def _integer(value, what, default=None):
    if default is not None and _text(value, what) is None:
        return default
    number = _decimal(value, what)
    if number != number.to_integral_value():
        raise _Wrong(f"{what} is no whole number")
    return int(number)


def _counted(value, what, least, default):
    number = _integer(value, what, default)
    if number < least:
        raise _Wrong(f"{what} is less than {least}")
    return number


def _part(record, key):
    """A nested object; an absent one is empty."""
    value = record.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _Wrong(f"{key} is no object")
    return value


def _list(record, key):
    value = record.get(key)
    if value is not None and not isinstance(value, list):
        raise _Wrong(f"{key} is no list")
    return value


def _chosen(value, table, what):
    if value not in table:
        raise _Wrong(f"unknown {what} {value!r}")
    return table[value]


def _tracking_id(value):
    text = re.sub(r"[ .:-]", "", _required(value, "the tracking id")).upper()
    if not re.fullmatch(r"[A-Z0-9]{6,20}", text) or not re.search(r"[0-9]", text):
        raise _Wrong(f"{text!r} is no tracking id")
    return text


def _grams(value):
    if value <= 0:
        raise _Wrong("a weight is above 0")
    return int(value.quantize(Decimal(1), rounding=ROUND_HALF_UP))


def _utc(moment):
    try:
        return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError) as error:
        raise _Wrong("a moment outside the calendar") from error


def _price(amount, currency):
    currency = _required(currency, "the currency")
    if not re.fullmatch(r"[A-Z]{3}", currency):
        raise _Wrong(f"{currency!r} is no currency")
    cents = amount * 100
    if amount < 0 or cents != cents.to_integral_value():
        raise _Wrong(f"{amount} is no amount")
    return {"amount_cents": int(cents), "currency": currency}


def _place(country, postcode, city):
    return {"country": country, "postcode": _text(postcode, "postcode"), "city": _text(city, "city")}


# northpost


def _np_moment(value):
    try:
        moment = datetime.fromisoformat(_required(value, "the time of an event").replace("Z", "+00:00"))
    except ValueError as error:
        raise _Wrong(f"{value!r} is no time") from error
    if moment.tzinfo is None:
        raise _Wrong(f"{value!r} has no offset")
    return moment


def _np_events(record):
    events = _list(record, "events") or []
    if not all(isinstance(event, dict) for event in events):
        raise _Wrong("an event is an object")
    return [event for event in events if not re.fullmatch(r"NP9[0-9]", str(event.get("code")))]


def _np_latest(record):
    events = _np_events(record)
    for event in events:
        _chosen(event.get("code"), _NORTHPOST_STATUS, "code")
    if not events:
        raise _Wrong("no event has a status")
    return events


def _np_status(record):
    events = _np_latest(record)
    try:
        moments = [_np_moment(event.get("at")) for event in events]
    except _Wrong:
        return ""  # an error of updated_at, which is filled next
    latest = max(range(len(events)), key=lambda index: (moments[index], index))
    return _NORTHPOST_STATUS[events[latest]["code"]]


def _np_updated_at(record):
    return _utc(max(_np_moment(event.get("at")) for event in _np_latest(record)))


def _np_weight(record):
    shipment = _part(record, "shipment")
    if shipment.get("weight") is None:
        return None
    weight = _part(shipment, "weight")
    unit = _chosen(weight.get("unit"), {"kg": 1000, "g": 1}, "unit")
    return _grams(_decimal(weight.get("value"), "the weight") * unit)


def _np_place(record, key):
    part = _part(record, key)
    country = _required(part.get("countryCode"), "the country").upper()
    if not re.fullmatch(r"[A-Z]{2}", country):
        raise _Wrong(f"{country!r} is no country")
    return _place(country, part.get("zip"), part.get("town"))


def _np_price(record):
    if record.get("charges") is None:
        return None
    charges = _part(record, "charges")
    total = _required(charges.get("total"), "the total")
    if not re.fullmatch(r"(?:[0-9]{1,3}(?:\.[0-9]{3})+|[0-9]+)(?:,[0-9]+)?", total):
        raise _Wrong(f"{total!r} is no amount")
    return _price(Decimal(total.replace(".", "").replace(",", ".")), charges.get("currency"))


def _np_pieces(record):
    parcels = _list(record, "parcels")
    if parcels == []:
        raise _Wrong("there are no parcels")
    return 1 if parcels is None else len(parcels)


def _np_note(record):
    texts = [_text(remark, "a remark") for remark in _list(record, "remarks") or []]
    return " / ".join(text for text in texts if text) or None


# velox


def _vx_code(record, key, table, default=None):
    return _chosen(_integer(record.get(key), key, default), table, key)


def _vx_updated_at(record):
    try:
        return _utc(_EPOCH + timedelta(milliseconds=_integer(record.get("TS"), "TS")))
    except OverflowError as error:
        raise _Wrong("a moment outside the calendar") from error


def _vx_weight(record):
    pounds, ounces = _text(record.get("WLB"), "WLB"), _text(record.get("WOZ"), "WOZ")
    if pounds is None and ounces is None:
        return None
    total = _decimal(pounds or "0", "WLB") * _POUND_G + _decimal(ounces or "0", "WOZ") * _POUND_G / 16
    return _grams(total)


def _vx_place(record, side):
    country = _required(record.get(f"{side}_CTRY"), "the country").upper()
    return _place(_chosen(country, _COUNTRIES, "country"), record.get(f"{side}_ZIP"), record.get(f"{side}_CITY"))


def _vx_recipient(record):
    name = _text(record.get("CONSIGNEE"), "CONSIGNEE")
    if name is None or "," not in name:
        return name
    if name.count(",") > 1:
        raise _Wrong("CONSIGNEE has more than one comma")
    last, first = name.split(",")
    return _text(f"{first} {last}")


def _vx_price(record):
    amount, currency = _text(record.get("AMT"), "AMT"), _text(record.get("CUR"), "CUR")
    if amount is None and currency is None:
        return None
    return _price(_decimal(amount, "AMT"), currency)


def _vx_note(record):
    memo = _text(record.get("MEMO"), "MEMO")
    texts = (["left with neighbour"] if _integer(record.get("ST"), "ST") == 51 else []) + ([memo] if memo else [])
    return " / ".join(texts) or None


# triport


def _tp_updated_at(record):
    when, zone = _required(record.get("when"), "when"), _text(record.get("zone"), "zone") or "+00:00"
    if not re.fullmatch(r"[0-9]{2}\.[0-9]{2}\.[0-9]{4} [0-9]{2}:[0-9]{2}(?::[0-9]{2})?", when):
        raise _Wrong(f"{when!r} is no time")
    if not re.fullmatch(r"[+-][0-9]{2}:[0-9]{2}", zone):
        raise _Wrong(f"{zone!r} is no zone")
    form = "%d.%m.%Y %H:%M:%S%z" if when.count(":") == 2 else "%d.%m.%Y %H:%M%z"
    try:
        return _utc(datetime.strptime(when + zone, form))
    except ValueError as error:
        raise _Wrong(f"{when!r} is no time") from error


def _tp_weight(record):
    mass = _text(record.get("mass"), "mass")
    if mass is None:
        return None
    found = re.fullmatch(r"([0-9]{1,3}(?: [0-9]{3})+|[0-9]+)?(?:[.,]([0-9]+))? ?(kg|g)", mass, re.IGNORECASE)
    if not found or not (found[1] or found[2]):
        raise _Wrong(f"{mass!r} is no weight")
    value = Decimal(f"{(found[1] or '0').replace(' ', '')}.{found[2] or '0'}")
    return _grams(value * (1000 if found[3].lower() == "kg" else 1))


def _tp_place(record, side):
    places = (_text(record.get("route"), "route") or "").split(">")
    if len(places) != 2:
        raise _Wrong("route has not two places")
    place = places[side].strip()
    found = re.fullmatch(r"([A-Z]{2})(?:-([^ ]+))?(?: (.+))?", place)
    if not found:
        raise _Wrong(f"{place!r} is no place")
    return _place(found[1], found[2], found[3])


def _tp_price(record):
    fee = _text(record.get("fee"), "fee")
    if fee is None:
        return None
    found = re.fullmatch(r"([A-Z]{3}) ([0-9.]+)|([0-9.]+) ([A-Z]{3})", fee)
    if not found:
        raise _Wrong(f"{fee!r} is no fee")
    return _price(_decimal(found[2] or found[3], "fee"), found[1] or found[4])


def _tp_sign(record):
    sign = _text(record.get("sign"), "sign")
    return False if sign is None else _chosen(sign.lower(), _TRIPORT_SIGN, "sign")


def _vx_sign(record):
    sign = _text(record.get("SIG"), "SIG")
    return False if sign is None else _chosen(sign.upper(), {"Y": True, "N": False}, "SIG")


def _np_product(record):
    return _chosen(_required(_part(record, "shipment").get("product"), "product"), _NORTHPOST_SERVICE, "product")


def _tp_note(record):
    comment = _text(record.get("comment"), "comment")
    return None if comment == "-" else comment


_FIELDS = {
    "northpost": {
        "tracking_id": lambda record: _tracking_id(_part(record, "shipment").get("barcode")),
        "provider": lambda record: "northpost",
        "status": _np_status,
        "updated_at": _np_updated_at,
        "weight_g": _np_weight,
        "service": _np_product,
        "origin": lambda record: _np_place(record, "sender"),
        "destination": lambda record: _np_place(record, "receiver"),
        "recipient": lambda record: _text(_part(record, "receiver").get("name"), "the name"),
        "price": _np_price,
        "pieces": _np_pieces,
        "signature_required": lambda record: "SIGN" in (_list(record, "services") or []),
        "delivery_attempts": lambda record: sum(event["code"] == "NP07" for event in _np_latest(record)),
        "note": _np_note,
    },
    "velox": {
        "tracking_id": lambda record: _tracking_id(record.get("TRK")),
        "provider": lambda record: "velox",
        "status": lambda record: _vx_code(record, "ST", _VELOX_STATUS),
        "updated_at": _vx_updated_at,
        "weight_g": _vx_weight,
        "service": lambda record: _vx_code(record, "SVC", _VELOX_SERVICE, 2),
        "origin": lambda record: _vx_place(record, "O"),
        "destination": lambda record: _vx_place(record, "D"),
        "recipient": _vx_recipient,
        "price": _vx_price,
        "pieces": lambda record: _counted(record.get("PCS"), "PCS", 1, 1),
        "signature_required": _vx_sign,
        "delivery_attempts": lambda record: _counted(record.get("ATT"), "ATT", 0, 0),
        "note": _vx_note,
    },
    "triport": {
        "tracking_id": lambda record: _tracking_id(record.get("reference")),
        "provider": lambda record: "triport",
        "status": lambda record: _chosen(_required(record.get("state"), "state").lower(), _TRIPORT_STATUS, "state"),
        "updated_at": _tp_updated_at,
        "weight_g": _tp_weight,
        "service": lambda record: _chosen(_text(record.get("speed"), "speed") or "*", _TRIPORT_SERVICE, "speed"),
        "origin": lambda record: _tp_place(record, 0),
        "destination": lambda record: _tp_place(record, 1),
        "recipient": lambda record: _text(record.get("to"), "to"),
        "price": _tp_price,
        "pieces": lambda record: _counted(record.get("boxes"), "boxes", 1, 1),
        "signature_required": _tp_sign,
        "delivery_attempts": lambda record: _counted(record.get("tries"), "tries", 0, 0),
        "note": _tp_note,
    },
}
