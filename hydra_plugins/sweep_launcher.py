"""The project's Hydra launcher: it takes all jobs of a sweep at once and runs them as one.

Hydra finds launchers only in a package of this name; the work is in ``experiments.sweep``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class SweepLauncher(Launcher):
    """Hands a sweep's jobs to `experiments.sweep.run`.

    Attributes:
        cards: Indices of the cards that shards are dealt to.
    """

    def __init__(self, cards: Sequence[int] = (0,)) -> None:
        self.cards = list(cards)

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Keeps what composing a job needs, and the hour: composing many jobs takes seconds."""
        self.began = time.perf_counter()
        self.hydra_context = hydra_context
        self.config = config

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Runs all jobs.

        Raises:
            UserError: something asked for cannot be done; nothing was measured.
            SweepFailed: a point has no row of expected status.
        """
        from experiments.jobs import Job, job_from
        from experiments.sweep import run

        loader = self.hydra_context.config_loader

        def compose(overrides: list[str]) -> Job:
            return job_from(loader.load_sweep_config(self.config, overrides), overrides)

        jobs = [compose(list(overrides)) for overrides in job_overrides]
        run(jobs, compose, self.cards, self.began)
        done = JobReturn(status=JobStatus.COMPLETED)
        done.return_value = None
        return [done] * len(job_overrides)
