"""Shards handed to Slurm, by submitit."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.child import ROOT
from experiments.errors import UserError, on_one_line
from experiments.slurm.node import Errand, measure_shard
from experiments.slurm.options import Options

SHUTDOWN_S = 15  # the warning before the time limit; every row is on disk already


def executor(out: Path, name: str, options: Options) -> Any:
    """Submitit's executor, its files in ``out/slurm/log``.

    Raises:
        UserError: submitit or Slurm is not here, or an option is unknown.
    """
    try:
        import submitit
    except ImportError:
        raise UserError(
            "submitit is not installed: make slurm (for VENV=system: make wheelhouse EXTRA=slurm)"
        ) from None
    if not all(map(shutil.which, ("sbatch", "srun", "squeue"))):
        raise UserError("there is no Slurm here (sbatch, srun, squeue); submit from a login node")
    made = submitit.SlurmExecutor(out.resolve() / "slurm" / "log", max_num_timeout=0)
    asked = {key: getattr(options, key) for key in ("partition", "account", "gres", "constraint")}
    made.update_parameters(
        job_name=name,
        time=options.time,
        cpus_per_task=options.cpus_per_task,
        array_parallelism=options.array_parallelism,
        # a job started again by Slurm could meet its own first run, on a node that was only lost
        # from sight; the submitting side starts it again when asked
        additional_parameters={"no-requeue": True, **(options.more or {})},
        setup=[*_surroundings(), *options.setup],
        wckey=None,
        signal_delay_s=SHUTDOWN_S,
        **{key: str(value) for key, value in asked.items() if value is not None},
    )
    return made


def submit(made: Any, errands: Sequence[Errand]) -> list[str]:
    """Submits one array of jobs and gives their Slurm numbers.

    Raises:
        UserError: Slurm refuses, in its own words.
    """
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return [job.job_id for job in made.map_array(measure_shard, errands)]
    except Exception as error:  # submitit's own, by no common base
        words = on_one_line(said.getvalue() or str(error)).replace("sbatch: error: ", "")
        raise UserError(f"Slurm takes no job: {words}") from None


def _surroundings() -> list[str]:
    """Lines of the batch script: the checkout, whatever the site does with the environment."""
    given = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(ROOT), *filter(None, [given])])
    cpus = "SLURM_CPUS_PER_TASK"  # srun takes it from sbatch by another name alone
    return [
        f"cd {shlex.quote(os.getcwd())}",
        f"export PYTHONPATH={shlex.quote(path)}",
        f'[ -z "${cpus}" ] || export SRUN_CPUS_PER_TASK="${cpus}"',
    ]


def plain(text: str) -> str:
    """Text as a name of Slurm's."""
    return re.sub(r"[^\w.-]", "_", text)
