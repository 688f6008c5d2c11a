"""APL: procedures in YAML, executed step by step by code; a model is asked only where a step needs judgement."""
