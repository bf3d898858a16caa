"""One row for several programs of a cooperative launch."""
