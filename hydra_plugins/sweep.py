"""The project's Hydra sweeper and launchers: they take all jobs of a sweep at once.

Hydra finds plugins only in a package of this name; the work is in ``experiments``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

# How a list of values becomes jobs is Hydra's to define, and has no public name.
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from experiments.errors import UserError

if TYPE_CHECKING:
    from experiments.sweep.jobs import Compose, Job


class Sweeper(BasicSweeper):
    """Makes jobs of lists of values, and hands all of them to the launcher.

    Hydra's own composes every job before it launches any, for launchers that take them one by one;
    ours compose them all before any work starts. Hydra's also writes ``multirun.yaml``; ours do so
    when they hold the sweep's folder, where another sweep may be running.
    """

    def sweep(self, arguments: list[str]) -> Sequence[JobReturn]:
        """Runs the sweep that the arguments and the preset's parameters describe."""
        assert self.hydra_context is not None
        if not isinstance(self.launcher, SweepLauncher):
            assert self.config is not None
            chosen = self.config.hydra.runtime.choices["hydra/launcher"]
            raise UserError(f"hydra/launcher={chosen} measures nothing; --help lists those that do")
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        overrides = parser.parse_overrides([*self._parse_config(), *arguments])
        [jobs] = self.split_arguments(overrides, max_batch_size=None)
        return self.launcher.launch(jobs, initial_job_idx=0)


class SweepLauncher(Launcher):
    """Hands a sweep's jobs to `experiments.sweep.driver.run`.

    Attributes:
        cards: Indices of the cards to use, or ``all``.
    """

    def __init__(self, cards: Any = (0,)) -> None:
        self.cards = cards

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Keeps what composing a job needs, and the time: composing many jobs takes seconds."""
        self.began = time.perf_counter()
        self.loader = hydra_context.config_loader
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
        from experiments.sweep.jobs import composer, own_overrides

        compose = composer(self.loader, self.config)
        self.act(map(compose, own_overrides(job_overrides)), compose)
        done = JobReturn(status=JobStatus.COMPLETED)
        done.return_value = None
        return [done] * len(job_overrides)

    def act(self, jobs: Iterator[Job], compose: Compose) -> None:
        """Measures the jobs, each composed as it is taken; other launchers do something else."""
        from experiments.sweep.driver import run

        run(jobs, compose, self.cards, self.began, self.request)


class ProfileLauncher(SweepLauncher):
    """Calls each point inside a profiler range: `experiments.profile.profiling.profile`.

    Attributes:
        only: The label of the one kernel whose points are called, None for all.
    """

    def __init__(self, cards: Any = (0,), only: str | None = None) -> None:
        super().__init__(cards)
        self.only = only

    def act(self, jobs: Iterator[Job], compose: Compose) -> None:
        """Profiles the jobs."""
        from experiments.profile.profiling import profile

        profile(list(jobs), compose, self.cards, self.only)


class SlurmLauncher(SweepLauncher):
    """Hands a sweep's shards to Slurm: `experiments.slurm.submit.run`."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = {
            key: OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
            for key, value in options.items()
        }

    def act(self, jobs: Iterator[Job], compose: Compose) -> None:
        """Submits the jobs by shards and waits for them."""
        from experiments.slurm.submit import run

        run(list(jobs), compose, self.options, self.request)
