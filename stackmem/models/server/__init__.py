"""What is asked of a model server beside the run's own requests."""
