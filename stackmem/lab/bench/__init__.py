"""Benchmarks: the matrix of trials, the engines that run them, and their results and statistics."""
