"""The Hydra launcher that hands a sweep's shards to Slurm; the work is in ``experiments.slurm``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf

from hydra_plugins.sweep_launcher import SweepLauncher

if TYPE_CHECKING:
    from experiments.sweep.jobs import Job


class SlurmLauncher(SweepLauncher):
    """Hands a sweep's jobs to `experiments.slurm.launch.run`."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def act(self, jobs: Sequence[Job], compose: Callable[[list[str]], Job]) -> None:
        """Submits the jobs by shards and waits for them."""
        from experiments.slurm.launch import run
        from experiments.slurm.options import Options

        plain: dict[str, Any] = {
            key: OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
            for key, value in self.options.items()
        }
        run(jobs, compose, Options(**plain), self.request)
