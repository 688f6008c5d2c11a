"""Analyzes a user's own check and its test results, so that its exit code can be trusted."""
