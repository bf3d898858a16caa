"""What no kernel is faster than: moving a matrix, multiplying, and taking exponentials."""
