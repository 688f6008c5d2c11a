"""Protocol adapters through which other programs reach stackmem, one per package."""
