"""The families of worlds, one a file; ``stackmem/worlds/make.py`` lists them."""
