"""Parcels of three carriers in one form; see spec.md."""
