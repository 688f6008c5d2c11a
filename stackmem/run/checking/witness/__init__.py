"""What every Python process of a check imports first: this folder is put on its PYTHONPATH, and holds nothing else."""

REPORT = "STACKMEM_CHECK_REPORT"
"""The variable that names the file for the report."""
