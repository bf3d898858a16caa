"""Copying a matrix: the least a kernel can do, and so the roof of all others."""
