"""Images and PDF pages for a model: recognized, checked, decoded in a confined process, and stripped of metadata."""
