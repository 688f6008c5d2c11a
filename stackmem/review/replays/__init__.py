"""What repeats recorded calls or replies for real, and compares them with the recorded ones."""
