"""What words of degree are taken to mean: the one place that decides it."""

from __future__ import annotations

ABOUT = 0.10
"""A number said to be about right, or read off a curve, may be off by this share of itself."""

LEAST_GAP = {"significant": 0.10}
"""The least share that a reader may expect of a gap called so; less is within what a GPU's times
vary by between shapes, clocks and runs."""
