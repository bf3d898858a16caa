"""The gradient of row-wise softmax."""
