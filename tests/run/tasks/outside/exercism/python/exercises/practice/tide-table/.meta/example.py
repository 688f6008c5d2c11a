def high_waters(levels):
    if not levels:
        raise ValueError("no levels")
    return [hour for hour in range(1, len(levels) - 1) if levels[hour - 1] < levels[hour] > levels[hour + 1]]
