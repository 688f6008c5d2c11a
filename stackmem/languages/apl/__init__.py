"""APL: procedures in YAML that code executes step by step. A model is asked only for steps that need judgment."""
