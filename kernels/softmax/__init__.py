"""Row-wise softmax, with the row's maximum subtracted first. `kernels.functions` has a function."""
