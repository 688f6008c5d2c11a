"""Limits that mean the same in several languages. A limit of one language is defined where it applies."""

FILE_BYTES = 10 * 1024 * 1024
"""Size of a file that is read whole, such as a program or its inputs, and of the output of its process."""
TEXT_CHARS = 1_000_000
"""Characters of one text: a typed source, a reply, the result of a template."""
VALUE_CHARS = 10 << 20
"""Characters of a value or a message that is put together from several texts."""
DIGITS = 10_000
"""Decimal digits of one number."""
LEVELS = 200
"""Levels of nested values in inputs, in YAML and in JSON output."""
ROUNDS = 100_000
"""Rounds of one loop."""
SECONDS = 3_600.0
"""Seconds that one command or process may take."""
