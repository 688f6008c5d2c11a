"""JSON Schema checks with a bounded cost, and messages about values that do not fit."""
