"""The families of worlds, one per file. ``stackmem/lab/worlds/make.py`` lists them."""
