def high_waters(levels):
    pass
