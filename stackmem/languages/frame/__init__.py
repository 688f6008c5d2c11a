"""Helpers shared by the languages: values as events and text, YAML with positions, findings, readings, artifacts."""
