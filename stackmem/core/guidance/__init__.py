"""What the machine tells a model that goes wrong: the corrected call, and that it goes round in a circle."""
