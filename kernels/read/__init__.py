"""Reading a matrix: the roof of operations that write next to nothing."""
