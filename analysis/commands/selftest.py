"""``selftest``; see `analysis.compare.selftest_report`."""

from analysis.compare.selftest_report import run as run
