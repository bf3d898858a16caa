"""Turns recorded rows into figures, tables, judged claims and an HTML report."""

from analysis.load import load as load
