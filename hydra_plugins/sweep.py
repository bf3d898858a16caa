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
from hydra.core.override_parser.types import ChoiceSweep, Glob
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from experiments.errors import UserError
from experiments.sweep.config import OTHER_LAUNCHER

if TYPE_CHECKING:
    from experiments.sweep.jobs import Job


class Sweeper(BasicSweeper):
    """Makes jobs of lists of values, and hands all of them to the launcher.

    Hydra's own composes every job before it launches any, for launchers that take them one by one;
    ours compose them all before any work starts. Hydra's also writes ``multirun.yaml``; ours do so
    when they hold the sweep's folder, where another sweep may be running.
    """

    def sweep(self, arguments: list[str]) -> Sequence[JobReturn]:
        """Runs the sweep that the arguments and the preset's parameters describe.

        Raises:
            UserError: another launcher was chosen.
        """
        assert self.hydra_context is not None
        if not isinstance(self.launcher, SweepLauncher):
            assert self.config is not None
            chosen = self.config.hydra.runtime.choices["hydra/launcher"]
            raise UserError(f"hydra/launcher={chosen} {OTHER_LAUNCHER}")
        loader = self.hydra_context.config_loader
        parser = OverridesParser.create(config_loader=loader)
        overrides = parser.parse_overrides([*self._parse_config(), *arguments])
        for override in overrides:
            value = override.value()
            if isinstance(value, ChoiceSweep):  # which Hydra takes as names alone
                files = loader.get_group_options(override.key_or_group)
                chosen = (
                    one.filter(files) if isinstance(one, Glob) else [one] for one in value.list
                )
                value.list = [name for names in chosen for name in names]
        [jobs] = self.split_arguments(overrides, max_batch_size=None)
        return self.launcher.launch(jobs, initial_job_idx=0)


class SweepLauncher(Launcher):
    """Hands a sweep's jobs to `experiments.sweep.driver.run`.

    Attributes:
        cards: Indices of the cards to use, or ``all``.
        roofs: Whether jobs without a roof get one.
    """

    roofs = True

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
        from experiments.sweep.jobs import composer, own_overrides, with_roofs

        own = own_overrides(job_overrides)
        if not own:
            raise UserError("no job is asked for: a list or a glob of the command has no value")
        compose = composer(self.loader, self.config)
        jobs = map(compose, own)
        self.act(with_roofs(jobs, compose) if self.roofs else jobs)
        done = JobReturn(status=JobStatus.COMPLETED)
        done.return_value = None
        return [done] * len(job_overrides)

    def act(self, jobs: Iterator[Job]) -> None:
        """Measures the jobs, each composed as it is taken; other launchers do something else."""
        from experiments.sweep.driver import run

        run(jobs, self.cards, self.began, self.request)


class ProfileLauncher(SweepLauncher):
    """Calls each point inside a profiler range: `experiments.profile.profiling.profile`."""

    roofs = False

    def act(self, jobs: Iterator[Job]) -> None:
        """Profiles the jobs."""
        from experiments.profile.profiling import profile

        profile(list(jobs), self.cards)


class SlurmLauncher(SweepLauncher):
    """Hands a sweep's shards to Slurm: `experiments.slurm.submit.run`."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options: Any = OmegaConf.to_container(OmegaConf.create(options))

    def act(self, jobs: Iterator[Job]) -> None:
        """Submits the jobs by shards and waits for them."""
        from experiments.slurm.submit import run

        run(list(jobs), self.options, self.request)
