"""This folder contains other benchmarks' tasks, whose tests are not ours."""

collect_ignore_glob = ["*"]
