"""Sharing an amount out over the lines of an invoice."""


def allocate(total, weights):
    """Shares of ``total`` cents, one per weight and in proportion to it; together they are the total."""
    if any(weight > 0 for weight in weights) and any(weight < 0 for weight in weights):
        raise ValueError("lines of different signs cannot share an amount")
    whole = sum(weights)
    if whole == 0:
        if total:
            raise ValueError("there is nothing to share the amount over")
        return [0] * len(weights)
    # In absolute values, so that a credit note is the mirror of its invoice (R5); fractions compare as integers (R3).
    sign = -1 if total < 0 else 1
    parts = [divmod(abs(total) * abs(weight), abs(whole)) for weight in weights]
    left = abs(total) - sum(share for share, _ in parts)
    by_loss = sorted(range(len(parts)), key=lambda line: -parts[line][1])  # stable: of equal losses, the first line
    lucky = set(by_loss[:left])
    return [sign * (share + (line in lucky)) for line, (share, _) in enumerate(parts)]
