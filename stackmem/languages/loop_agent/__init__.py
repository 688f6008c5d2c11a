"""The loop agent: a model returns one JSON decision per turn over a structured payload, and code carries it out."""
