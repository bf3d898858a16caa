"""The project's Hydra launchers: they take all jobs of a sweep at once and run them as one.

Hydra finds launchers only in a package of this name; the work is in ``experiments``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

if TYPE_CHECKING:
    from experiments.sweep.jobs import Job


class SweepLauncher(Launcher):
    """Hands a sweep's jobs to `experiments.sweep.driver.run`.

    Attributes:
        cards: Indices of the cards that shards are dealt to, or ``all``.
    """

    def __init__(self, cards: Any = (0,)) -> None:
        self.cards = cards

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Keeps what composing a job needs, and the hour: composing many jobs takes seconds."""
        self.began = time.perf_counter()
        self.search_path = hydra_context.config_loader.get_search_path()
        self.config = config
        self.request = OmegaConf.to_yaml(config)

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Runs all jobs.

        Raises:
            UserError: something asked for cannot be done; nothing was measured.
            SweepFailed: a point has no row of expected status.
        """
        from experiments.sweep.composing import compose_all
        from experiments.sweep.jobs import job_from
        from experiments.sweep.loader import SweepLoader

        loader = SweepLoader(self.search_path)

        def compose(overrides: list[str]) -> Job:
            return job_from(loader.load_sweep_config(self.config, overrides), overrides)

        self.act(compose_all(job_overrides, compose), compose)
        done = JobReturn(status=JobStatus.COMPLETED)
        done.return_value = None
        return [done] * len(job_overrides)

    def act(self, jobs: Sequence[Job], compose: Callable[[list[str]], Job]) -> None:
        """Measures the jobs; another launcher may do something else with them."""
        from experiments.sweep.driver import run

        run(jobs, compose, self.cards, self.began, self.request)


class ProfileLauncher(SweepLauncher):
    """Hands a sweep's jobs to `experiments.profile.profiling.profile`."""

    def act(self, jobs: Sequence[Job], compose: Callable[[list[str]], Job]) -> None:
        """Calls each point inside a profiler range."""
        from experiments.profile.profiling import profile

        profile(jobs, compose, self.cards)
