"""HTML pages about runs, made from their traces, and the documents."""
