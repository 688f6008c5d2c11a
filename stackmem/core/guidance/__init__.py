"""Help for a model that makes mistakes: corrected calls, and notices about repetition; and the skills that it reads."""
