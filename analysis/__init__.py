"""Turns recorded rows into figures, tables, judged claims and an HTML report."""

import experiments  # noqa: F401 - it prints a missing package in one line
from analysis.load import load as load
