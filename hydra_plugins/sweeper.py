"""The project's Hydra sweeper: Hydra's own, whose jobs are composed once.

Hydra finds sweepers only in a package of this name.
"""

from __future__ import annotations

from collections.abc import Sequence

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper


class Sweeper(BasicSweeper):
    """Makes jobs of lists of values, and leaves it to the launcher whether they compose.

    Hydra composes every job before it launches any, for launchers that take them one by one.
    Ours take all jobs at once, and compose them all before any work starts.
    """

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Composes nothing: the launcher does."""
