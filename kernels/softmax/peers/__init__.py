"""Softmax of public libraries, called as they publish it."""
