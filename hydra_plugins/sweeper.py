"""The project's Hydra sweeper: Hydra's own, whose jobs are composed once.

Hydra finds sweepers only in a package of this name.
"""

from __future__ import annotations

from collections.abc import Sequence

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn


class Sweeper(BasicSweeper):
    """Makes jobs of lists of values, and leaves it to the launcher whether they compose.

    Hydra composes every job before it launches any, for launchers that take them one by one.
    Ours take all jobs at once, and compose them all before any work starts. Hydra also writes
    ``multirun.yaml``; ours write it when they hold the sweep's folder, which may be another's.
    """

    def sweep(self, arguments: list[str]) -> Sequence[JobReturn]:
        """Hands all jobs to the launcher."""
        assert self.hydra_context is not None
        assert self.launcher is not None
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        overrides = parser.parse_overrides([*self._parse_config(), *arguments])
        [jobs] = self.split_arguments(overrides, max_batch_size=None)
        return self.launcher.launch(jobs, initial_job_idx=0)
