"""The one door for files from outside: opened beneath a directory, bounded, as what they claim to be."""
