"""`softmax(x)`: the variants as a function that PyTorch can differentiate and compile."""
