"""Attention, forward: softmax between two matrix products."""
