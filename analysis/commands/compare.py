"""``compare``; see `analysis.compare.command`."""

from analysis.compare.command import run as run
