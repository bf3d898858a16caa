"""``claims``: see `analysis.claims.command`."""

from analysis.claims.command import run

__all__ = ["run"]
