"""What every language needs: values as facts and texts, YAML with places, findings, readings, artifacts."""
