"""A folder's copy, its trees at each moment, and the patch that brings its changes home."""
