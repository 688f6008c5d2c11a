FATHOM = 1.8288


def in_metres(reading):
    """A reading such as ``3 fm`` or ``5 m`` in metres."""
    amount, unit = reading.split(" ")
    return float(amount) * (FATHOM if unit == "fm" else 1.0)
