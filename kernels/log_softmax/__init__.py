"""Log-softmax of the rows of a matrix, and the logarithm of the sum of their exponentials."""
