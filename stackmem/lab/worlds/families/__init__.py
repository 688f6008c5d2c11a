"""The families of worlds, one a file; ``stackmem/lab/worlds/make.py`` lists them."""
