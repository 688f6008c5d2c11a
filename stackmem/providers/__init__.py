"""What speaks with model providers: their wire formats, calls written as text, repairs of replies."""
