"""The laboratory: benchmarks, generated worlds, simulated models, and comparisons."""
