"""Tasks around a run: their images, their soundness, and what an import of them is good for."""
