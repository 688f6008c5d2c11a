"""Tool calls that a model makes outside of its native form, and how they are mended."""
