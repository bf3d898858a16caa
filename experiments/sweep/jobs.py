"""A job: one kernel over one grid in some dtypes on one card, as Hydra composed it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from experiments.data.jobs import expand
from experiments.errors import UserError
from experiments.sweep.checks import check, check_choices


@dataclass(frozen=True)
class Job:
    """One Hydra job.

    Attributes:
        kernel: Name of the kernel's configuration, and its twin's mark if any, as rows spell it.
        label: The kernel with the tunables set for this job, e.g. ``online,block_size=4096``.
        grid: Name of the grid.
        dtypes: Names of the dtypes to run.
        gpu: Name of the card's configuration.
        variation: What else the overrides say of it, so that jobs that differ have two folders.
        shapes: Pairs (M, N).
        config: The whole resolved configuration.
        overrides: What it was composed from.
    """

    kernel: str
    label: str
    grid: str
    dtypes: tuple[str, ...]
    dtype: str
    gpu: str
    variation: str
    shapes: tuple[tuple[int, int], ...]
    config: dict[str, Any]
    overrides: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its place among the jobs of a sweep, also its folder below ``out``."""
        place = f"{self.grid}/{self.dtype}-{self.gpu}"
        return "/".join(filter(None, [place, self.variation, self.label]))

    @property
    def shard(self) -> tuple[str, str, str]:
        """Jobs of one shard run on one card with their points interleaved."""
        return self.grid, self.gpu, self.variation

    @property
    def neighbours(self) -> tuple[str, str, str, str]:
        """Jobs that differ in nothing but the kernel, and so share a roof."""
        return self.grid, self.dtype, self.gpu, self.variation

    def id(self, sweep: str) -> str:
        """A stable name for trackers: letters, digits and '-'."""
        return hashlib.sha256(f"{sweep}\0{self.name}".encode()).hexdigest()[:16]


def job_from(config: DictConfig, overrides: list[str]) -> Job:
    """Checks a composed configuration and makes it a job.

    Raises:
        UserError: naming the option at fault.
    """
    choices = dict(config.hydra.runtime.choices)
    plain = OmegaConf.masked_copy(config, [str(k) for k in config if k != "hydra"])
    try:
        resolved: dict[str, Any] = OmegaConf.to_container(  # type: ignore[assignment]
            plain, resolve=True, throw_on_missing=True
        )
    except OmegaConfBaseException as error:
        raise UserError(str(error).splitlines()[0]) from error
    resolved.pop("experiment", None)
    check(resolved)
    grid, dtype, gpu = choices["grid"], choices["dtype"], choices["gpu"]
    check_choices({"kernel": choices["kernel"], "grid": grid, "dtype": dtype, "gpu": gpu})
    kernel = "-".join(filter(None, [choices["kernel"], resolved["twin"]]))
    try:
        shapes = expand(resolved["grid"])
    except ValueError as error:
        raise UserError(f"grid={grid}: {error}") from error
    tunables, others = _split(overrides)
    return Job(
        kernel=kernel,
        label=_safe(",".join([kernel, *tunables])),
        grid=grid,
        dtypes=tuple(resolved["dtype"]["names"] or resolved["grid"]["dtypes"]),
        dtype=dtype,
        gpu=gpu,
        variation=_safe(",".join(others)),
        shapes=tuple(shapes),
        config=resolved,
        overrides=tuple(overrides),
    )


def roof_overrides(job: Job, roof: str) -> list[str]:
    """The overrides that compose the roof's job beside a job."""
    kept = [o for o in job.overrides if not re.match(r"[+~]*(kernel[.=]|twin=)", o)]
    return [*kept, f"kernel={roof}"]


# These choose a job's place, or how the sweep is run; they are no variation of what is measured.
_ELSEWHERE = re.compile(
    r"[+~]*(kernel|grid|dtype|gpu|tracker|experiment|name|out|twin|rounds|fresh|seed|remeasure"
    r"|overwrite|only_failed|dry_run|(tracker|hydra)[./].*)="
)


def _split(overrides: list[str]) -> tuple[list[str], list[str]]:
    tunables = sorted(o.lstrip("+")[len("kernel.") :] for o in overrides if "kernel." in o[:9])
    others = [o for o in overrides if "kernel." not in o[:9] and not _ELSEWHERE.match(o)]
    return tunables, sorted(others)


def _safe(text: str) -> str:
    """Text as the name of a folder: plain characters, short, and still distinct."""
    plain = re.sub(r"[^\w.,=+-]", "_", text)
    if plain == text and len(text) <= 80:
        return text
    return f"{plain[:60]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
