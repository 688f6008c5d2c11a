"""Imported first by every Python process of a check. PYTHONPATH points here, so keep other modules out of this
folder.
"""

REPORT = "STACKMEM_CHECK_REPORT"
"""Environment variable with the path of the report file."""
