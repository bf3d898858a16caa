"""Cross-entropy of the rows of a matrix of logits, its gradient, and what policy gradients need."""
