"""The report of a bench: success and cost of its strategies as a page, Markdown, or a spreadsheet."""
