"""What a check by a JSON Schema costs at most, and what is said of a value that does not fit."""
