"""One row for a cluster of programs."""
