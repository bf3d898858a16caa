"""Exponentials and hardly anything else: the roof of what takes many."""
