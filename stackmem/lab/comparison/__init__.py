"""The report of a bench: what its strategies solved and cost, as a page, as Markdown, as a spreadsheet."""
