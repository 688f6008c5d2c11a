"""The loop agent: one JSON decision a turn, over a structured payload; the decisions are carried out by code."""
