"""Attention, forward: softmax between two matrix products, and what its memory has to move."""
