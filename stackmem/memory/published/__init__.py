"""Strategies of published systems, one a file; docs/strategies.md says how near each is to its source."""
