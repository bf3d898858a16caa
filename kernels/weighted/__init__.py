"""A softmax and what it weighs: what attention does with a row of its scores."""
