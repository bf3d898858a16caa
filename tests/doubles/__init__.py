"""Kernels that misbehave on purpose, each in one way, run through the real command line."""
