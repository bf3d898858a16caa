"""Counted traffic: a call executed with every request to memory written down."""
