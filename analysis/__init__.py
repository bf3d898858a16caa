"""What the rows mean: figures, tables and claims, from recorded rows alone."""

from analysis.load import load as load
