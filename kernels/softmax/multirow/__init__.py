"""Several narrow rows a program."""
