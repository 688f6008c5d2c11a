"""The doors: how other programs reach stackmem, one protocol each."""
