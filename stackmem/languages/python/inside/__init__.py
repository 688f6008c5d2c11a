"""The modules that run in the sandbox, inside the program's process. They import the standard library only."""
